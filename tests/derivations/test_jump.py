"""Closed forms of the softmax jump P*, against the direct solution for two minima of equal action."""

import itertools
from collections.abc import Callable, Sequence

import mpmath
import numpy as np
import pytest
import sympy as sp

from phasekit.derivations import jump
from phasekit.derivations.symbols import D, L, V, kappa, sigma_g, t
from phasekit.theory.action.generated import softmax_map, thresholds
from tests.derivations import reference


def _formula(arguments: Sequence[sp.Symbol], expression: sp.Expr) -> Callable[..., float]:
    return sp.lambdify(arguments, expression.subs(jump.odds, jump.upper_odds()), "numpy")


#: The form for all regimes, straight from its derivation: phasekit has it for any score (``score_laws.jump_balance``).
gap_update = _formula((D, t, L), jump.gap_update())
jump_from_gap = _formula((D, t, V, L, sigma_g, kappa), jump.jump_from_gap())


def thin(V: float, L: float) -> float:
    """P* by the closed form for a small copy weight (unit variances)."""
    D, t = max(np.log(L), 3.0), L * np.log(L) ** 2 / V
    for _ in range(2000):
        D = thresholds.log_update(D, t, L)
        new = thresholds.jump_from_log(D, V, L, 1.0, 1.0) / V
        if abs(new - t) < 1e-14 * t:
            return float(V * new)
        t = new
    raise AssertionError("no fixed point")


def uniform(V: float, L: float) -> tuple[float, float]:
    """P* and D by the closed form for all regimes (unit variances)."""
    D, t = np.log(L), L * np.log(L) ** 2 / V
    for _ in range(5000):
        D = gap_update(D, t, L)
        new = jump_from_gap(D, t, V, L, 1.0, 1.0) / V
        if abs(new - t) < 1e-14 * t:
            return float(V * t), float(D)
        t = np.sqrt(t * new)  # damped: for t ≪ 1 the plain iteration alternates
    raise AssertionError("no fixed point")


def direct(V: float, L: float, sigma_w: float = 1.0, sigma_g: float = 1.0, kappa: float = 1.0) -> float:
    """P* where both minima of the action, written down from its definition, have the same value."""
    P, D = uniform(V, L)
    with mpmath.workdps(40):
        V, L = mpmath.mpf(V), mpmath.mpf(L)

        def action(gap: mpmath.mpf, scale: mpmath.mpf) -> mpmath.mpf:
            return reference.softmax_action(gap, mpmath.exp(scale), V, L, sigma_w, sigma_g, kappa)

        def slope(gap: mpmath.mpf, scale: mpmath.mpf) -> mpmath.mpf:
            h = mpmath.mpf(10) ** -25
            return action(mpmath.mpc(gap, h), scale).imag / h

        def conditions(low: mpmath.mpf, high: mpmath.mpf, scale: mpmath.mpf) -> list[mpmath.mpf]:
            size = L / sigma_g**2
            return [
                slope(low, scale) / size,
                slope(high, scale) / size,
                (action(low, scale) - action(high, scale)) / size,
            ]

        start_low = -softmax_map.gradient(0.0, P, float(V), float(L), sigma_w, sigma_g, kappa) * sigma_g**2 / float(L)
        low, high, scale = mpmath.findroot(conditions, (start_low, D, mpmath.log(P)), tol=1e-40, maxsteps=60)
        P = mpmath.exp(scale)
        for minimum in (low, high):
            assert softmax_map.hessian(*(float(x) for x in (minimum, P, V, L, sigma_w, sigma_g, kappa))) > 0
        assert high - low > 0.5
        return float(P)


def test_documented_jump() -> None:
    assert direct(8, 64) == pytest.approx(823.01, abs=0.005)
    assert direct(8, 1024) == pytest.approx(27022, abs=0.6)


def test_thin_copy_form_at_fixed_vocabulary() -> None:
    assert direct(8, 64) / thin(8, 64) == pytest.approx(1.05, abs=0.005)
    assert direct(8, 1024) / thin(8, 1024) == pytest.approx(1.007, abs=0.0005)


@pytest.mark.parametrize(
    ("V", "L", "error"),
    [(8, 64, 0.02), (8, 1024, 0.001), (64, 64, 0.005), (1024, 1024, 1e-4), (1e5, 64, 3e-4), (1e7, 256, 2e-5)],
)
def test_form_for_all_regimes(V: float, L: float, error: float) -> None:
    assert 0 < direct(V, L) / uniform(V, L)[0] - 1 < error


def test_variances_scale_the_jump() -> None:
    """σ_w enters through t alone, κ and σ_g through κ/σ_g² and t."""
    sigma_w, sigma_g, kappa = 1.5, 0.8, 0.6
    P = direct(8, 256, sigma_w, sigma_g, kappa)
    D, t = 5.0, P * sigma_w**2 / (kappa * 8)
    for _ in range(200):
        D = gap_update(D, t, 256)
    assert jump_from_gap(D, t, 8, 256, sigma_g, kappa) == pytest.approx(P, rel=0.01)


def test_long_context_regime() -> None:
    """t ≫ L: P* (V − 1)/(V L ln²L) falls towards 1/4 extremely slowly."""
    ratios = [direct(8, L) * 7 / (8 * L * np.log(L) ** 2) for L in (2.0**6, 2.0**10, 2.0**16, 2.0**30)]
    np.testing.assert_allclose(ratios, [0.65, 0.48, 0.40, 0.34], atol=0.006)
    far = [thin(8, 2.0**k) * 7 / (8 * 2.0**k * (k * np.log(2)) ** 2) for k in (100, 300, 900)]
    assert all(0.25 < later < earlier for earlier, later in itertools.pairwise(far))
    assert far[-1] < 0.26  # at L = 2^900


def test_wide_vocabulary_regime() -> None:
    """V = L: prefactor ((1 + a)/2)² = 1 for a = 1."""
    ratios = [direct(L, L) / (L * np.log(L) ** 2) for L in (64, 256, 1024, 4096)]
    np.testing.assert_allclose(ratios, [1.07, 0.99, 0.96, 0.94], atol=0.006)
    # V = √L: prefactor (3/4)², again approached slowly.
    ratio = thin(2.0**300, 2.0**600) / (2.0**600 * (600 * np.log(2)) ** 2)
    assert ratio == pytest.approx(0.75**2, rel=0.02)


def test_scarce_data_regime() -> None:
    """t ≪ 1: √(V L) ln L, where L ln²L is wrong by a growing factor."""
    V, L = 1e9, 64.0
    D = np.log(L)
    for _ in range(200):
        D = np.log(L * (D - 1))
    explicit = V / np.sqrt(V - 1) * np.sqrt(L) * D**2 / (D - 1)
    assert direct(V, L) == pytest.approx(explicit, rel=0.02)
    # Hundredfold vocabulary: tenfold P*, as √V.
    assert direct(1e11, L) / direct(V, L) == pytest.approx(10, rel=1e-3)
    assert thin(V, L) < direct(V, L) / 100


def test_thin_copy_form_needs_a_long_context() -> None:
    with np.errstate(invalid="ignore"), pytest.raises(AssertionError, match="no fixed point"):
        thin(8, 12)  # L (1 + L/t) stays below 2e³
