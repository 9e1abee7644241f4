"""Tables of in-context networks: all scores, interventions, whether collapse predicts error, when the ability appears.

Differences are taken cell by cell (the same seed and prompt) against softmax, or against the unchanged network, with
95 % intervals over seeds and prompts and Holm's correction for the number of arms in a section.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from figures._tables import write_table
from figures.in_context._arms import EVERY, LINEAR, SCORES, Arm, arms, tests
from phasekit.drawing.presets import Preset
from phasekit.measure.arms import Difference, Mean, compare_arms, mean_over_seeds, rank_correlation
from phasekit.measure.bootstrap import student_interval
from phasekit.transformers.evaluation import DEVIANTS, few

TASKS = ((EVERY, "every"), (LINEAR, "linear functions"))
#: Deviant values of this size and more count as large.
_LARGE = 1000.0
#: Shares of the error before training that are left, by which the appearance of an ability is dated.
_BEGUN, _HALF, _DONE = 0.9, 0.5, 0.1


def main(out: Path, preset: Preset) -> list[Path]:
    """Write all sections as CSV and Markdown."""
    numbers, sections = [], []
    for name, word in ((SCORES, "every, 11 points: all scores"), *TASKS):
        table = against(list(arms(preset, name)), "softmax")
        numbers.append(table.assign(section=word))
        sections.append((f"{word}, against softmax", for_people(table)))
    for name, word in TASKS:
        for arm in arms(preset, name)[:2]:
            table = changed(arm)
            numbers.append(table.assign(section=f"{word}: {arm.label} changed"))
            sections.append((f"{word}: {arm.label}, changed after training", for_people(table)))
    for section, make, names in (
        ("does collapse predict error?", predicts, TASKS),
        ("when the ability appears", appearance, ((SCORES, "every, 11 points"), (LINEAR, "linear functions"))),
    ):
        of_tasks = [(word, arm) for name, word in names for arm in arms(preset, name)]
        table = pd.concat([make(arm).assign(task=word) for word, arm in of_tasks], ignore_index=True)
        numbers.append(table.assign(section=section))
        sections.append((section, table.round(3)))
    return write_table(out / "table_in_context", sections, pd.concat(numbers, ignore_index=True))


def columns_of(arm: Arm, intervention: str = "") -> dict[str, NDArray[np.float64]]:
    """Return tables (seeds, prompts): errors like in training, magnified, with a large deviant value, and over all few.

    Squared errors are divided by the trivial one of their test, so that no single shift rules the mean.
    """
    where = {shift: k for shift, k in zip(few(arm.subject.task), _few(arm, intervention), strict=True)}
    errors = {}
    for shift, k in where.items():
        unit = arm.column("trivial")[:, k].mean() if arm.subject.task.loss == "squared" else 1.0
        errors[shift] = arm.errors(k) / unit
    inside = next(iter(errors.values()))
    scaled = [x for shift, x in errors.items() if shift.x_scale > 1 or shift.coefficient_scale > 1]
    large = [x for shift, x in errors.items() if shift.deviant is not None and abs(shift.deviant) >= _LARGE]
    shifted = list(errors.values())[1:]
    return {
        "in distribution": inside,
        "magnified": np.mean(scaled, axis=0),
        "large deviant": np.mean(large, axis=0),
        "all shifts": np.mean(shifted, axis=0),
    }


def _few(arm: Arm, intervention: str) -> list[int]:
    """Return the tests of the few shifts, in their order."""
    law = arm.subject.task.laws[0]
    found = []
    for shift in few(arm.subject.task):
        wanted = {
            "points": shift.points or arm.subject.task.points,
            "x_scale": shift.x_scale,
            "coefficient_scale": shift.coefficient_scale,
            "law": law,
            "deviant": np.nan if shift.deviant is None else shift.deviant,
            "place": -1 if shift.place is None else shift.place,
        }
        found.append(tests(arm, intervention=intervention, **wanted)[0])
    return found


def against(found: list[Arm], reference: str) -> pd.DataFrame:
    """Return one row an arm: its errors, and the paired difference to the reference over all shifts."""
    return _compared({arm.label: columns_of(arm) for arm in found}, reference)


def changed(arm: Arm) -> pd.DataFrame:
    """Return one row for each intervention on an arm's networks, against the unchanged ones."""
    words = list(dict.fromkeys(arm.rows()["intervention"]))
    return _compared({word or "unchanged": columns_of(arm, word) for word in words}, "unchanged")


