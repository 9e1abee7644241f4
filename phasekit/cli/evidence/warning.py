"""``phasekit evidence warning``: whether growing fluctuations announce the transition."""

from __future__ import annotations

from typing import Annotated

import typer

from phasekit.cli.evidence.options import SizesOption, SweepOptions, takes_sweep
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, in_words, print_json, print_table, working


@takes_model(without=("P", "estimator"))
@takes_sweep(draws=60, thin=8, members=6)
def warning(
    options: ModelOptions,
    *,
    sizes: SizesOption = None,
    event: Annotated[
        float | None, typer.Option("--event", help="P of the event; only smaller ones count. Default: the transition.")
    ] = None,
    chains: SweepOptions,
    json: JsonOption = False,
) -> None:
    """Tell whether growing fluctuations would have announced the transition: variance and lag-1 autocorrelation.

    Each is tested for a trend before the event by Kendall's rank correlation with P; both must have p < 0.05.
    """
    model = options.model()
    from phasekit.evidence import early_warning, posterior_place

    with working("locating the transition"):
        at = posterior_place(model).P if event is None else event
    loop = chains.loop(model, sizes)
    name = "aG" if model.score.normalised else "c1"
    found = early_warning(loop.data[name].isel(dataset=0, drop=True).sel(direction="up"), at)
    trends = {key: {"tau": tau, "p": found.p_value[key], "growth": found.growth[key]} for key, tau in found.tau.items()}
    indicators = found.indicators.to_dict("records")
    if json:
        document = {"quantity": name, "event": at, "warned": found.warned, "trends": trends, "indicators": indicators}
        print_json({"model": model.describe(), **document})
        return
    columns = ["P", "variance", "variance_error", "lag1", "lag1_error", "before"]
    notes = [f"{key}: tau = {t['tau']:.2f}, p = {t['p']:.2g}, growth {t['growth']:.3g}" for key, t in trends.items()]
    print_table(
        f"Indicators of {name} on the way up ({in_words(model, 'posterior', varied=['P'])})",
        columns,
        [[row[column] for column in columns] for row in indicators],
        [*notes, f"{'a warning' if found.warned else 'no warning'} before P = {at:.6g}"],
    )
