"""``phasekit evidence barrier``: the free energy along copying, by umbrella sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.evidence.options import (
    RHAT_MAX,
    DataOption,
    DrawsOption,
    MembersOption,
    SeedOption,
    WarmupOption,
    parse_sizes,
)
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, in_words, print_json, print_table, working

if TYPE_CHECKING:
    from phasekit.evidence import Barrier

#: Neighbouring windows that share less than this can't be joined to one free energy.
_OVERLAP_MIN = 0.03


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

    Exit status 1 if windows overlap too little, or chains from the two ends disagree in one: it can't be trusted then.
    """
    model = options.model()
    from phasekit.evidence import barrier as find_barrier
    from phasekit.evidence import free_energy, posterior_place, umbrella
    from phasekit.evidence import windows as place_windows
    from phasekit.samplers import HMC

    with working("sampling umbrella windows"):
        (P,) = [float(round(posterior_place(model).P))] if size is None else parse_sizes(size, least=1, most=1)
        model = model.at(P=P)
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
    wells = find_barrier(found)
    rhat, profile = float(found.rhat.max()), found.profile
    columns = {"a": profile.a.to_numpy(), "F": profile.F.to_numpy(), "error": found.error}
    trusted = rhat <= RHAT_MAX and found.overlap >= _OVERLAP_MIN
    if json:
        heights = None if wells is None else vars(wells)
        checks = {"rhat": rhat, "overlap": found.overlap, "trusted": trusted}
        print_json({"model": model.describe(), "barrier": heights, **checks, "free_energy": columns})
    else:
        name = str(profile.attrs["order"])
        notes = [
            *_in_words(wells),
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


def _in_words(wells: Barrier | None) -> list[str]:
    """Return what there is to say about the wells, a line each."""
    if wells is None:
        return ["one well"]
    heights = {
        "barrier above the low well": wells.from_low,
        "barrier above the high well": wells.from_high,
        "F of the high well minus F of the low one": wells.difference,
    }
    return [
        f"wells at {wells.low:.3g} and {wells.high:.3g}, barrier at {wells.top:.3g}",
        *(f"{words}: {value:.2f} ± {error:.2f}" for words, (value, error) in heights.items()),
    ]
