"""``phasekit evidence warning``: whether growing fluctuations announce the transition."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.evidence.options import LoopOptions, SizesOption, takes_loop
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, print_json, print_table, working
from phasekit.model import in_words


@takes_model(without=("P", "estimator"))
@takes_loop(draws=60, thin=8, members=6)
def warning(
    options: ModelOptions,
    *,
    sizes: SizesOption = None,
    event: Annotated[
        float | None, typer.Option("--event", help="P of the event; only smaller ones count. Default: the transition.")
    ] = None,
    chains: LoopOptions,
    json: JsonOption = False,
) -> None:
    """Tell whether growing fluctuations would have announced the transition: variance and lag-1 autocorrelation.

    Each is tested for a trend before the event by Kendall's rank correlation with P; both must have p < 0.05.
    Exit status 1 if chains at some P before the event disagree: their fluctuations say nothing.
    """
    model = options.model()
    from phasekit.evidence import early_warning, posterior_passage
    from phasekit.evidence.early_warning import check_trend

    P = chains.sizes(model, sizes)
    check_trend(P, event or math.inf, chains.draws)
    with working("locating the transition"):
        at = posterior_passage(model).P if event is None else event
    check_trend(P, at, chains.draws)
    loop = chains.loop_at(model, P)
    name = "aG" if model.score.normalised else "c1"
    found = early_warning(loop.data[name].isel(dataset=0, drop=True).sel(direction="up"), at)
    trends = {key: {"tau": tau, "p": found.p_value[key], "growth": found.growth[key]} for key, tau in found.tau.items()}
    indicators = found.indicators.to_dict("records")
    if json:
        document = {"quantity": name, "event": at, "warned": None if found.disagree else found.warned}
        document |= {"disagree": list(found.disagree), "trends": trends, "indicators": indicators}
        print_json({"model": model.describe(), **document})
    else:
        verdict = f"{'a warning' if found.warned else 'no warning'} before P = {at:.6g}"
        if found.disagree:
            verdict = f"not to be trusted: chains disagree at P = {', '.join(map(str, found.disagree))}; draw more"
        in_short = "{}: tau = {tau:.2f}, p = {p:.2g}, growth {growth:.3g}"
        notes = [in_short.format(key, **trend) for key, trend in trends.items()]
        print_table(
            f"Indicators of {name} on the way up ({in_words(model, 'posterior', varied=['P'])})",
            list(indicators[0]),
            [list(row.values()) for row in indicators],
            [*notes, verdict],
        )
    if found.disagree:
        raise typer.Exit(CHECK_FAILED)
