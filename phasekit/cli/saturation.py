"""``phasekit saturation``: verify the saturation theorems of softmax and SSA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.output import JsonOption, print_json, print_table, write

if TYPE_CHECKING:
    from phasekit.saturation.slopes import Slope
    from phasekit.saturation.theorem import Theorem
    from phasekit.saturation.verify import Progress, Verification

DEFAULT_TRIALS = 1_500_000


def saturation(
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", help="Random rows, over all theorems together.")
    ] = DEFAULT_TRIALS,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random rows.")] = 0,
    names: Annotated[
        list[str] | None, typer.Option("--theorem", metavar="NAME", help="Only this theorem; may be repeated.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Verify how fast softmax and SSA attention saturate: theorems on their weights, bounds tried to the last digit.

    Every bound is tried at random rows (all patterns of signs, ties, zeros) and at points that an adversary reaches by
    gradient descent on the slack. Verdicts are proven, by rounding errors that are bounded or by intervals of 80
    digits. Exit status 1 if a bound is violated or undecided, or a slope isn't reproduced to three digits.
    """
    from phasekit.saturation import theorems as known
    from phasekit.saturation.slopes import fit_slopes
    from phasekit.saturation.verify import verify

    theorems = [known.get_theorem(name) for name in dict.fromkeys(names)] if names else list(known.THEOREMS)
    with _progress_bar(len(theorems)) as progress:
        found = verify(theorems, trials, seed, progress=progress)
        slopes = fit_slopes(theorems)
    kept = all(side.kept for side in found) and all(slope.reproduced for slope in slopes)
    if json:
        print_json(_document(theorems, found, slopes, trials, seed, kept))
    else:
        _print(theorems, found, slopes, kept)
    if not kept:
        raise typer.Exit(CHECK_FAILED)


def _print(theorems: Sequence[Theorem], found: Sequence[Verification], slopes: Sequence[Slope], kept: bool) -> None:
    from phasekit.saturation.reading import reading

    print_table("Theorems and where they were searched", ["", ""], [[th.name, str(th.domain)] for th in theorems])
    write("\n")
    print_table(
        "Bounds (slack: logarithm of quantity/bound; tightness: the ratio of the two, at best and in the median)",
        ["", "bound", "trials", "attacks", "intervals", "equal", "worst slack", "attacked", "tightness", "median"],
        [_row(side) for side in found],
        [line for side in found for line in _violations(side)],
    )
    write("\n")
    print_table(
        "Slopes, fitted far out and predicted (n = 1.5, b = 0.8)",
        ["", "row", "slope", "fitted", "predicted", "1−p, λ = 10⁶", "limit law"],
        [_slope_row(slope) for slope in slopes],
        [f"NOT REPRODUCED: {slope.theorem}, {slope.case}" for slope in slopes if not slope.reproduced],
    )
    rows = sum(side.random.rows for side in found if side.side != "upper")
    verdict = "all bounds kept, all slopes reproduced" if kept else "FAILED"
    write("\n" + "\n\n".join([*map(_wrapped, reading()), f"{rows} random rows: {verdict}."]) + "\n")


def _row(side: Verification) -> list[Any]:
    random, adversary = side.random, side.adversary
    return [
        side.theorem.name,
        side.side,
        random.rows,
        adversary.rows,
        random.by_intervals + adversary.by_intervals,
        random.equal + adversary.equal,
        f"{random.worst:.2g}",
        f"{adversary.worst:.2g}",
        f"{side.worst.tightness:.6f}",
        f"{random.typical:.3g}",
    ]


def _slope_row(slope: Slope) -> list[Any]:
    fitted = round(slope.fitted, 4) + 0.0  # no "-0.0000"
    return [
        slope.theorem,
        slope.case,
        slope.derivative,
        f"{fitted:.4f}",
        slope.predicted,
        slope.limit,
        slope.limit_predicted,
    ]


def _violations(side: Verification) -> Iterator[str]:
    for verdict in (side.random, side.adversary):
        if not verdict.kept:
            yield (
                f"NOT KEPT: {side.theorem.name}, {side.side}: {verdict.violated} violations, "
                f"{verdict.undecided} undecided of {verdict.rows}"
            )
        for slack, inputs in verdict.examples[:1]:
            yield f"  by {-slack:.3g} at {', '.join(f'{name} = {values}' for name, values in inputs.items())}"


def _document(
    theorems: Sequence[Theorem],
    found: Sequence[Verification],
    slopes: Sequence[Slope],
    trials: int,
    seed: int,
    kept: bool,
) -> dict[str, Any]:
    from dataclasses import asdict

    from phasekit.saturation.reading import crossover_gaps, reading

    return {
        "trials": trials,
        "seed": seed,
        "theorems": [
            {
                "name": theorem.name,
                "title": theorem.title,
                "statement": theorem.statement,
                "quantity": theorem.quantity,
                "domain": str(theorem.domain),
                "bounds": [_side(side) for side in found if side.theorem is theorem],
            }
            for theorem in theorems
        ],
        "slopes": [{**asdict(slope), "reproduced": slope.reproduced} for slope in slopes],
        "crossover": crossover_gaps(),
        "reading": reading(),
        "kept": kept,
    }


def _side(side: Verification) -> dict[str, Any]:
    verdicts = {"random": side.random, "adversary": side.adversary}
    return {
        "side": side.side,
        "kept": side.kept,
        "worst_slack": side.worst.worst,
        "worst_at": side.worst.worst_at,
        "tightness": side.worst.tightness,
        "typical": side.random.typical,
        **{name: verdict.describe() for name, verdict in verdicts.items()},
    }


def _wrapped(text: str) -> str:
    import textwrap

    return textwrap.fill(text, 100)


@contextmanager
def _progress_bar(theorems: int) -> Iterator[Progress]:
    """Show on standard error which theorem is at work and how much is done; nothing where nobody watches."""
    from phasekit.progress import bar

    done: dict[str, float] = {}
    with bar("verifying", total=theorems) as shown:

        def update(theorem: Theorem, share: float) -> None:
            done[theorem.name] = share
            shown.show(sum(done.values()), f"verifying {theorem.name:<22}")

        yield update
