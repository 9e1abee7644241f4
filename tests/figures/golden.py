"""The numbers behind pictures of theory alone, at few points; ``python -m tests.figures.golden`` rewrites them."""

from pathlib import Path

import pandas as pd

from figures.laws._laws import COPYING_L, COPYING_V, JUMP, ONSET, ONSET_SHORT
from figures.laws.scaling_laws import rows_of as law_rows
from figures.transitions import landscape, phase_diagrams
from phasekit.model import Model
from phasekit.theory.transitions import find_transitions

FOLDER = Path(__file__).with_name("golden")


def landscapes() -> pd.DataFrame:
    """Return the landscape at 7 × 5 points, and its minima, at each P shown."""
    values = find_transitions(landscape.MODEL).values
    parts = []
    for threshold, factor in landscape.SIZES.values():
        model = landscape.MODEL.at(P=float(round(factor * values[threshold])))
        parts += [landscape.landscape(model, (7, 5)).assign(kind="landscape")]
        parts += [landscape.minima_of(model).assign(kind="minimum")]
    return pd.concat(parts, ignore_index=True)


def diagrams() -> pd.DataFrame:
    """Return the four phase diagrams at 6 × 6 points."""
    parts = []
    for other in phase_diagrams.RANGES:
        for score in ("linear", "softmax"):
            model = Model(V=phase_diagrams.V, L=phase_diagrams.L, score=score)
            parts.append(phase_diagrams.rows_of(phase_diagrams.diagram_of(model, other, 6), score, other))
    return pd.concat(parts, ignore_index=True)


def laws() -> pd.DataFrame:
    """Return the scaling laws at 9 values of V or L."""
    return pd.concat([law_rows(law, law.compute(9)) for law in (ONSET_SHORT, ONSET, COPYING_L, COPYING_V, JUMP)])


TABLES = {"landscape": landscapes, "phase_diagrams": diagrams, "scaling_laws": laws}

if __name__ == "__main__":
    for name, table in TABLES.items():
        table().to_csv(FOLDER / f"{name}.csv", index=False)
