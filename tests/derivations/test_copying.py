"""The crossover to copying P₂, against the minimum itself."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from phasekit.theory.action.generated import linear_map, thresholds


def closed(V: float, L: float, cost: float, sigma_w: float = 1.0, sigma_g: float = 1.0, kappa: float = 1.0) -> float:
    """P₂ from the balance equation."""
    spread = brentq(lambda R: thresholds.copying_balance(R, V, L, cost), 0, 1e3, xtol=1e-15, rtol=1e-14)
    return float(thresholds.copying_from_spread(spread, V, L, sigma_w, sigma_g, kappa))


def copying_share(P: float, V: float, L: float, cost: float) -> float:
    """g²/q at the minimum that a pooling head with a little copying falls into."""
    # Coordinates in which the prior is the identity.
    back = np.array([[1 / np.sqrt(cost), -1 / np.sqrt(L**3 - L**2)], [0, 1 / np.sqrt(L**3 - L**2)]])
    numbers = (P, V, L, 1.0, 1.0, 1.0, cost)

    def hessian(z: np.ndarray) -> np.ndarray:
        h11, h1G, hGG = linear_map.hessian(*(back @ z), *numbers)
        return back.T @ np.array([[h11, h1G], [h1G, hGG]]) @ back

    pooling = np.sqrt(max(P / (V * np.sqrt(cost)) - 1, 1e-2) * V / P * cost)
    found = minimize(
        lambda z: linear_map.action(*(back @ z), *numbers),
        [pooling, 0.3 * pooling],
        jac=lambda z: back.T @ np.array(linear_map.gradient(*(back @ z), *numbers)),
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-4},
    )
    z = found.x
    for _ in range(4):  # polish: the value alone fixes z to the root of the rounding only
        z = z - np.linalg.solve(hessian(z), back.T @ np.array(linear_map.gradient(*(back @ z), *numbers)))
    assert np.linalg.eigvalsh(hessian(z))[0] > 0
    _, _, g, q = linear_map.averages(*(back @ z), L)
    return float(g**2 / q)


def numeric(V: float, L: float, cost: float) -> float:
    """P₂ as the place where half of the norm of the numeric minimum copies."""
    lower = 1.1 * thresholds.onset(V, L, 1.0, 1.0, 1.0, cost)
    upper = 2 * thresholds.copying_leading(V, L, 1.0, 1.0, 1.0)
    return float(brentq(lambda P: copying_share(P, V, L, cost) - 0.5, lower, upper, rtol=1e-13))


@pytest.mark.parametrize(
    ("V", "L", "inputs"),
    [
        *((8, 16, "positional"), (8, 200, "positional"), (3, 3000, "positional"), (8, 24, "token+position")),
        *((8, 200, "token+position"), (40, 300, "token+position"), (2, 50, "token+position")),
    ],
)
def test_closed_form_is_exact(V: int, L: int, inputs: str) -> None:
    cost = L**2 if inputs == "positional" else (V * L / (V + L)) ** 2
    assert closed(V, L, cost) == pytest.approx(numeric(V, L, cost), rel=1e-9)


def test_scales_of_the_priors() -> None:
    """σ_w, σ_g and κ enter P₂ as they enter P₁: by κ/(σ_w σ_g)."""
    assert closed(8, 64, 64**2, 2.0, 3.0, 0.5) == pytest.approx(closed(8, 64, 64**2) * 0.5 / 6, rel=1e-13)


def test_leading_form() -> None:
    lengths = np.array([33, 100, 1000, 1e4, 1e5, 1e6])
    ratios = np.array([closed(8, L, L**2) / thresholds.copying_leading(8, L, 1, 1, 1) for L in lengths])
    assert np.all(np.abs(ratios - 1) < 0.06)
    spread = (7 * lengths[-1]) ** -0.5  # the correction for positional inputs, 3R/2 − 1/(2√L)
    assert ratios[-1] - 1 == pytest.approx(1.5 * spread - 0.5 * lengths[-1] ** -0.5, rel=0.1)
    ratios = np.array(
        [closed(8, L, (8 * L / (8 + L)) ** 2) / thresholds.copying_leading(8, L, 1, 1, 1) for L in lengths]
    )
    np.testing.assert_allclose(ratios[:4], [1.20, 1.17, 1.08, 1.04], atol=0.006)
    assert ratios[-1] - 1 == pytest.approx(1.5 * (7 * lengths[-1]) ** (-1 / 3), rel=0.2)  # falls as L^(−1/3) only


def test_no_pooling_stage_when_the_vocabulary_is_large() -> None:
    """The balance is negative at R = 0 exactly where the critical mode has g² > q/2: V > L − 1 for positional
    inputs.
    """
    for V, L in [(8, 16), (14, 16), (16, 16), (64, 16), (62, 64), (64, 64), (64, 256), (300, 100)]:
        for inputs in ("positional", "token+position"):
            cost = float(L**2) if inputs == "positional" else (V * L / (V + L)) ** 2
            c1, cG = thresholds.critical_mode(V, L, cost)
            _, _, g, q = linear_map.averages(c1, cG, L)
            copying_first = g**2 / q > 0.5
            assert (thresholds.copying_balance(0.0, V, L, cost) < 0) == copying_first
            assert copying_first == (V > L - 1 if inputs == "positional" else V > 2.25 * L)


def test_boundary_of_the_pooling_stage() -> None:
    assert thresholds.copying_balance(0.0, 63.0, 64.0, 64.0**2) == pytest.approx(0, abs=1e-14)
    c1, cG = thresholds.critical_mode(63.0, 64.0, 64.0**2)
    _, _, g, q = linear_map.averages(c1, cG, 64.0)
    assert g**2 / q == pytest.approx(0.5, rel=1e-12)
