"""The emitted modules against mpmath with at least fifty digits, over the whole range of parameters.

Values are compared relative to themselves. Derivatives are differences of data and prior; they are compared relative
to the sum of the absolute values of their terms, which is written out below for each.
"""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from phasekit.theory.action.generated import linear_map, softmax_map, thresholds
from tests.derivations import reference

TOLERANCE = 1e-12
POINTS = 1200

mp = mpmath.mp.clone()
mp.dps = 110  # a second derivative by finite differences costs 60 of them


def random_models(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """P 1…1e8, V 2…1e5, L 2…1e6, standard deviations and temperature 1e-2…1e2, log-uniform."""
    return {
        "P": 10 ** rng.uniform(0, 8, count),
        "V": np.round(10 ** rng.uniform(np.log10(2), 5, count)),
        "L": np.round(10 ** rng.uniform(np.log10(2), 6, count)),
        "sigma_w": 10 ** rng.uniform(-2, 2, count),
        "sigma_g": 10 ** rng.uniform(-2, 2, count),
        "kappa": 10 ** rng.uniform(-2, 2, count),
    }


def pooling_cost(rng: np.random.Generator, V: np.ndarray, L: np.ndarray) -> np.ndarray:
    """λ of positional or token+position inputs, at random."""
    return np.where(rng.random(L.shape) < 0.5, L**2, (V * L / (V + L)) ** 2)


def exact(*columns: np.ndarray) -> list[tuple[Any, ...]]:
    """Rows of the columns as mpmath numbers (conversion from float64 is exact)."""
    return [tuple(mp.mpf(float(value)) for value in row) for row in zip(*np.broadcast_arrays(*columns), strict=True)]


def worst(values: Any, wanted: list[Any], scales: list[Any] | None = None) -> float:
    """Largest error relative to the scales (default: to the wanted values)."""
    scales = wanted if scales is None else scales
    return max(
        float(abs(mp.mpf(float(value)) - want) / abs(scale)) if scale else float(abs(value))
        for value, want, scale in zip(np.broadcast_to(values, len(wanted)), wanted, scales, strict=True)
    )


def slope_and_curvature(f: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """First and second derivative by complex steps."""
    h = mp.mpf(10) ** -25 * (abs(x) + mp.mpf(10) ** -5)
    moved = f(mp.mpc(x, h))
    return moved.imag / h, 2 * (f(x) - moved.real) / h**2


@pytest.fixture(autouse=True)
def _no_overflow() -> Any:
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        yield


@pytest.fixture(scope="module")
def linear_points() -> tuple[tuple[np.ndarray, ...], list[tuple[Any, ...]]]:
    rng = np.random.default_rng(11)
    model = random_models(rng, POINTS)
    signs = rng.choice([-1, 1], (2, POINTS))
    c1, cG = signs * 10 ** rng.uniform(-9, 2, (2, POINTS))
    arguments = (c1, cG, *model.values(), pooling_cost(rng, model["V"], model["L"]))
    return arguments, exact(*arguments)


@pytest.fixture(scope="module")
def softmax_points() -> tuple[tuple[np.ndarray, ...], list[tuple[Any, ...]]]:
    rng = np.random.default_rng(12)
    model = random_models(rng, POINTS)
    gap = rng.uniform(-2, 2 * np.log(model["L"]) + 40)
    close = rng.random(POINTS) < 0.5  # half of the points where α goes from 1/L to 1
    gap = np.where(close, np.log(model["L"]) * rng.uniform(0, 1.5, POINTS), gap)
    arguments = (gap, *model.values())
    return arguments, exact(*arguments)


def test_linear_values(linear_points: Any) -> None:
    arguments, points = linear_points
    assert worst(linear_map.action(*arguments), [reference.linear_action(*point) for point in points]) < TOLERANCE
    wanted = [
        reference.loss(*reference.linear_averages(c1, cG, L), P, V, sigma_w, kappa)
        for c1, cG, P, V, L, sigma_w, _, kappa, _ in points
    ]
    assert worst(linear_map.loss(*arguments), wanted) < TOLERANCE
    c1, cG, _, _, L, *_ = arguments
    s, s2, g, q = linear_map.averages(c1, cG, L)
    exact_averages = [reference.linear_averages(c1, cG, L) for c1, cG, _, _, L, *_ in points]
    for found, k in ((s, 0), (s2, 1), (q, 3)):
        assert worst(found, [averages[k] for averages in exact_averages]) < TOLERANCE
    sizes = [abs(c1 / L) + abs(cG) for c1, cG, _, _, L, *_ in points]
    assert worst(g, [averages[2] for averages in exact_averages], sizes) < TOLERANCE


@pytest.mark.slow
def test_linear_derivatives(linear_points: Any) -> None:
    arguments, points = linear_points
    wanted: dict[str, list[Any]] = {name: [] for name in ("1", "G", "11", "1G", "GG")}
    scales: dict[str, list[Any]] = {name: [] for name in wanted}
    for c1, cG, P, V, L, sigma_w, sigma_g, kappa, lam in points:

        def action(a: Any, b: Any, rest: Any = (P, V, L, sigma_w, sigma_g, kappa, lam)) -> Any:
            return reference.linear_action(a, b, *rest)

        first, first_curvature = slope_and_curvature(lambda a, cG=cG, f=action: f(a, cG), c1)
        second, second_curvature = slope_and_curvature(lambda b, c1=c1, f=action: f(c1, b), cG)
        h1, hG = (mp.mpf(10) ** -25 * abs(c) for c in (c1, cG))
        both = 2 * (action(c1, cG) - action(mp.mpc(c1, h1), mp.mpc(cG, hG)).real)
        mixed = (both - h1**2 * first_curvature - hG**2 * second_curvature) / (2 * h1 * hG)
        for name, value in zip(wanted, (first, second, first_curvature, mixed, second_curvature), strict=True):
            wanted[name].append(value)

        # The terms, with g replaced by the size of its own terms, as the module's docstring says.
        t = P * sigma_w**2 / (kappa * V)
        s, _, g, q = reference.linear_averages(c1, cG, L)
        w, u, m, size = 1 + t * (q - g**2), 1 + t * q, t * (1 - 1 / L) * abs(c1 * cG), abs(cG) + abs(c1) / L
        through_s = lam / sigma_g**2 + P * t / (kappa * V) / (1 + t * s**2) ** 2
        curvature_s = lam / sigma_g**2 + P * t / (kappa * V) * (1 + 3 * t * s**2) / (1 + t * s**2) ** 3
        pull, stiff, turn = P * t * (V - 1) / (kappa * V), L**2 * (L - 1) / sigma_g**2, 4 * t * size * abs(s) / u
        scales["1"].append(abs(s) * through_s + pull * size * (m + 1) / (L * u**2))
        scales["G"].append(abs(s) * through_s + stiff * abs(cG) + pull * size * w / u**2)
        bracket = 2 * m + 1 + t * (L - 1) * cG**2 + turn * (m + 1)
        scales["11"].append(curvature_s + pull / (L * u) ** 2 * bracket)
        scales["1G"].append(curvature_s + pull / (L * u**2) * (w + 2 * t * abs(c1) * size + turn * w))
        scales["GG"].append(curvature_s + stiff + pull * w * (w + 3 * t * size**2) / u**3)
    found = dict(zip(wanted, (*linear_map.gradient(*arguments), *linear_map.hessian(*arguments)), strict=True))
    for name in wanted:
        assert worst(found[name], wanted[name], scales[name]) < TOLERANCE, name
    jet = dict(zip(("S", *wanted), linear_map.jet(*arguments), strict=True))
    for name in wanted:
        assert worst(jet[name], wanted[name], scales[name]) < TOLERANCE, name


def test_softmax_values(softmax_points: Any) -> None:
    arguments, points = softmax_points
    wanted = [reference.softmax_action(*point, math=mp) for point in points]
    assert worst(softmax_map.action(*arguments), wanted) < TOLERANCE
    assert worst(softmax_map.jet(*arguments)[0], wanted) < TOLERANCE
    averages = [reference.softmax_averages(gap, L, mp) for gap, _, _, L, *_ in points]
    wanted = [
        reference.loss(*row, P, V, sigma_w, kappa)
        for row, (_, P, V, _, sigma_w, _, kappa) in zip(averages, points, strict=True)
    ]
    assert worst(softmax_map.loss(*arguments), wanted) < TOLERANCE
    gap, L = arguments[0], arguments[3]
    for k, found in enumerate(softmax_map.averages(gap, L)):
        assert worst(found, [row[k] for row in averages]) < TOLERANCE
    assert worst(softmax_map.residual(gap, L), [q - g**2 for _, _, g, q in averages]) < TOLERANCE


def test_softmax_derivatives(softmax_points: Any) -> None:
    arguments, points = softmax_points
    wanted, scales = ([], []), ([], [])
    for gap, *numbers in points:
        P, V, L, sigma_w, sigma_g, kappa = numbers
        slope, curvature = slope_and_curvature(
            lambda x, numbers=numbers: reference.softmax_action(x, *numbers, math=mp), gap
        )
        t, stiffness = P * sigma_w**2 / (kappa * V), (L - 1) / sigma_g**2
        x = (L - 1) * mp.exp(-gap)
        y = x * (1 + t / (L - 1))
        pull = P * (V - 1) * t / (kappa * V) * x
        D = (1 + x) ** 2 + t * x**2 / (L - 1) + t
        wanted[0].append(slope)
        wanted[1].append(curvature)
        scales[0].append(stiffness * abs(gap) + pull * (1 + y) / D**2)
        scales[1].append(stiffness + pull / D**3 * ((1 + t) * (1 + 2 * y) + x * (2 + 3 * y + 2 * y**2)))
    jet = softmax_map.jet(*arguments)
    for found in (softmax_map.gradient(*arguments), jet[1]):
        assert worst(found, wanted[0], scales[0]) < TOLERANCE
    for found in (softmax_map.hessian(*arguments), jet[2]):
        assert worst(found, wanted[1], scales[1]) < TOLERANCE


def test_thresholds() -> None:
    rng = np.random.default_rng(13)
    model = random_models(rng, 500)
    V, L, sigma_w, sigma_g, kappa = (model[name] for name in ("V", "L", "sigma_w", "sigma_g", "kappa"))
    lam = pooling_cost(rng, V, L)
    onsets, modes, crossovers, large = [], [], [], []
    for v, ell, sw, sg, k, cost in exact(V, L, sigma_w, sigma_g, kappa, lam):
        # Smaller root of the determinant in x, as it stands in docs/theory.md.
        a, b, d, e = 1 + (v - 1) / ell**2, (v - 1) * (1 - 1 / ell) / ell, (v - 1) * (1 - 1 / ell) ** 2, ell**3 - ell**2
        quadratic, linear = a * d - b**2, cost * d + a * e
        x = (linear - mp.sqrt(linear**2 - 4 * quadratic * cost * e)) / (2 * quadratic)
        onsets.append(k * v / (sw * sg) * mp.sqrt(x))
        modes.append((cost - x * a) / (x * b))
        crossovers.append(k * v * ell / (sw * sg) * mp.sqrt((ell - 1) / (v - 1)))
        large.append(k * v * mp.sqrt(cost) / (sw * sg))
    assert worst(thresholds.onset(V, L, sigma_w, sigma_g, kappa, lam), onsets) < TOLERANCE
    assert worst(thresholds.onset_large_L(V, L, sigma_w, sigma_g, kappa, lam), large) < TOLERANCE
    assert worst(thresholds.copying_leading(V, L, sigma_w, sigma_g, kappa), crossovers) < TOLERANCE
    c1, cG = thresholds.critical_mode(V, L, lam)
    assert worst(cG, modes) < TOLERANCE
    assert worst(c1, [1 - mode for mode in modes], [mp.mpf(1)] * len(modes)) < TOLERANCE


def test_jump_and_crossover_formulas() -> None:
    rng = np.random.default_rng(14)
    model = random_models(rng, 300)
    V, sigma_w, sigma_g, kappa = (model[name] for name in ("V", "sigma_w", "sigma_g", "kappa"))
    L = np.maximum(model["L"], 3)
    D, t, R = rng.uniform(1.5, 40, 300), 10 ** rng.uniform(-4, 10, 300), 10 ** rng.uniform(-6, 3, 300)
    logs, jumps, crossovers, scales, balances = [], [], [], [], []
    lam = pooling_cost(rng, V, L)
    for d, t_, r, v, ell, sw, sg, k, cost in exact(D, t, R, V, L, sigma_w, sigma_g, kappa, lam):
        logs.append(mp.log(ell * (1 + ell / t_) * (d - 1)) / 2)
        jumps.append(k * v / (v - 1) * ell / sg**2 * d**3 / (d - 1))
        root = mp.sqrt(ell - 1)
        share = 1 - 1 / ell + r * (1 + (root - 1) / ell)
        crossovers.append(
            k * v / (sw * sg) * mp.sqrt(ell**2 * root * (root - 1) * (1 + 2 * r) ** 2 / ((v - 1) * share))
        )
        lean = (ell + root - 1) / ell
        terms = (
            lean * ((1 + 2 * r) / (1 + r * (ell + root - 1) ** 2 / (ell - 1))) ** 2,
            -(v - 1) * root / ell**2 * r * (root - 1),
            (v - 1) * root / ell**2,
            -cost * (v - 1) * lean * share / (ell**2 * root * (root - 1)),
        )
        balances.append(sum(terms))
        scales.append(sum(map(abs, terms)))
    sizes = [abs(value) + 1 for value in logs]
    assert worst(thresholds.log_update(D, t, L), logs, sizes) < TOLERANCE
    assert worst(thresholds.jump_from_log(D, V, L, sigma_g, kappa), jumps) < TOLERANCE
    assert worst(thresholds.copying_from_spread(R, V, L, sigma_w, sigma_g, kappa), crossovers) < TOLERANCE
    assert worst(thresholds.copying_balance(R, V, L, lam), balances, scales) < TOLERANCE


def test_textbook_form_would_fail(softmax_points: Any) -> None:
    """The comparison notices what 1 − t g²/(1 + t q) loses when it is computed as it stands."""
    arguments, points = softmax_points
    wanted = [reference.softmax_action(*point, math=mp) for point in points]
    gap, P, V, L, sigma_w, sigma_g, kappa = arguments
    naive = reference.softmax_action(np.minimum(gap, 700), P, V, L, sigma_w, sigma_g, kappa, math=np)
    assert worst(naive, wanted) > 10 * TOLERANCE
