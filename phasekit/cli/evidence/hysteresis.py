"""``phasekit evidence hysteresis``: the loop of a sweep of P up and down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phasekit.cli.evidence.options import SizesOption, SweepOptions, takes_sweep
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, in_words, print_json, print_table

if TYPE_CHECKING:
    from phasekit.evidence import Loop


@takes_model(without=("P", "estimator"))
@takes_sweep(draws=40, thin=6, members=4)
def hysteresis(
    options: ModelOptions, *, sizes: SizesOption = None, chains: SweepOptions, json: JsonOption = False
) -> None:
    """Sweep P up and down with chains carried along: at a first-order transition the two ways differ."""
    model = options.model()
    loop = chains.loop(model, sizes)
    split = loop.split()
    area, error = loop.area()
    means = _means(loop)
    rows = [
        {"P": int(P), "up": up, "down": down, "apart": bool(apart > 0)}
        for P, up, down, apart in zip(loop.data.P.to_numpy(), *means, split.to_numpy(), strict=True)
    ]
    document = {"quantity": loop.order, "area": area, "area_error": error, "points": rows}
    if json:
        print_json({"model": model.describe(), **document})
        return
    print_table(
        f"{loop.order} swept up and down ({in_words(model, 'posterior', varied=['P'])})",
        ["P", "up", "down", "in different wells"],
        [[row["P"], row["up"], row["down"], row["apart"]] for row in rows],
        [f"loop area, the integral of down - up over ln P: {area:.3g} ± {error:.1g}"],
    )


def _means(loop: Loop) -> tuple[list[float], list[float]]:
    """Return the mean of the copy order parameter on both ways (its square's, where the sign is a symmetry)."""
    data = loop.data
    values = data["aG"] if loop.order == "aG" else data["cG"] ** 2
    up, down = (values.sel(direction=way).mean(("dataset", "chain", "draw")).to_numpy() for way in ("up", "down"))
    return up.tolist(), down.tolist()
