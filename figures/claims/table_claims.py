"""Claims C1, C2, C3 and C5 of the copy-head paper (arXiv:2606.12058) with this project's numbers, and where they hold.

Exponents are those of the theory's thresholds; an exponent is the mean over the last decade and its uncertainty the
drift from the decade before. Loss, jump and coverage are shown for trained networks too. Unit variances and κ = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from figures._sweeps import networks
from figures._tables import write_table
from figures.claims._claims import Row
from figures.claims._claims_linear import copying, pooling
from figures.claims._claims_softmax import jump
from phasekit.drawing.presets import Preset
from phasekit.theory.transitions import find_transitions


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the table as CSV and Markdown."""
    rows = pd.DataFrame([asdict(row) for row in [*pooling(preset), *copying(preset), *jump(preset), *coverage(preset)]])
    shown = rows[["claim", "what", "found", "claimed", "verdict"]].rename(columns={"what": "number"})
    return write_table(out / "table_claims", [("Claims of the copy-head paper", shown)], rows)


def coverage(preset: Preset) -> Iterator[Row]:
    """C5: the two order parameters cover most of the attention pattern of trained networks."""
    shown = ("softmax_transition", "linear_transition", "linear_transition_tokens")
    for model, rows in networks(preset, *shown, "table_map").items():
        if model.kappa != 1:
            continue
        name = f"{model.score.name}, {model.inputs}, V = {model.V}, L = {model.L}"
        P1 = find_transitions(model).values.get("P1")
        if P1 is None:
            yield _coverage(f"{name}, all P", rows)
        elif model.inputs == "positional":
            yield _coverage(f"{name}, P > P1", rows[rows["P"] > P1])
        else:
            yield _coverage(f"{name}, P > 2 P1", rows[rows["P"] > 2 * P1])
            yield _coverage(f"{name}, P1 < P < 2 P1", rows[(rows["P"] > P1) & (rows["P"] < 2 * P1)])


def _coverage(what: str, networks: pd.DataFrame) -> Row:
    values = networks[networks["fate"] == "kept"]["coverage"].dropna()
    floor = values.min()
    verdict = "near 1" if floor > 0.99 else "most of the pattern" if floor > 0.9 else "not close to the onset"
    return Row(
        "C5",
        f"coverage, lowest and mean of {len(values)} networks ({what})",
        f"{floor:.4f}, {values.mean():.4f}",
        floor,
        claimed="near 1",
        verdict=verdict,
    )
