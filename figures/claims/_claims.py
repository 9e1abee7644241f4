"""What a line of the claims table is."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One number behind a claim: what it is, as text and as value ± uncertainty, what was claimed, and the verdict."""

    claim: str
    what: str
    found: str
    value: float
    uncertainty: float = math.nan
    claimed: str = ""
    verdict: str = ""


def confirmed(holds: bool, words: str) -> str:
    """Return the verdict in words, "FAILS" if it isn't what the numbers say."""
    return words if holds else "FAILS"
