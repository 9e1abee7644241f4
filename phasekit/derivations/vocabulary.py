"""Moments of what attention collects, for tokens drawn uniformly from the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import V, g, named, q, s, s2

#: For one query position: sum of the row of A, sum of its squares, and its copy entry A_{i,i−1}.
row_sum, row_squares, copy_entry = sp.symbols("r_i Q_i a_i", real=True)


@dataclass(frozen=True)
class OnTokens:
    """The operator bulk·(1 − Π) + constant·Π on vocabulary space, with Π = 11ᵀ/V.

    Uniform tokens make every moment commute with relabelling the tokens, so it is of this form.
    """

    bulk: sp.Expr
    constant: sp.Expr

    def __add__(self, other: OnTokens) -> OnTokens:
        return OnTokens(self.bulk + other.bulk, self.constant + other.constant)

    def times(self, factor: sp.Expr) -> OnTokens:
        """Return the operator multiplied by a number."""
        return OnTokens(factor * self.bulk, factor * self.constant)

    def replaced(self, values: dict[sp.Symbol, sp.Expr]) -> OnTokens:
        """Return the operator with symbols replaced in both parts."""
        return OnTokens(sp.expand(self.bulk).subs(values), sp.expand(self.constant).subs(values))


def same_position() -> OnTokens:
    """The second moment of one token: x is one-hot and uniform, so E[x xᵀ] = 1/V on all of vocabulary space."""
    return OnTokens(1 / V, 1 / V)


def different_positions() -> OnTokens:
    """Two tokens at different positions are independent: E[x_j x_kᵀ] = 11ᵀ/V² = Π/V lives on the constant direction."""
    return OnTokens(sp.Integer(0), 1 / V)


def collected_moment() -> OnTokens:
    """Query position i collects φ_i = Σ_j A_ij x_j. In E[φφᵀ] = Σ_jk A_ij A_ik E[x_j x_kᵀ] the terms j = k add up to
    Q_i = Σ_j A_ij², the others to r_i² − Q_i with the row sum r_i. Averaging over i turns Q_i into q = ‖A‖_F²/L
    and r_i² into s₂.
    """
    moment = same_position().times(row_squares) + different_positions().times(row_sum**2 - row_squares)
    return moment.replaced({row_squares: q, row_sum**2: s2})


def target_moment() -> OnTokens:
    """The target is y_i = x_{i−1}. In E[φyᵀ] = Σ_j A_ij E[x_j x_{i−1}ᵀ] only the copy entry a_i = A_{i,i−1} meets its
    own token. Averaging over i turns a_i into the copy overlap g and r_i into s.
    """
    moment = same_position().times(copy_entry) + different_positions().times(row_sum - copy_entry)
    return moment.replaced({copy_entry: g, row_sum: s})


def _steps() -> tuple[Step, ...]:
    bulk, constant = named("E_bulk", r"E_{1-\Pi}"), named("E_Π", r"E_{\Pi}")

    def parts(moment: OnTokens) -> tuple[sp.Eq, sp.Eq]:
        return sp.Eq(bulk, sp.factor(moment.bulk)), sp.Eq(constant, sp.factor(moment.constant))

    return (
        Step.of(OnTokens),
        Step.of(same_position, *parts(same_position())),
        Step.of(different_positions, *parts(different_positions())),
        Step.of(collected_moment, *parts(collected_moment())),
        Step.of(target_moment, *parts(target_moment())),
    )


DERIVATION = Derivation("moments", "Moments of the collected tokens", "2", _steps)
