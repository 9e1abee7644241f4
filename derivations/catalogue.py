"""All derivations in the order in which they build on each other."""

from __future__ import annotations

from derivations import copying, evidence, jump, landau, linear, patterns, prior, softmax, vocabulary
from derivations.steps import Derivation

_MODULES = (vocabulary, evidence, patterns, prior, linear, landau, copying, softmax, jump)

#: Derivations by name.
DERIVATIONS: dict[str, Derivation] = {module.DERIVATION.name: module.DERIVATION for module in _MODULES}