def _compared(columns: dict[str, dict[str, NDArray[np.float64]]], reference: str) -> pd.DataFrame:
    found = {d.arm: d for d in compare_arms({arm: c["all shifts"] for arm, c in columns.items()}, reference)}
    rows = []
    for arm, of in columns.items():
        row: dict[str, object] = {"arm": arm}
        for name, errors in of.items():
            mean = mean_over_seeds(errors)
            row |= {name: mean.value, f"{name} low": mean.interval[0], f"{name} high": mean.interval[1]}
        rows.append({**row, **_difference(found.get(arm)), "seeds": len(of["all shifts"])})
    return pd.DataFrame(rows)


def _difference(found: Difference | None) -> dict[str, object]:
    if found is None:
        return {"difference": np.nan, "verdict": "reference"}
    low, high = found.mean.interval
    return {
        "difference": found.mean.value,
        "difference low": low,
        "difference high": high,
        "corrected p": found.corrected,
        "resolvable": found.resolvable,
        "verdict": found.verdict,
    }


def for_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of text: means with intervals."""
    shown = pd.DataFrame({"": table["arm"]})
    for name in ("in distribution", "magnified", "large deviant", "all shifts", "difference"):
        shown[name] = [
            "" if np.isnan(value) else f"{value:.3g} [{low:.2g}, {high:.2g}]"
            for value, low, high in table[[name, f"{name} low", f"{name} high"]].to_numpy()
        ]
    shown["corrected p"] = [f"{p:.2g}" if p == p else "" for p in table["corrected p"]]
    return shown.assign(verdict=table["verdict"], seeds=table["seeds"])


def predicts(arm: Arm) -> pd.DataFrame:
    """Return Spearman's correlation of a prompt's contextual mass with its error, for each shift and layer.

    Below 0 if collapsed prompts are the wrong ones; NaN where all prompts have the same error.
    """
    shifts, numbers = few(arm.subject.task), _few(arm, "")
    mass = arm.array("mass").mean(axis=-1)  # (seeds, shifts, prompts, layers)
    rows = []
    for k, (shift, test) in enumerate(zip(shifts, numbers, strict=True)):
        if shift.x_scale in (1.0, 3.0) and shift.deviant not in DEVIANTS[4:5]:
            continue
        for layer in range(mass.shape[-1]):
            found = rank_correlation(mass[:, k, :, layer], arm.errors(test))
            named = f"deviant {shift.deviant:g}" if shift.deviant is not None else f"σ of x = {shift.x_scale:g}"
            rows.append({"arm": arm.label, "shift": named, "layer": layer + 1, **_told("correlation", found)})
    return pd.DataFrame(rows)


def appearance(arm: Arm) -> pd.DataFrame:
    """Return when half of the error before training is gone, and how sharply: from 10 % gone to 90 % gone, in steps.

    Steps are those at which training was watched; the error is on prompts like those of training.
    """
    at, error = arm.array("watched_at")[0], arm.array("watched_answer_error")
    share = error / error[:, :1]
    steps = {level: np.array([_first(at, row < level) for row in share]) for level in (_BEGUN, _HALF, _DONE)}
    rows = {"half gone": steps[_HALF], "from 10 % to 90 % gone": steps[_DONE] - steps[_BEGUN]}
    found: dict[str, object] = {"arm": arm.label}
    for name, values in rows.items():
        error_of = float(values.std(ddof=1) / np.sqrt(len(values)))
        low, high = student_interval(float(values.mean()), error_of, len(values))
        found |= {name: float(values.mean()), f"{name} low": low, f"{name} high": high}
    return pd.DataFrame([{**found, "seeds": len(share)}])


def _first(at: NDArray[np.float64], reached: NDArray[np.bool_]) -> float:
    """Return the first watched step from which on something holds; NaN if it doesn't at the end."""
    behind = np.flatnonzero(~reached)
    last = behind[-1] + 1 if behind.size else 0
    return float(at[last]) if last < len(at) else float("nan")


def _told(name: str, mean: Mean) -> dict[str, object]:
    return {name: mean.value, f"{name} low": mean.interval[0], f"{name} high": mean.interval[1], "seeds": mean.seeds}
