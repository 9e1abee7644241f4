"""``phasekit evidence susceptibility``: variances of the order parameters beside theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.evidence.options import LoopOptions, SizesOption, takes_loop
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, print_json, print_table
from phasekit.errors import InputError
from phasekit.model import Model, in_words

if TYPE_CHECKING:
    from phasekit.theory.minima import Minima


@takes_model(without=("P", "estimator"))
@takes_loop(draws=60, thin=8, members=6)
def susceptibility(
    options: ModelOptions, *, sizes: SizesOption = None, chains: LoopOptions, json: JsonOption = False
) -> None:
    """Measure the variance of the order parameters against P, well by well, beside theory's inverse Hessian.

    Linear attention, whose sign is a symmetry: the second moment.
    Exit status 1 if the chains of some P neither agree nor settled in two wells: it has no variance then.
    """
    model = options.model()
    from phasekit.evidence import susceptibility as measure
    from phasekit.evidence.hysteresis import ESS_MIN, RHAT_MAX

    loop = chains.loop(model, sizes)
    rows = []
    for P in loop.data.P.to_numpy():
        found = measure(loop.samples(P), rhat_max=RHAT_MAX, ess_min=ESS_MIN).isel(dataset=0)
        theory = _theory(model.at(P=float(P)))
        wells = 2 if str(found.verdict.values) == "coexistence" else 1
        for name in found.quantity.values.tolist():
            for well in range(wells):
                here = found.sel(quantity=name).isel(well=well)
                copying = float(found["mean"].isel(quantity=1, well=well))
                known = None if theory is None else _variance(theory, name, copying)
                row = {"P": int(P), "quantity": name, "verdict": str(found.verdict.values), "well": well}
                rows.append({**row, "variance": float(here.variance), "error": float(here.error), "theory": known})
    if json:
        print_json({"model": model.describe(), "points": rows})
    else:
        print_table(
            f"Variances of the order parameters ({in_words(model, 'posterior', varied=['P'])})",
            list(rows[0]),
            [list(row.values()) for row in rows],
        )
    if any(row["verdict"] == "not mixed" for row in rows):
        raise typer.Exit(CHECK_FAILED)


def _theory(model: Model) -> Minima | None:
    """Return the theory's branches; None where there is no theory of the posterior: samples stand alone then."""
    from phasekit.theory.minima import find_minima

    try:
        return find_minima(model, "posterior")
    except InputError:
        return None


def _variance(theory: Minima, name: str, copying: float) -> float | None:
    """Return the variance of the branch whose copying is nearest to a well's.

    For linear attention that is the second moment, of the lowest branch: samples have both signs.
    """
    spread, means = theory.variance(name), theory.order_parameters
    if spread is None or not theory.converged.all():
        return None
    if "cG" in means:
        return float(spread[0] + means[name][0] ** 2)
    return float(spread[int(abs(means["aG"] - copying).argmin())])
