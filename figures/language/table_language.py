"""Tables of language models: texts and all paradigms of Zorro, each arm against softmax.

Differences are paired over seeds and items; 95 % intervals over both; Holm's correction for all paradigms and arms of a
section. The last columns say what these seeds and items could have shown at all.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from figures._tables import write_table
from figures.language._experiments import DECODER, ENCODER, REFERENCE, WORDS, caption, experiment
from phasekit.drawing.presets import Preset
from phasekit.measure.language import compare


def main(out: Path, preset: Preset) -> list[Path]:
    """Write a section for each model and way to score a sentence, as CSV and Markdown."""
    numbers, sections, notes = [], [], []
    for name in (ENCODER, DECODER):
        one = experiment(preset, name)
        table = compare(one, REFERENCE)
        numbers.append(table.assign(model=WORDS[name]))
        notes.append(f"{WORDS[name]}: {caption(one)}")
        for way in dict.fromkeys(table["way"]):
            title = f"Zorro by {way.replace('_', ' ')}" if way else "texts, nats a token"
            sections.append((f"{WORDS[name]}: {title}", for_people(table[table["way"] == way], pairs=bool(way))))
    notes.append(
        "shown from: the least difference that would have counted as one; found in 80 % from: the true difference that "
        "four of five such experiments find"
    )
    return write_table(out / "table_language", sections, pd.concat(numbers, ignore_index=True), notes)


def for_people(table: pd.DataFrame, *, pairs: bool) -> pd.DataFrame:
    """Return a table of text: a row for each test and arm."""
    against = table["verdict"] != "reference"
    shown = pd.DataFrame({"": table["test"], "arm": table["arm"]})
    shown["value"] = [_interval(*row) for row in table[["value", "low", "high"]].to_numpy()]
    if not pairs:
        shown["perplexity"] = [f"{np.exp(loss):.2f}" for loss in table["value"]]
    differences = table[["difference", "difference_low", "difference_high"]].to_numpy()
    shown["difference"] = [_interval(*row) if told else "" for row, told in zip(differences, against, strict=True)]
    for column, name in (
        ("corrected", "corrected p"),
        ("resolvable", "shown from"),
        ("detectable", "found in 80 % from"),
    ):
        shown[name] = [f"{x:.2g}" if told else "" for x, told in zip(table[column], against, strict=True)]
    if pairs:
        shown["ties"] = table["ties"]
    return shown.assign(verdict=table["verdict"])


def _interval(value: float, low: float, high: float) -> str:
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
