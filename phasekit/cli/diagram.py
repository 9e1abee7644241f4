"""``phasekit diagram``: a phase diagram over two numbers of the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phasekit.checks import in_full
from phasekit.cli import CHECK_FAILED
from phasekit.cli.axes import SYNTAX, parse_axis, remarks_on
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import (
    ErrorOption,
    JsonOption,
    OutOption,
    TheoryJobsOption,
    as_notes,
    default_folder,
    print_json,
    print_table,
    working,
)
from phasekit.errors import InputError
from phasekit.files import atomic, output_folder
from phasekit.model import Model, in_words
from phasekit.scores import write_score

if TYPE_CHECKING:
    import xarray as xr

VARIABLES = ("copying_share", "loss", "action", "c1", "cG", "a1", "aG")
#: Phases as the table defines them.
_MEANING = {"pooling": "pooling: g²/q below 1/2", "copying": "copying: g²/q at least 1/2"}


@takes_model()
def diagram(
    options: ModelOptions,
    x: Annotated[str, typer.Option("--x", metavar="AXIS", help=f"Horizontal axis: {SYNTAX}.")],
    y: Annotated[str, typer.Option("--y", metavar="AXIS", help="Vertical axis, written alike.")],
    out: OutOption = None,
    show: Annotated[str, typer.Option("--show", help=f"What colour shows: {', '.join(VARIABLES)}.")] = VARIABLES[0],
    error: ErrorOption = None,
    jobs: TheoryJobsOption = 1,
    json: JsonOption = False,
) -> None:
    """Draw a phase diagram: which minimum of the action wins where, and the transition lines between.

    Copying is where at least half of the attention pattern's squared weight is on the copied position, g²/q ≥ 1/2 (g:
    its mean weight, q: mean sum of a row's squared weights); pooling is where less is. P2 of linear attention is that
    place. A jump P_star may end short of it or beyond, and a crossover is smooth: its steepest point P_x (the largest
    d ln g/d ln P) and P_half of `compare` (loss 1/2) are other conventions and lie elsewhere.

    Writes diagram.nc (everything, labelled), diagram.png and diagram.pdf, diagram.csv (a row per grid point) and, if
    P is an axis, diagram-lines.csv (the transitions). Exit status 1 if a minimum didn't converge, or a
    transition wasn't found.
    """
    (x_name, x_points), (y_name, y_points) = parse_axis(x), parse_axis(y)
    if x_name == y_name:
        raise InputError("axes", f"{x_name} and {y_name}", "must be two different numbers of the model")
    model = options.model(**{x_name: x_points[0], y_name: y_points[0]})
    grid = model.grid(**{x_name: x_points, y_name: y_points})
    words = in_words(model, options.estimator, varied=[x_name, y_name])
    folder = output_folder(out or default_folder("diagram", f"{x_name}-{y_name}, {words}"))
    from phasekit.theory.action import action_for

    known = [name for name in VARIABLES[:3]] + [*action_for(model, options.estimator).order_parameters]
    if show not in known:
        raise InputError("show", show, f"must be one of {', '.join(known)}")
    from phasekit.theory.diagram import phase_diagram, save_dataset

    with working(f"computing {x_points.size} × {y_points.size} models"):
        found = phase_diagram(grid, options.estimator, error=error, jobs=jobs)
        files = [folder / "diagram.nc", *_draw(found, model, x_name, y_name, show, folder)]
        save_dataset(found, files[0])
    unconverged = int((~found["converged"]).sum())
    lost = int(found["lines_failed"].sum()) if "lines_failed" in found else 0
    phases = found.attrs["phases"].split(", ")
    shares = {phase: float((found["phase"] == k).mean()) for k, phase in enumerate(phases)}
    coexisting = float((found["minima"] > 1).mean())
    if json:
        described = {name: value for name, value in model.describe().items() if name not in (x_name, y_name)}
        print_json(
            {
                "model": described,
                "estimator": options.estimator,
                **({"caveat": found.attrs["caveat"]} if "caveat" in found.attrs else {}),
                "axes": {x_name: x_points, y_name: y_points},
                "phases": shares,
                "several_minima": coexisting,
                "unconverged": unconverged,
                "lines_failed": lost,
                "files": [str(path) for path in files],
            }
        )
    else:
        rows = [(_MEANING.get(phase, phase), f"{share:.1%}") for phase, share in shares.items()]
        rows.append(("more than one minimum", f"{coexisting:.1%}"))
        rows.append(("not converged", f"{unconverged} points"))
        rows += [("transitions not found", f"{lost} models")] if lost else []
        title = f"Phase diagram, {x_points.size} × {y_points.size} models ({words})"
        print_table(
            title,
            ["", "share of the grid"],
            rows,
            [*remarks_on(x, y), *as_notes(found.attrs), *(f"wrote {path}" for path in files)],
        )
    if unconverged or lost:
        raise typer.Exit(CHECK_FAILED)


def _draw(found: xr.Dataset, model: Model, x: str, y: str, show: str, folder: Path) -> list[Path]:
    from phasekit.drawing.pictures import draw_phase_diagram, name_phases
    from phasekit.drawing.plotting import LABELS, new_figure, save, style

    lines = [name for name in found.data_vars if str(name).startswith("line_")]
    fixed = [name for name in ("P", "V", "L") if name not in (x, y) and getattr(model, name) is not None]
    with style():
        figure, axes = new_figure()
        mesh = draw_phase_diagram(axes, found, x, y, show)
        name_phases(axes, found, x, y)
        numbers = [f"{LABELS[name]} = {in_full(getattr(model, name))}" for name in fixed]
        words = [write_score(model.score, without=(x, y)), str(found.attrs["estimator"]), *numbers]
        axes.set_title(", ".join(words), loc="left")
        figure.colorbar(mesh, ax=axes, label=LABELS[show])
        if any(axes.get_legend_handles_labels()[0] for axes in figure.axes):
            figure.legend(loc="outside lower center", ncols=3, columnspacing=1.2)
        written = save(figure, found.drop_vars(lines).drop_dims("end", errors="ignore"), folder / "diagram")
    if lines:
        path = folder / "diagram-lines.csv"
        with atomic(path) as temporary:
            _one_row_each(found[lines]).to_dataframe().reset_index().to_csv(temporary, index=False, lineterminator="\n")
        written.append(path)
    return written


def _one_row_each(lines: xr.Dataset) -> xr.Dataset:
    """Give lower and upper spinodals a column each, so that no point of the axis takes two rows."""
    ends = {
        f"{name}_{end}": lines[name].sel(end=end, drop=True)
        for name in lines.data_vars
        if "end" in lines[name].dims
        for end in lines["end"].values
    }
    return lines.drop_dims("end", errors="ignore").assign(ends)
