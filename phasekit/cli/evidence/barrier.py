"""``phasekit evidence barrier``: the free energy along copying, by umbrella sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.evidence.options import (
    DataOption,
    DrawsOption,
    MembersOption,
    SeedOption,
    WarmupOption,
    parse_sizes,
)
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, print_json, print_table, working
from phasekit.extras import require
from phasekit.model import in_words
from phasekit.tasks.copy import check_room

if TYPE_CHECKING:
    from phasekit.evidence import Barrier


@takes_model(without=("P", "estimator"))
def barrier(
    options: ModelOptions,
    size: Annotated[
        str | None, typer.Option("-P", "--P", metavar="NUMBER", help="Training sequences. Default: the transition.")
    ] = None,
    windows: Annotated[int, typer.Option("--windows", min=2, help="Umbrella windows.")] = 20,
    draws: DrawsOption = 200,
    warmup: WarmupOption = 60,
    members: MembersOption = 1,
    leaps: Annotated[int, typer.Option("--leaps", min=1, help="Leapfrog steps of each HMC trajectory.")] = 16,
    bins: Annotated[int, typer.Option("--bins", min=4, help="Bins of the free energy.")] = 36,
    data_seed: DataOption = 0,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Measure the free energy along copying by umbrella sampling, and the barrier between its wells.

    Exit status 1 if windows overlap too little to be joined, chains from the two ends disagree in one, or errors are
    too large to tell whether there is a barrier.
    """
    model = options.model()
    require("pymbar")
    from phasekit.evidence import Undecided, free_energy, posterior_passage, umbrella
    from phasekit.evidence import barrier as find_barrier
    from phasekit.evidence import windows as place_windows
    from phasekit.samplers import HMC

    with working("sampling umbrella windows"):
        P = [float(round(posterior_passage(model).P))] if size is None else parse_sizes(size, least=1, most=1)
        model = model.at(P=P[0])
        check_room(model)
        centres, stiffness = place_windows(model, windows)
        method = HMC(step=0.05, leaps=leaps)
        sampled = umbrella(
            model,
            centres,
            stiffness,
            method,
            draws=draws,
            warmup=warmup,
            members=members,
            data_seed=data_seed,
            seed=seed,
        )
        found = free_energy(sampled, bins)
    wells, undecided = None, None
    try:
        wells = find_barrier(found)
    except Undecided as why:
        undecided = str(why)
    rhat, profile = float(found.rhat.max()), found.profile
    columns = {"a": profile.a.to_numpy(), "F": profile.F.to_numpy(), "error": found.error}
    trusted = found.trusted and undecided is None
    if json:
        heights = None if wells is None else vars(wells)
        checks = {"rhat": rhat, "overlap": found.overlap, "trusted": trusted, "undecided": undecided}
        print_json({"model": model.describe(), "barrier": heights, **checks, "free_energy": columns})
    else:
        name = str(profile.attrs["order"])
        notes = [
            *([undecided] if undecided else _in_words(wells, name)),
            f"largest R-hat of a window {rhat:.3f}, smallest overlap {found.overlap:.2f}",
            *([] if trusted else ["not to be trusted: draw more, or more windows"]),
        ]
        print_table(
            f"Free energy along {name} ({in_words(model, 'posterior')})",
            [name, "F", "error"],
            zip(*(column.tolist() for column in columns.values()), strict=True),
            notes,
        )
    if not trusted:
        raise typer.Exit(CHECK_FAILED)


def _in_words(wells: Barrier | None, name: str) -> list[str]:
    """Return what there is to say about the wells, a line each."""
    if wells is None:
        return ["one well"]
    heights = {
        "F of the high well minus F of the low one, each integrated": wells.difference,
        f"barrier along {name} above the low well": wells.from_low,
        f"barrier along {name} above the high well": wells.from_high,
    }
    return [
        f"wells at {wells.low:.3g} and {wells.high:.3g}, barrier at {wells.top:.3g}",
        *(f"{words}: {value:.2f} ± {error:.2f}" for words, (value, error) in heights.items()),
    ]
