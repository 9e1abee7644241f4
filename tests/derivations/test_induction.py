"""The induction head's emitted formulas: digits against mpmath, derivatives by complex steps."""

import mpmath
import numpy as np
import pytest

from phasekit.derivations.induction import DERIVATION
from phasekit.theory.action.generated import induction_map

STEP = 1e-30


def models(count, seed):
    rng = np.random.default_rng(seed)
    V = np.floor(10 ** rng.uniform(0.4, 6, count))
    L = np.floor(np.maximum(2, V ** rng.uniform(0, 1, count)))
    L[::5] = V[::5]
    return rng.uniform(-4, 12, count), 10 ** rng.uniform(-1, 7, count), V, L, *10 ** rng.uniform(-0.5, 0.5, (2, count))


def exact(delta, P, V, L, sigma_w, kappa):
    """Return Φ and the loss at forty digits, from the averages themselves."""
    with mpmath.workdps(40):
        delta, P, V, L, sigma_w, kappa = map(mpmath.mpf, (delta, P, V, L, sigma_w, kappa))
        t = P * sigma_w**2 / (kappa * V)
        alpha = 1 / (1 + (L - 1) * mpmath.exp(-delta))
        g, q = ((V * x - 1) / (V - 1) for x in (alpha, alpha**2 + (1 - alpha) ** 2 / (L - 1)))
        w = t * g / (1 + t * q)
        value = P / (2 * kappa * V) * (1 / (1 + t) + (V - 1) * (1 - t * g**2 / (1 + t * q)))
        loss = (1 / (1 + t) ** 2 + (V - 1) * (1 - 2 * w * g + w**2 * q)) / V
        return float(value), float(loss)


def test_every_digit():
    arguments = models(300, 1)
    value, loss = induction_map.data_jet(*arguments)[0], induction_map.loss(*arguments)
    known = np.array([exact(*map(float, each)) for each in zip(*arguments, strict=True)])
    assert value == pytest.approx(known[:, 0], rel=1e-12)
    assert loss == pytest.approx(known[:, 1], rel=1e-11)


def test_derivatives():
    delta, *rest = models(300, 2)
    shifted = induction_map.data_jet(delta + 1j * STEP, *rest)
    _, slope, bend = induction_map.data_jet(delta, *rest)
    assert slope == pytest.approx(shifted[0].imag / STEP, rel=1e-9, abs=1e-12 * np.abs(slope).max())
    scale = np.abs(slope) + np.abs(bend)
    assert np.all(np.abs(bend - shifted[1].imag / STEP) < 1e-9 * scale)
    P, V, L, sigma_w, kappa = rest
    force, steepness = induction_map.data_force(delta, P * sigma_w**2 / (kappa * V), V, L, sigma_w)
    assert force == pytest.approx(-slope, rel=1e-11)
    assert np.all(steepness > 0)


def test_route():
    delta, _, _, L, _, _ = models(200, 3)
    share, slope, bend = induction_map.route(delta, L)
    alpha = 1 / (1 + (L - 1) * np.exp(-delta))
    assert share == pytest.approx((L * alpha - 1) / (L - 1), rel=1e-9, abs=1e-12)
    there = induction_map.route(delta + 1j * STEP, L)
    assert slope == pytest.approx(there[0].imag / STEP, rel=1e-12)
    assert np.all(np.abs(bend - there[1].imag / STEP) < 1e-12 * slope)


def test_it_is_written_down():
    assert "Induction heads" in DERIVATION.text()
