"""``phasekit measure``: thresholds and exponents from the networks in a run store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.checks import in_full
from phasekit.cli import CHECK_FAILED
from phasekit.cli.output import JsonOption, print_json, print_table, working
from phasekit.errors import InputError
from phasekit.scores import write_score

if TYPE_CHECKING:
    from phasekit.measure import Collapse, Estimate, Measurement, PowerLaw, Size
    from phasekit.runs.store.store import Store


def measure(
    store: Annotated[Path | None, typer.Argument(metavar="STORE", help="Folder of the run store.")] = None,
    sweep: Annotated[str | None, typer.Option("--sweep", help="Only this sweep, NAME or NAME:PRESET.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", help="Resamples of the data sets, for error bars.")] = 500,
    own_data: Annotated[
        bool, typer.Option("--own-data/--no-own-data", help="Also compute the onset P1 of the data that were drawn.")
    ] = True,
    collapse: Annotated[bool, typer.Option("--collapse/--no-collapse", help="Also collapse the curves.")] = True,
    verify: Annotated[
        bool, typer.Option("--verify", help="Instead of a store, measure data whose exponents are known.")
    ] = False,
    what: Annotated[bool, typer.Option("--what", help="Only say what can be measured in this store.")] = False,
    json: JsonOption = False,
) -> None:
    """Locate transitions in the data of the networks that a store holds, and fit exponents, with error bars.

    The sweep's file says which: P_star where the energies of both branches cross, P1 where the order parameter sets in,
    P2 where g²/q = 1/2. Error bars come from resampling data sets; the theory's values at the same sizes stand beside.
    Exit status 1 if a threshold could not be located.
    """
    if verify:
        _verify(json)
        return
    if store is None:
        raise InputError("store", None, "missing: name the folder of a run store (or --verify)")
    if resamples < 100:
        raise InputError("resamples", resamples, "must be at least 100")
    from phasekit.measure import measure_store
    from phasekit.runs.store.store import Store

    opened = Store.open(store)
    if what:
        _say_what(opened, sweep, json)
        return
    with working(f"measuring {store}"):
        found = measure_store(
            opened, sweep, resamples=resamples, collapse_resamples=50 if collapse else 0, own_data=own_data
        )
    if json:
        print_json({"store": str(store), "resamples": resamples, "measurements": [_document(one) for one in found]})
    else:
        for k, one in enumerate(found):
            _show(one, "\n" if k else "")
    if any(size.measured is None for one in found for size in one.sizes):
        raise typer.Exit(CHECK_FAILED)


def _document(one: Measurement) -> dict[str, Any]:
    sizes = [{**asdict(size), "model": size.model.describe()} for size in one.sizes]
    return {**asdict(one), "sizes": sizes}


def _show(one: Measurement, before: str) -> None:
    axis = one.along or "L"
    own = any(size.own_data is not None for size in one.sizes)
    columns = [axis, "measured", "theory (map)", "off by", *(["on these data", "off by"] if own else []), ""]
    rows = [_row(size, own) for size in one.sizes]
    first = one.sizes[0].model
    unusual = [name for name in ("sigma_w", "sigma_g", "kappa") if getattr(first, name) != 1]
    fixed = ", ".join(f"{name} = {in_full(getattr(first, name))}" for name in ("V", "L", *unusual) if name != axis)
    models = f"{write_score(first.score)}, {first.inputs}, {fixed}"
    title = f"{one.quantity} ({one.meaning}), {models}, {one.data_sets} data sets"
    print_table(f"{before}{one.sweep} ({one.preset}): {title}", columns, rows, [NOTE, *_laws(one), *_warnings(one)])


def _row(size: Size, own: bool) -> list[Any]:
    row: list[Any] = [size.size, _with_error(size.measured), size.theory, _deviation(size.measured, size.theory)]
    if own:
        there = None if size.own_data is None else size.own_data.value
        row += [_with_error(size.own_data), _deviation(size.measured, there)]
    return [*row, size.reason]


NOTE = "errors: statistical (data sets) ± interpolation; exponents use both. off by: measured against the column before"


def _laws(one: Measurement) -> list[str]:
    if one.exponent is None:
        return []
    name = f"{one.quantity} ~ {one.along}^a"
    lines = [f"{name}:  measured {_law(one.exponent)}"]
    if one.predicted is not None:
        pull = (one.exponent.exponent - one.predicted.exponent) / one.exponent.error
        lines.append(f"    theory at these sizes a = {one.predicted.exponent:.4f} ({pull:+.1f} standard errors)")
    if one.own_data is not None:
        pull = (one.exponent.exponent - one.own_data.exponent) / one.exponent.error
        lines.append(f"    onset of these data   a = {one.own_data.exponent:.4f} ({pull:+.1f} standard errors)")
    if one.collapse is not None:
        lines.append(f"    collapse of curves: {_collapse(one.collapse)}")
        if one.collapse.reference is not None:
            a, b, S = one.collapse.reference
            lines.append(f"    collapse of theory, at these sizes and errors: a = {a:.4f}, b = {b:.3f}, S = {S:.3g}")
    return lines


def _law(law: PowerLaw) -> str:
    return (
        f"a = {law.exponent:.4f} ± {law.error:.4f} (chi² = {law.chi_square:.3g} for {law.degrees} degrees of freedom)"
    )


def _collapse(found: Collapse) -> str:
    (a_low, a_high), (b_low, b_high) = found.a_interval, found.b_interval
    return (
        f"a = {found.a:.4f} ± {found.a_error:.4f} (95 %: {a_low:.4f} to {a_high:.4f}), "
        f"b = {found.b:.3f} ± {found.b_error:.3f} (95 %: {b_low:.3f} to {b_high:.3f}), S = {found.quality:.3g}"
    )


def _warnings(one: Measurement) -> list[str]:
    lines = [f"{one.missing} tasks of the sweep are not in the store"] if one.missing else []
    return [*lines, *(f"broken: {task}: {reason}" for task, reason in one.broken.items())]


def _with_error(estimate: Estimate | None) -> str | None:
    return None if estimate is None else f"{estimate.value:.6g} ± {estimate.error:.2g} ± {estimate.interpolation:.1g}"


def _deviation(measured: Estimate | None, other: float | None) -> str | None:
    return None if measured is None or other is None or other != other else f"{measured.value / other - 1:+.2%}"


def _say_what(store: Store, sweep: str | None, json: bool) -> None:
    """Print which thresholds the sweeps of a store are made for, and along which number."""
    from phasekit.measure.observables import QUANTITIES
    from phasekit.runs.store.plan import latest_plans

    plans = latest_plans(store, sweep)
    rows = [
        {"sweep": plan.sweep, "preset": plan.preset, "measured": name, "along": plan.about.along}
        for plan in plans
        for name in plan.about.measure or ["nothing: its file doesn't say"]
    ]
    if json:
        print_json({"store": str(store.path), "measured": rows, "known": sorted(QUANTITIES)})
        return
    notes = [f"a sweep's file may ask for {', '.join(sorted(QUANTITIES))} (measure = …)"]
    print_table("What is measured", list(rows[0]), [list(row.values()) for row in rows], notes)


def _verify(json: bool) -> None:
    from phasekit.measure.verify import COLUMNS, study

    with working("measuring data with known exponents"):
        rows = study()
    if json:
        print_json({"studies": rows})
    else:
        notes = [
            "pull: (measured − true)/error; its mean should be 0, its spread 1 (more for few data sets).",
            "68 %, 95 %: how often the true value lay within one error, and within the 95 % interval.",
        ]
        print_table("Data with known exponents", COLUMNS, [[row[name] for name in COLUMNS] for row in rows], notes)
