"""Onset, critical mode and order of the linear transition, against the action itself in high precision."""

import mpmath
import numpy as np
import pytest

from phasekit.derivations import landau
from phasekit.derivations.symbols import L as L_symbol
from phasekit.derivations.symbols import P as P_symbol
from phasekit.derivations.symbols import T, cG, kappa, lam, s, sigma_g, sigma_w, t
from phasekit.derivations.symbols import V as V_symbol
from phasekit.theory.action.generated import linear_map, thresholds
from tests.derivations import reference

CASES = [(8, 16, "positional"), (8, 24, "token+position"), (64, 16, "positional"), (3, 200, "token+position")]


def pooling_cost(V: float, L: float, inputs: str) -> float:
    return L**2 if inputs == "positional" else (V * L / (V + L)) ** 2


@pytest.mark.parametrize("seed", range(3))
def test_forms_are_taylor_coefficients_along_random_rays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = {
        P_symbol: 10 ** rng.uniform(0, 4),
        V_symbol: int(rng.integers(2, 50)),
        L_symbol: int(rng.integers(2, 50)),
        sigma_w: 10 ** rng.uniform(-1, 1),
        sigma_g: 10 ** rng.uniform(-1, 1),
        kappa: 10 ** rng.uniform(-1, 1),
        lam: 10 ** rng.uniform(0, 4),
    }
    direction = rng.normal(size=2)
    values = [mpmath.mpf(float(numbers[name])) for name in (P_symbol, V_symbol, L_symbol, sigma_w, sigma_g, kappa, lam)]
    with mpmath.workdps(60):
        ray = mpmath.taylor(
            lambda z: reference.linear_action(z * (direction[0] - direction[1]), z * direction[1], *values), 0, 4
        )
    point = numbers | {s: direction[0], cG: direction[1]}
    for form, order in zip(landau.expansion(), (2, 4), strict=True):
        value = float(landau.unfolded(form).subs(t, T).subs(point))
        assert value == pytest.approx(float(ray[order]), rel=1e-9)
    assert abs(ray[1]) + abs(ray[3]) < 1e-20 * abs(ray[2])  # even
    quartic = thresholds.quartic(*direction, *(float(value) for value in values))
    assert quartic == pytest.approx(float(ray[4]), rel=1e-12)
    assert quartic > 0


@pytest.mark.parametrize(("V", "L", "inputs"), CASES)
def test_onset_is_where_an_eigenvalue_of_the_numeric_hessian_changes_sign(V: int, L: int, inputs: str) -> None:
    sigma_w, sigma_g, kappa = 1.3, 0.7, 0.4
    cost = pooling_cost(V, L, inputs)

    def numeric_hessian(P: float) -> np.ndarray:
        """Second differences of the action at 0, with fifty digits, scaled by the prior."""
        with mpmath.workdps(50):
            h = mpmath.mpf(10) ** -15
            scales = (h / mpmath.sqrt(cost), h / mpmath.sqrt(L**3 - L**2))
            zero = reference.linear_action(0, 0, mpmath.mpf(P), V, L, sigma_w, sigma_g, kappa, cost)
            entries = []
            for a, b in ((1, 0), (0, 1), (1, 1)):
                row, copy = a * scales[0], b * scales[1]
                moved = reference.linear_action(row - copy, copy, mpmath.mpf(P), V, L, sigma_w, sigma_g, kappa, cost)
                entries.append(float(2 * (moved - zero) / h**2))
        mixed = (entries[2] - entries[0] - entries[1]) / 2
        return np.array([[entries[0], mixed], [mixed, entries[1]]])

    onset = thresholds.onset(V, L, sigma_w, sigma_g, kappa, cost)
    below, above = (np.linalg.eigvalsh(numeric_hessian(onset * factor))[0] for factor in (1 - 1e-9, 1 + 1e-9))
    assert below > 0 > above
    _, vectors = np.linalg.eigh(numeric_hessian(onset))
    row, copy = vectors[:, 0] / np.sqrt([cost, L**3 - L**2])
    mode = thresholds.critical_mode(V, L, cost)
    assert mode[1] == pytest.approx(copy / row, rel=1e-8)
    assert sum(mode) == pytest.approx(1, rel=1e-15)


def test_onset_numbers() -> None:
    assert thresholds.onset(8, 24, 1, 1, 1, pooling_cost(8, 24, "token+position")) == pytest.approx(47.7, abs=0.05)
    # V larger than L: the mode is mostly copying, and the onset far below the law for L ≫ V.
    assert thresholds.critical_mode(64, 16, 256)[1] == pytest.approx(0.75, abs=0.005)
    ratio = thresholds.onset(64, 16, 1, 1, 1, 256) / thresholds.onset_large_L(64, 16, 1, 1, 1, 256)
    assert ratio == pytest.approx(0.5, abs=0.02)
    # L ≫ V: V L for positional inputs, V² for token+position.
    for inputs, law in (("positional", 8 * 1e6), ("token+position", 64)):
        assert thresholds.onset(8, 1e6, 1, 1, 1, pooling_cost(8, 1e6, inputs)) == pytest.approx(law, rel=1e-4)


@pytest.mark.parametrize(("V", "L", "inputs"), CASES)
def test_square_root_growth_above_the_onset(V: int, L: int, inputs: str) -> None:
    """Second order: the minimum grows out of zero as (P − P₁)^(1/2), with the predicted amplitude."""
    cost = pooling_cost(V, L, inputs)
    onset = thresholds.onset(V, L, 1.0, 1.0, 1.0, cost)
    mode = np.array(thresholds.critical_mode(V, L, cost))
    growth = thresholds.onset_growth(mode[1], onset / V, V, L)
    errors = []
    for excess in (1e-3, 1e-4):
        P = onset * (1 + excess)
        place = mode * np.sqrt(growth * excess)
        for _ in range(60):
            _, g1, gG, h11, h1G, hGG = linear_map.jet(*place, P, V, L, 1.0, 1.0, 1.0, cost)
            place = place - np.linalg.solve([[h11, h1G], [h1G, hGG]], [g1, gG])
        _, g1, gG, h11, h1G, hGG = linear_map.jet(*place, P, V, L, 1.0, 1.0, 1.0, cost)
        assert np.linalg.eigvalsh([[h11, h1G], [h1G, hGG]])[0] > 0
        assert place.sum() > 0
        errors.append(abs(place.sum() ** 2 / (growth * excess) - 1))
    assert errors[1] < 1e-2
    assert errors[1] < errors[0] / 5  # the correction is of first order in the excess
