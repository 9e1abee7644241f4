"""``phasekit evidence hysteresis``: the loop of chains that are taken up and down in P."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.evidence.options import LoopOptions, SizesOption, takes_loop
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, print_json, print_table
from phasekit.model import in_words

if TYPE_CHECKING:
    from phasekit.evidence import Loop


@takes_model(without=("P", "estimator"))
@takes_loop(draws=40, thin=6, members=4)
def hysteresis(
    options: ModelOptions, *, sizes: SizesOption = None, chains: LoopOptions, json: JsonOption = False
) -> None:
    """Take chains up and down in P, each going on where it ended: at a first-order transition the two ways differ.

    Exit status 1 if the two ways disagree at the first or last P: what they enclose is then no loop.
    """
    model = options.model()
    loop = chains.loop(model, sizes)
    problem = loop.problem()
    columns = zip(
        loop.data.P.to_numpy().tolist(),
        *_means(loop),
        loop.split().to_numpy().tolist(),
        loop.verdicts().isel(dataset=0).to_numpy().tolist(),
        strict=True,
    )
    rows = [
        {"P": int(P), "up": up, "down": down, "apart": apart > 0, "verdict": verdict}
        for P, up, down, apart, verdict in columns
    ]
    names = ("area", "area_error", "work", "work_error")
    numbers: dict[str, float | None] = dict(zip(names, (*loop.area(), *loop.work()), strict=True))
    if problem is not None:
        numbers = dict.fromkeys(numbers)
    if json:
        print_json({"model": model.describe(), "quantity": loop.order, **numbers, "problem": problem, "points": rows})
    else:
        print_table(
            f"{loop.order} on the way up and down ({in_words(model, 'posterior', varied=['P'])})",
            ["P", "up", "down", "in different wells", "chains"],
            [list(row.values()) for row in rows],
            [f"no closed loop: {problem}"] if problem else _in_words(loop),
        )
    if problem is not None:
        raise typer.Exit(CHECK_FAILED)


def _in_words(loop: Loop) -> list[str]:
    """Return what the loop encloses, a line each."""
    (area, area_error), (work, work_error) = loop.area(), loop.work()
    return [
        f"area, the integral of down - up over ln P, in units of {loop.order}: {area:.3g} ± {area_error:.1g}",
        f"work lost, in units of the temperature: {work:.3g} ± {work_error:.1g}",
    ]


def _means(loop: Loop) -> tuple[list[float], list[float]]:
    """Return the mean of the copy order parameter on both ways (its square's, where the sign is a symmetry)."""
    data = loop.data
    values = data["aG"] if loop.order == "aG" else data["cG"] ** 2
    up, down = (values.sel(direction=way).mean(("dataset", "chain", "draw")).to_numpy() for way in ("up", "down"))
    return up.tolist(), down.tolist()
