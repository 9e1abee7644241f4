"""All steps to the laws of P*: any score, SSA and its relatives, entmax."""

from __future__ import annotations

from phasekit.derivations.score_laws import any_score, entmax, ssa
from phasekit.derivations.steps import Derivation, Step


def _steps() -> tuple[Step, ...]:
    return (*any_score.steps(), *ssa.steps(), *entmax.steps())


DERIVATION = Derivation(
    "laws", "Any normalised score: laws of the jump P*", "laws of P*", _steps, page="docs/score_theories.md"
)
