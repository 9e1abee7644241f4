"""All derivations in the order in which they build on each other."""

from __future__ import annotations

from phasekit.derivations import (
    copying,
    evidence,
    front,
    induction,
    jump,
    landau,
    linear,
    nuclear,
    patterns,
    pooling,
    posterior,
    prior,
    softmax,
    tokens,
    two_level,
    vocabulary,
)
from phasekit.derivations.saturation.proofs import PROOFS
from phasekit.derivations.score_laws import laws
from phasekit.derivations.steps import Derivation

_MODULES = (
    vocabulary,
    evidence,
    posterior,
    pooling,
    patterns,
    prior,
    linear,
    landau,
    copying,
    softmax,
    jump,
    two_level,
    laws,
    nuclear,
    tokens,
    front,
    induction,
)

#: Derivations by name: the effective action first, then the proofs of the saturation theorems.
DERIVATIONS: dict[str, Derivation] = {module.DERIVATION.name: module.DERIVATION for module in _MODULES} | PROOFS
