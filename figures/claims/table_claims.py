"""Claims C1, C2, C3 and C5 of the copy-head paper (arXiv:2606.12058) with this project's numbers, and where they hold.

Exponents are those of the theory's thresholds; an exponent is the mean over the last decade and its uncertainty the
drift from the decade before. Loss, jump and coverage are shown for trained networks too. Unit variances and κ = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from figures import _ensembles
from figures._tables import write_table
from figures._trainings import network_rows, trained
from figures.claims._claims import Row
from figures.claims._claims_linear import copying, pooling
from figures.claims._claims_softmax import jump
from phasekit.theory.transitions import find_transitions

#: Values of V or L at which a threshold is computed.
POINTS = {"quick": 33, "full": 97}


def main(out: Path, preset: str) -> list[Path]:
    """Write the table as CSV and Markdown."""
    points = POINTS[preset]
    rows = pd.DataFrame(
        [asdict(row) for row in [*pooling(points), *copying(points, preset), *jump(points, preset), *coverage(preset)]]
    )
    shown = rows[["claim", "what", "found", "claimed", "verdict"]].rename(columns={"what": "number"})
    return write_table(out / "table_claims", [("Claims of the copy-head paper", shown)], rows)


def coverage(preset: str) -> Iterator[Row]:
    """C5: the two order parameters cover most of the attention pattern of trained networks."""
    ensembles = {
        "softmax, positional, V = 8, L = 64, all P": trained(_ensembles.softmax_transition(preset)),
        "softmax, positional, V = 8, L = 16, all P": trained(_ensembles.softmax_table(preset)),
        "linear, positional, V = 8, L = 16, P > P1": trained(
            _ensembles.linear_table(preset), _ensembles.linear_more(preset)
        ),
        "softmax, token+position, V = 8, L = 24, below P*": trained(_ensembles.softmax_tokens_table(preset)),
    }
    for what, networks in ensembles.items():
        yield _coverage(what, network_rows(networks))
    tokens = network_rows(trained(_ensembles.linear_tokens_table(preset), _ensembles.linear_tokens_more(preset)))
    P1 = find_transitions(_ensembles.LINEAR_TOKENS).values["P1"]
    what = "linear, token+position, V = 8, L = 24"
    yield _coverage(f"{what}, P > 2 P1", tokens[tokens["P"] > 2 * P1])
    yield _coverage(f"{what}, P1 < P < 2 P1", tokens[(tokens["P"] > P1) & (tokens["P"] < 2 * P1)])


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
