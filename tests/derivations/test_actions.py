"""Emitted actions against explicit attention matrices, and their derivatives against complex steps."""

import numpy as np
import pytest

from phasekit.theory.action.generated import linear_map, softmax_map
from tests.derivations.reference import attention_averages, loss, phi

STEP = 1e-150  # complex step: exact to rounding, because (1e-150)² underflows against everything


def random_model(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Random parameters, moderate enough that numpy's complex arithmetic is an accurate judge."""
    return {
        "P": 10 ** rng.uniform(0, 5, count),
        "V": rng.integers(2, 200, count).astype(float),
        "L": rng.integers(2, 300, count).astype(float),
        "sigma_w": 10 ** rng.uniform(-1, 1, count),
        "sigma_g": 10 ** rng.uniform(-1, 1, count),
        "kappa": 10 ** rng.uniform(-1, 1, count),
    }


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_linear_action_of_an_explicit_matrix(inputs: str) -> None:
    rng = np.random.default_rng(3)
    for V, L in [(2, 2), (5, 7), (30, 12)]:
        c1, cG = rng.normal(size=2)
        P, sigma_w, sigma_g, kappa = 10 ** rng.uniform(0, 3), *(10 ** rng.uniform(-1, 1, 3))
        logits = c1 * np.ones((L, L)) + L * cG * np.roll(np.eye(L), -1, axis=1)
        averages = attention_averages(logits / L)
        lam = L**2 if inputs == "positional" else (V * L / (V + L)) ** 2
        # Only the uniform part gets cheaper: ‖G‖² less by what s² costs with positions alone.
        prior = (np.sum(logits**2) - (L**2 - lam) * (c1 + cG) ** 2) / (2 * sigma_g**2)
        expected = phi(*averages, P, V, sigma_w, kappa) + prior
        numbers = (P, V, L, sigma_w, sigma_g, kappa, lam)
        assert linear_map.action(c1, cG, *numbers) == pytest.approx(expected, rel=1e-12)
        assert linear_map.loss(c1, cG, *numbers) == pytest.approx(loss(*averages, P, V, sigma_w, kappa), rel=1e-9)
        np.testing.assert_allclose(linear_map.averages(c1, cG, L), averages, rtol=1e-12)


def test_softmax_action_of_an_explicit_matrix() -> None:
    rng = np.random.default_rng(4)
    for V, L in [(2, 2), (5, 7), (30, 12)]:
        gap = rng.uniform(0, 5)
        P, sigma_w, sigma_g, kappa = 10 ** rng.uniform(0, 3), *(10 ** rng.uniform(-1, 1, 3))
        logits = gap * (np.roll(np.eye(L), -1, axis=1) - 1 / L)
        A = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        averages = attention_averages(A)
        expected = phi(*averages, P, V, sigma_w, kappa) + np.sum(logits**2) / (2 * sigma_g**2)
        numbers = (P, V, L, sigma_w, sigma_g, kappa)
        assert softmax_map.action(gap, *numbers) == pytest.approx(expected, rel=1e-12)
        assert softmax_map.loss(gap, *numbers) == pytest.approx(loss(*averages, P, V, sigma_w, kappa), rel=1e-9)
        np.testing.assert_allclose(softmax_map.averages(gap, L), averages, rtol=1e-12)
        assert softmax_map.residual(gap, L) == pytest.approx(averages[3] - averages[2] ** 2, rel=1e-9)


def test_linear_derivatives() -> None:
    rng = np.random.default_rng(5)
    model = random_model(rng, 500)
    lam = np.where(rng.random(500) < 0.5, model["L"] ** 2, (model["V"] * model["L"] / (model["V"] + model["L"])) ** 2)
    c1, cG = rng.normal(size=(2, 500)) * 10 ** rng.uniform(-3, 1, (2, 500))
    numbers = (*model.values(), lam)
    gradient = linear_map.gradient(c1, cG, *numbers)
    hessian = linear_map.hessian(c1, cG, *numbers)
    along_c1, along_cG = (c1 + 1j * STEP, cG), (c1, cG + 1j * STEP)
    numeric_gradient = [linear_map.action(*moved, *numbers).imag / STEP for moved in (along_c1, along_cG)]
    for value, numeric in zip(gradient, numeric_gradient, strict=True):
        # Both are differences of terms of the prior's size; that size bounds the rounding.
        scale = np.abs(numeric) + (lam * np.abs(c1 + cG) + model["L"] ** 3 * np.abs(cG)) / model["sigma_g"] ** 2
        assert np.all(np.abs(value - numeric) <= 1e-11 * scale)
    moved_c1, moved_cG = linear_map.gradient(*along_c1, *numbers), linear_map.gradient(*along_cG, *numbers)
    numeric_hessian = [moved_c1[0].imag / STEP, moved_c1[1].imag / STEP, moved_cG[1].imag / STEP]
    for value, numeric in zip(hessian, numeric_hessian, strict=True):
        scale = np.abs(numeric) + (lam + model["L"] ** 3) / model["sigma_g"] ** 2
        assert np.all(np.abs(value - numeric) <= 1e-11 * scale)
    np.testing.assert_allclose(moved_c1[1].imag, moved_cG[0].imag, rtol=1e-7)  # mixed derivatives agree
    jet = linear_map.jet(c1, cG, *numbers)
    for value, other in zip(jet, (linear_map.action(c1, cG, *numbers), *gradient, *hessian), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-12)


def test_softmax_derivatives() -> None:
    rng = np.random.default_rng(6)
    model = random_model(rng, 500)
    gap = rng.uniform(-1, 2 * np.log(model["L"]) + 5)
    numbers = tuple(model.values())
    gradient, hessian = softmax_map.gradient(gap, *numbers), softmax_map.hessian(gap, *numbers)
    numeric = softmax_map.action(gap + 1j * STEP, *numbers).imag / STEP
    stiffness = (model["L"] - 1) / model["sigma_g"] ** 2
    assert np.all(np.abs(gradient - numeric) <= 1e-11 * (np.abs(numeric) + stiffness * np.abs(gap)))
    numeric = softmax_map.gradient(gap + 1j * STEP, *numbers).imag / STEP
    assert np.all(np.abs(hessian - numeric) <= 1e-11 * (np.abs(numeric) + stiffness))
    jet = softmax_map.jet(gap, *numbers)
    for value, other in zip(jet, (softmax_map.action(gap, *numbers), gradient, hessian), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-12)


def test_numbers_broadcast() -> None:
    P, gaps = np.array([[10.0], [1000.0]]), np.linspace(0, 4, 5)
    jet = softmax_map.jet(gaps, P, 8.0, 16.0, 1.0, 1.0, 1.0)
    assert all(np.shape(part) == (2, 5) for part in jet)
    assert all(np.shape(part) == (5,) for part in softmax_map.averages(gaps, 16.0))
    jet = linear_map.jet(gaps, 0.1, P, 8.0, 16.0, 1.0, 1.0, 1.0, 256.0)
    assert all(np.shape(part) == (2, 5) for part in jet)
