"""Order parameters: how much of an attention matrix is uniform pooling, and how much is copying."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import L, g, named, q, s

#: Amplitudes of the two patterns 11ᵀ/L and S (called c1, cG for linear attention).
a1, aG = sp.symbols("a1 aG", real=True)


def distance() -> sp.Expr:
    """Approximate A by a1 11ᵀ/L + aG S. With the overlaps ⟨A, 11ᵀ/L⟩ = L s/L = s, ⟨A, S⟩ = L g, and the patterns' own
    ‖11ᵀ/L‖² = 1, ‖S‖² = L, ⟨11ᵀ/L, S⟩ = 1, the squared distance depends on A through s, g and ‖A‖² = L q only.
    """
    return L * q - 2 * (a1 * s + aG * L * g) + a1**2 + 2 * a1 * aG + L * aG**2


@cache
def amplitudes() -> dict[sp.Symbol, sp.Expr]:
    """Least squares: the order parameters are the amplitudes of smallest distance."""
    (found,) = sp.solve([sp.diff(distance(), a) for a in (a1, aG)], [a1, aG], dict=True)
    compact = {aG: (g - s / L) / (1 - 1 / L), a1: s - aG}
    require_equal(found[aG], compact[aG], "copying amplitude")
    require_equal(found[a1], compact[a1].subs(compact), "pooling amplitude")
    return compact


def coverage() -> sp.Expr:
    """The share of ‖A‖² = L q that both patterns cover; 1 if nothing else is in A."""
    return (a1**2 + 2 * a1 * aG + L * aG**2) / (L * q)


def _steps() -> tuple[Step, ...]:
    return (
        Step.of(distance, sp.Eq(named("d²", "d^2"), distance())),
        Step.of(amplitudes, *(sp.Eq(a, value) for a, value in amplitudes().items())),
        Step.of(coverage, sp.Eq(named("coverage", r"\mathrm{coverage}"), coverage())),
    )


DERIVATION = Derivation("patterns", "Order parameters from an attention matrix", "3", _steps)
