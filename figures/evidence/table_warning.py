"""Early warning: what somebody who watches the fluctuations while data grow would have been told (claim C6).

Variance and lag-1 autocorrelation of an order parameter along the way up of a sweep (hysteresis.py), tested for a
trend before the event by Kendall's τ. Events: the theory's P1 of linear attention, the theory's P* of softmax, and the
P at which the first softmax chain really jumped, past P* because they are caught in the lower well.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from figures._tables import with_error, write_table
from figures.evidence._evidence import loops
from phasekit.drawing.plotting import SYMBOLS
from phasekit.drawing.presets import Preset
from phasekit.evidence import EarlyWarning, early_warning, posterior_passage
from phasekit.theory.transitions import Passage


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the tests and the indicators as CSV and Markdown."""
    tests, indicators = [], []
    for model, loop in loops(preset):
        passage = posterior_passage(model)
        name = "aG" if model.score.normalised else "c1"
        up = loop.data[name].isel(dataset=0, drop=True).sel(direction="up")
        symbol = SYMBOLS[passage.name].strip("$").replace("^", "").replace("_", "")
        events = {f"{symbol} of theory": passage.P}
        jumped = up.P.to_numpy()[(up > _middle(passage)).any(("chain", "draw")).to_numpy()]
        if model.score.normalised and len(jumped):
            events["first jump of a chain"] = float(jumped[0])
        for event, at in events.items():
            found = early_warning(up, at)
            labels = {"score": model.score.name, "L": model.L, "quantity": name, "event": event, "P of the event": at}
            tests.append({**labels, "sizes before": int(found.indicators["before"].sum()), **_numbers(found)})
        indicators.append(found.indicators.assign(score=model.score.name, L=model.L, quantity=name))
    told, table = pd.DataFrame(tests), pd.concat(indicators, ignore_index=True)
    sections = [("Early warning", _tests_for_people(told)), ("Indicators on the way up", _for_people(table))]
    numbers = pd.concat([told.assign(part="test"), table.assign(part="indicator")], ignore_index=True)
    notes = [
        "τ: Kendall's rank correlation of the indicator with P over the sizes before the event; p: one-sided. A "
        "warning is given if both have p < 0.05.",
        "growth: last value before the event over the first (of the autocorrelation: difference).",
        "Errors are standard errors over independent chains; every P has data of its own.",
    ]
    return write_table(out / "table_warning", sections, numbers, notes)


def _middle(passage: Passage) -> float:
    """Return aG halfway up the jump; infinity where there is none."""
    return float(np.mean(passage.jump["aG"])) if passage.kind == "jump" else np.inf


def _numbers(found: EarlyWarning) -> dict[str, float | bool]:
    columns: dict[str, float | bool] = {"warned": found.warned}
    for name in ("variance", "lag1"):
        columns |= {
            f"{name} τ": found.tau[name],
            f"{name} p": found.p_value[name],
            f"{name} growth": found.growth[name],
        }
    return columns


def _tests_for_people(told: pd.DataFrame) -> pd.DataFrame:
    return told.assign(
        **{"P of the event": [f"{P:.5g}" for P in told["P of the event"]]},
        **{f"{name} {kind}": [f"{v:.2g}" for v in told[f"{name} {kind}"]]
           for name in ("variance", "lag1") for kind in ("τ", "p", "growth")},
        warned=np.where(told["warned"], "yes", "no"),
    )  # fmt: skip


def _for_people(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "score": table["score"],
            "L": table["L"],
            "": table["quantity"],
            "P": [f"{P:g}" for P in table["P"]],
            "variance × 10⁶": [_scaled(*row) for row in table[["variance", "variance_error"]].to_numpy()],
            "lag-1 autocorrelation": [with_error(*row) for row in table[["lag1", "lag1_error"]].to_numpy()],
        }
    )


def _scaled(value: float, error: float) -> str:
    return with_error(1e6 * value, 1e6 * error)
