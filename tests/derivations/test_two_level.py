"""Two levels of logits: the data part over log odds and the price of log odds, against explicit rows and matrices."""

import numpy as np
import pytest
import torch
from entmax import entmax_bisect

from phasekit.derivations import two_level as derived
from phasekit.theory.action.generated import two_level
from tests.derivations.reference import attention_averages, phi

STEP = 1e-150  # complex step


def pattern(copy, L):
    """Weights of L rows with ``copy`` on the copy entry, the rest shared equally."""
    return (1 - copy) / (L - 1) * (1 - np.roll(np.eye(L), -1, axis=1)) + copy * np.roll(np.eye(L), -1, axis=1)


def test_data_part_of_an_explicit_matrix():
    rng = np.random.default_rng(1)
    for V, L in [(2, 2), (5, 7), (30, 12)]:
        copy = rng.uniform(0.01, 0.99)
        P, sigma_w, kappa = 10 ** rng.uniform(0, 3), *(10 ** rng.uniform(-1, 1, 2))
        delta = np.log(copy * (L - 1) / (1 - copy))
        expected = phi(*attention_averages(pattern(copy, L)), P, V, sigma_w, kappa)
        assert two_level.data_jet(delta, P, V, L, sigma_w, kappa)[0] == pytest.approx(expected, rel=1e-12)


def test_derivatives_of_the_data_part():
    rng = np.random.default_rng(2)
    P, L, V = 10 ** rng.uniform(0, 5, 300), rng.integers(2, 300, 300), rng.integers(2, 200, 300)
    delta, sigma_w, kappa = rng.uniform(0, 12, 300), *(10 ** rng.uniform(-1, 1, (2, 300)))
    value, slope, curvature = two_level.data_jet(delta + 1j * STEP, P, V, L, sigma_w, kappa)
    np.testing.assert_allclose(value.imag / STEP, slope.real, rtol=1e-9, atol=1e-13 * np.abs(value.real).max())
    np.testing.assert_allclose(slope.imag / STEP, curvature.real, atol=1e-10 * np.abs(slope.real).max())


@pytest.mark.parametrize("alpha", [1.05, 1.5, 1.8, 2.0])
def test_a_row_of_entmax_at_the_gap_has_those_log_odds(alpha):
    """The gap from the formula, put into entmax's own algorithm (bisection), gives the weight back."""
    for L in (3, 16, 200):
        copy = np.array([0.9, 0.4, 1.5 / L])
        delta = np.log(copy * (L - 1) / (1 - copy))
        gap, slope, bend = two_level.entmax_gap(delta, L, alpha - 1)
        rows = torch.zeros(copy.size, L, dtype=torch.float64)
        rows[:, 0] = torch.from_numpy(gap)
        weights = entmax_bisect(rows, alpha=alpha, dim=-1, n_iter=200)[:, 0]
        np.testing.assert_allclose(weights, copy, rtol=1e-10)
        h = 1e-4
        after, before = (two_level.entmax_gap(delta + s * h, L, alpha - 1) for s in (1, -1))
        np.testing.assert_allclose((after[0] - before[0]) / (2 * h), slope, rtol=1e-6)
        np.testing.assert_allclose((after[1] - before[1]) / (2 * h), bend, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_stiffnesses_are_the_cheapest_weights_of_an_explicit_problem(inputs):
    """Least squares over all entries of G that give logits u on the copy entries and −w on all others."""
    V, L, u, w = 3, 5, 1.3, 0.4
    logits = (u + w) * np.roll(np.eye(L), -1, axis=1) - w
    if inputs == "positional":
        norm, lam = np.sum(logits**2), L**2
    else:
        # For every query (token a, position i) and key (token b, position j): logits[i, j] whatever the tokens.
        size = V + L
        pairs = [(a, V + i, b, V + j) for a in range(V) for i in range(L) for b in range(V) for j in range(L)]
        rows = np.zeros((len(pairs), size, size))
        for row, (a, i, b, j) in zip(rows, pairs, strict=True):
            row[np.ix_([a, i], [b, j])] = 1
        G = np.linalg.lstsq(rows.reshape(len(pairs), -1), [logits[i - V, j - V] for _, i, _, j in pairs])[0]
        norm, lam = np.sum(G**2), (V * L / (V + L)) ** 2
    A, B, C = (float(e.subs({derived.L: L, derived.lam: lam})) for e in derived.stiffnesses())
    assert A * u**2 + 2 * B * u * w + C * w**2 == pytest.approx(norm, rel=1e-10)


def test_force_is_the_slope_of_the_data_part():
    rng = np.random.default_rng(3)
    V, L, delta = rng.integers(2, 200, 300), rng.integers(2, 300, 300), rng.uniform(0, 12, 300)
    sigma_w, kappa, t = 10 ** rng.uniform(-1, 1, (3, 300))
    force, steepness = two_level.data_force(delta, t, V, L, sigma_w)
    slope = two_level.data_jet(delta, t * kappa * V / sigma_w**2, V, L, sigma_w, kappa)[1]
    np.testing.assert_allclose(force, -slope, rtol=1e-12)
    np.testing.assert_allclose(
        steepness,
        (t * two_level.data_force(delta, t * (1 + 1j * STEP), V, L, sigma_w)[0]).imag / STEP / (t * force),
        rtol=1e-10,
    )
