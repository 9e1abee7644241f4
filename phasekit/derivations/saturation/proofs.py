"""All proofs, one for each theorem of ``phasekit.saturation``, under the theorem's name."""

from __future__ import annotations

from phasekit.derivations.saturation import crossover, exponential, floors, imbalance, magnification, tail
from phasekit.derivations.steps import Derivation

_MODULES = (magnification, floors, imbalance, tail, crossover, exponential)

#: Proofs by theorem, in the order of docs/saturation.md.
PROOFS: dict[str, Derivation] = {proof.name: proof for module in _MODULES for proof in module.PROOFS}
