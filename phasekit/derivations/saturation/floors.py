"""Floors: no key ever gets less."""

from __future__ import annotations

import sympy as sp

from phasekit.derivations.saturation.common import derivation, proved, softmax_ratio
from phasekit.derivations.saturation.magnification import largest_weight
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import lam, named

gap_j, top = sp.symbols("delta_j M", positive=True)


def softmax_normaliser() -> Step:
    """p_j = e^(λz_j)/Σ_k e^(λz_k), and no term of the sum exceeds e^(λM): it is at most m e^(λM). With δ_j = M − z_j
    the quotient is e^(−λδ_j)/m.
    """
    shown = named("e^(λz_j)/e^(λM)", r"e^{\lambda z_j}/e^{\lambda M}")
    quotient = softmax_ratio(lam * (top - gap_j), lam * top)
    return Step.of(softmax_normaliser, proved(quotient, sp.exp(-lam * gap_j), "floor of softmax", shown))


def ssa_normaliser() -> Step:
    """p_j = f(λz_j)/Σ_k f(λz_k). The numerator is at least (1 + λb‖z‖)^(−n), and each of the m terms at most (1 +
    λb‖z‖)^n, because f rises and no |z_k| exceeds ‖z‖ = z + d; here are the n-th roots, for logits z and −z.
    """
    return Step.of(ssa_normaliser, *largest_weight())


def ssa_quotient() -> Step:
    """The quotient of the two is the floor. Its exponent 2n is reached when the smallest logit is −‖z‖ and another
    +‖z‖.
    """
    weight, keys = named("p_j", "p_j"), sp.Symbol("m", positive=True)
    scale, n = named("λb‖z‖", r"\lambda b \|z\|_\infty"), sp.Symbol("n", positive=True)
    return Step.of(ssa_quotient, sp.Ge(weight, (1 + scale) ** (-2 * n) / keys, evaluate=False))


PROOFS = (
    derivation("softmax-floor", "Floor of softmax", "3", lambda: (softmax_normaliser(),)),
    derivation("ssa-floor", "Floor of SSA", "3", lambda: (ssa_normaliser(), ssa_quotient())),
)
