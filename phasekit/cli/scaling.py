"""``phasekit scaling``: how a threshold grows with L or V, and which law describes it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from phasekit.cli.axes import SYNTAX, parse_axis, remarks_on
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import (
    ErrorOption,
    JsonOption,
    OutOption,
    TheoryJobsOption,
    as_notes,
    caveat_of,
    default_folder,
    print_json,
    print_table,
    working,
)
from phasekit.errors import InputError
from phasekit.files import output_folder
from phasekit.model import in_words


@takes_model(without=("P",))
def scaling(
    options: ModelOptions,
    axis: Annotated[str, typer.Option("--axis", metavar="AXIS", help=f"What is varied: {SYNTAX}.")],
    threshold: Annotated[
        str | None,
        typer.Option("--threshold", help="P1 or P2 (linear attention), P_star or P_x (normalised scores)."),
    ] = None,
    error: ErrorOption = None,
    jobs: TheoryJobsOption = 1,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Follow a transition's threshold P along one axis: its exponents, and the laws that describe it.

    An exponent is the mean over the last decade of the axis, and its uncertainty the drift from the decade before: the
    thresholds are computed, not sampled, and a power law may hold only in the limit. Laws are ranked by
    their deviations at the thresholds at which all of them have a value, at least 5; those that differ by rounding
    share a rank. Writes NAME.nc, .png, .pdf, .csv.
    """
    name, points = parse_axis(axis)
    if name == "P":
        raise InputError("axis", name, "is what the thresholds are values of; vary V, L, sigma_w, sigma_g or kappa")
    model = options.model(**{name: points[0]})
    quantity = threshold or ("P_star" if model.score.normalised else "P1")
    words = in_words(model, options.estimator, varied=[name, "P"])
    folder = output_folder(out or default_folder("scaling", words))
    from phasekit.theory.diagram import save_dataset
    from phasekit.theory.scaling import compare_laws, scaling_law

    stem = f"{quantity}-{name}"
    with working(f"following {quantity} along {points.size} values of {name}"):
        law = scaling_law(model, quantity, name, points, options.estimator, error=error, jobs=jobs)
        missing = int((np.isnan(law[quantity]) & ~law["failed"]).sum())
        laws = compare_laws(law)
        files = [folder / f"{stem}.nc", *_draw(law, folder / stem)]
        save_dataset(law, files[0])
    measured, note = _exponent(law)
    stated = f"{quantity}_error"
    caveat = caveat_of(model, options.estimator)
    if json:
        described = {field: value for field, value in model.describe().items() if field not in ("P", name)}
        print_json(
            {
                "model": described,
                "estimator": options.estimator,
                **caveat,
                "threshold": quantity,
                "axis": name,
                "values": points,
                quantity: law[quantity].to_numpy(),
                **({stated: law[stated].to_numpy()} if stated in law else {}),
                "local_exponent": law["local_exponent"].to_numpy(),
                "exponent": measured,
                "laws": [asdict(fit) for fit in laws],
                "files": [str(path) for path in files],
            }
        )
        return
    notes = [
        note,
        *remarks_on(axis),
        *as_notes(caveat),
        *([f"no {quantity} at {missing} of {points.size} values"] if missing else []),
    ]
    if stated in law and missing < points.size:
        notes.append(f"error of {quantity}: at most {float((law[stated] / law[quantity]).max()):.1g} of it")
    failed = int(law["failed"].sum())
    notes += [f"the search for it failed at {failed} of {points.size} values"] if failed else []
    shown = ("rank", "prefactor", "exponent", "rms", "worst", "missing")
    print_table(
        f"{quantity} against {name}: laws, best first ({words})",
        ["", "rank", "prefactor", "exponent", "rms deviation of ln P", "largest", "values it lacks"],
        [[fit.law.replace("_", " "), *(getattr(fit, name) for name in shown)] for fit in laws],
        [*notes, *(f"wrote {path}" for path in files)],
    )


def _exponent(law: Any) -> tuple[dict[str, float] | None, str]:
    """Return the exponent for JSON (None if the axis is too short for one) and for people."""
    from phasekit.theory.scaling import exponent

    try:
        found = exponent(law)
    except InputError as error:
        return None, f"no exponent: {error}"
    limit = "" if found.limit is None else f", limit {found.limit:.4f}"
    words = f"{found.value:.4f} (drift {found.drift:.1g}{limit}; local: {found.first:.4f} to {found.last:.4f})"
    return asdict(found), f"exponent over the last decade: {words}"


def _draw(law: Any, stem: Path) -> list[Path]:
    from phasekit.drawing.pictures import draw_local_exponent, draw_scaling_law
    from phasekit.drawing.plotting import COLUMN, new_figure, save, style

    with style():
        figure, (upper, lower) = new_figure(2, width=COLUMN, height=3.8, sharex=True)
        draw_scaling_law(upper, law)
        draw_local_exponent(lower, law)
        upper.legend()
        return save(figure, law, stem)
