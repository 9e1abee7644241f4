"""``phasekit endpoint``: where a line of first-order transitions ends."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import typer

from phasekit.cli import CHECK_FAILED, DONE, NO_ANSWER
from phasekit.cli.axes import SYNTAX, axis_names, parse_axis, remarks_on
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import ErrorOption, JsonOption, TheoryJobsOption, print_json, print_table, working
from phasekit.errors import InputError
from phasekit.model import Model, in_words

_PROOF = (
    "gradient, softest, tilt: first, second and third derivative of the action in the softest direction, in units of "
    "the prior's (tilt: change of softest per unit of ln g); 0, 0 and not 0 at an endpoint"
)


@takes_model(without=("P",))
def endpoint(
    options: ModelOptions,
    between: Annotated[
        str,
        typer.Option("--between", metavar="NAME=LOW..HIGH", help="Which number moves, and where to look: n=1.01..8."),
    ],
    axis: Annotated[str | None, typer.Option("--axis", metavar="AXIS", help=f"One more axis: {SYNTAX}.")] = None,
    exponents: Annotated[
        bool, typer.Option("--exponents", help="Measure how the jump closes, and how aG moves with P (no --axis).")
    ] = False,
    error: ErrorOption = None,
    jobs: TheoryJobsOption = 1,
    json: JsonOption = False,
) -> None:
    """Find where first-order transitions end and the passage becomes smooth: the critical point, a cusp of the action.

    For SSA the number that moves is n (--score ssa --b 1 --between n=1.01..8), for softmax L or the temperature. All
    else is fixed, or varied along --axis. Of the posterior (--estimator posterior) an endpoint takes seconds: its rows
    are integrated at every step of the search; --error is that of the number that moves, which is stated beside it.
    Exit status 1 if there is no endpoint, 3 if the search failed.
    """
    name, low, high = _interval(between)
    name_of_axis, points = (None, None) if axis is None else parse_axis(axis)
    along = {} if points is None or name_of_axis is None else {name_of_axis: float(points[0])}
    varied = {name: low, **along}
    _model(options, {name: high, **along})  # the far end must be a model, too
    model = _model(options, varied)
    from phasekit.theory.transitions import Family, critical_endpoint, critical_exponents

    if exponents and axis is not None:
        raise InputError("exponents", True, "are measured for one model; leave out --axis")
    family = Family(name, (low, high))
    models = model if points is None or name_of_axis is None else model.grid(**{name_of_axis: points})
    with working("locating endpoints"):
        found = critical_endpoint(models, family, options.estimator, error=error, jobs=jobs)
        missing, failed = int(np.isnan(found["P"]).sum()), int(found["failed"].sum())
        there = missing < found["P"].size
        approaches = critical_exponents(model, family, options.estimator) if exponents and there else ()
    status = DONE if there else CHECK_FAILED if missing > failed else NO_ANSWER
    names = ("along the line", "across it")
    table = found.to_dataframe() if found.sizes else found.expand_dims("model").to_dataframe()
    rows = table.reset_index().drop(columns=["model", *([] if failed else ["failed"])], errors="ignore")
    measured = [
        {"way": way, "exponent": approach.exponent, "drift": approach.drift}
        for way, approach in zip(names, approaches, strict=False)
    ]
    if json:
        described = {key: value for key, value in model.describe().items() if key not in ("P", *varied)}
        document = {"model": described, "estimator": options.estimator, "axis": name, "between": [low, high]}
        print_json({**document, "endpoints": rows.to_dict(orient="records"), "exponents": measured})
        raise typer.Exit(status)
    notes = [f"the search failed for {failed} of {found['P'].size} models"] if failed else []
    if missing > failed:
        which = "" if missing == found["P"].size else f" for {missing - failed} of {found['P'].size} models"
        notes.append(f"no endpoint{which}: the passage is of the same kind from {name} = {low:g} to {high:g}")
    notes += [f"exponent {one['way']}: {one['exponent']:.5f} (drift {one['drift']:.1g})" for one in measured]
    if there:
        notes.append(_PROOF)
    notes += remarks_on(axis) if axis is not None else []
    title = f"Endpoint in {name} ({in_words(model, options.estimator, varied=['P', *varied])})"
    print_table(title, list(rows.columns), rows.itertuples(index=False), notes)
    raise typer.Exit(status)


def _model(options: ModelOptions, varied: dict[str, float]) -> Model:
    """Return the model with these numbers; L and V, which an endpoint takes for real numbers, rounded."""
    whole = {key: max(2, round(value)) for key, value in varied.items() if key in ("L", "V")}
    return options.model(**{**varied, **whole})


def _interval(text: str) -> tuple[str, float, float]:
    name, equals, ends = text.partition("=")
    name = name.strip().replace("-", "_")
    if name not in axis_names():
        raise InputError("between", text, f"must be written NAME=LOW..HIGH, NAME one of {', '.join(axis_names())}")
    first, dots, last = ends.replace(":", "..", 1).partition("..")  # a colon is how intervals were written before
    try:
        low, high = float(first), float(last)
    except ValueError:
        low = high = float("nan")
    if not equals or not dots or not -math.inf < low < high < math.inf:
        raise InputError("between", text, "must be written NAME=LOW..HIGH, as in n=1.01..8")
    return name, low, high
