"""Tokens that aren't equally frequent: the same four averages, with matrices in the place of numbers."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import LATEX, g, named, q

#: κ/(Pσ_w²), the ridge of the readout, and Σ_a π_a².
ridge, size = sp.symbols("ridge size", positive=True)
#: Sums over the vocabulary, Σ_a π_a^m/(q π_a + λ)^n for (m, n) = (2, 1), (3, 1), (3, 2), (4, 2), (5, 3).
S21, S31, S32, S42, S53 = SUMS = sp.symbols("S21 S31 S32 S42 S53", positive=True)
LATEX.update({ridge: r"\lambda", size: r"\pi^2"} | {each: f"S_{{{each.name[1:]}}}" for each in SUMS})
_ORDERS = dict(zip(SUMS, ((2, 1), (3, 1), (3, 2), (4, 2), (5, 3)), strict=True))
#: Vocabularies in which the closed form is compared with dense matrices.
_ONE = sp.Symbol("pi1", positive=True)
_CHECKED = (sp.Matrix([_ONE, 1 - _ONE]), sp.Matrix([sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 6)]))


def moments(frequencies: sp.Matrix) -> tuple[sp.Matrix, sp.Matrix]:
    """One token has E[x xᵀ] = D = diag(π), two tokens at different positions E[x_j x_kᵀ] = π πᵀ. For rows that sum to
    one, the moments of what attention collects are M = E[φφᵀ] = q D + (1 − q) ππᵀ and N = E[φyᵀ] = g D + (1 − g) ππᵀ:
    the same averages g and q as for uniform tokens.
    """
    D, pair = sp.diag(*frequencies), frequencies * frequencies.T
    return q * D + (1 - q) * pair, g * D + (1 - g) * pair


def best_readout_evidence(frequencies: sp.Matrix) -> sp.Expr:
    """The minimum over W of P/(2κ) [1 − 2 tr WᵀN + tr Wᵀ(M + λ)W], with λ = κ/(Pσ_w²), is P/(2κ) (1 − T) with
    T = tr Nᵀ(M + λ)⁻¹N.
    """
    M, N = moments(frequencies)
    return (N.T * (M + ridge * sp.eye(len(frequencies))).LUsolve(N)).trace()


@cache
def evidence() -> sp.Expr:
    """M + λ is a diagonal matrix, of entries q π_a + λ, plus a multiple of ππᵀ. Sherman and Morrison's formula inverts
    it, and T becomes sums S_mn = Σ_a π_a^m/(q π_a + λ)^n over the vocabulary: O(V) instead of O(V³).
    """
    rest, apart = 1 - g, 1 - q
    overlap = g**2 * S42 + 2 * g * rest * S21 * S31 + rest**2 * size * S21**2
    found = g**2 * S21 + 2 * g * rest * S31 + rest**2 * size * S21 - apart / (1 + apart * S21) * overlap
    for frequencies in _CHECKED:
        sums = {each: sum(f**m / (q * f + ridge) ** n for f in frequencies) for each, (m, n) in _ORDERS.items()}
        closed = found.subs({**sums, size: sum(f**2 for f in frequencies)})
        require_equal(closed, best_readout_evidence(frequencies), f"T for {len(frequencies)} tokens")
    return found


@cache
def evidence_in_q() -> sp.Expr:
    """Its derivative in q follows from dS_mn/dq = −n S_(m+1)(n+1)."""
    slope = {S21: -S32, S31: -S42, S42: -2 * S53}
    return sp.diff(evidence(), q) + sum(sp.diff(evidence(), each) * value for each, value in slope.items())


def _steps() -> tuple[Step, ...]:
    frequencies = sp.Matrix(sp.symbols("pi1:3", positive=True))
    M, N = moments(frequencies)
    T, T_q = named("T", "T"), named("dT/dq", r"\partial T/\partial q")
    return (
        Step.of(moments, *(sp.Eq(sp.MatrixSymbol(name, 2, 2), value) for name, value in (("M", M), ("N", N)))),
        Step.of(best_readout_evidence),
        Step.of(evidence, sp.Eq(T, evidence())),
        Step.of(evidence_in_q, sp.Eq(T_q, evidence_in_q())),
    )


DERIVATION = Derivation("tokens", "Tokens of any frequencies: the data part in O(V)", "3", _steps, "docs/beyond.md")
