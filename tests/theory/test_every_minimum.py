"""Random models of every score and estimator against scans and minimisers that share no search with the package.

A hundred models each here, a thousand (and two thousand posteriors of linear attention) in the nightly ones.
"""

import json

import numpy as np
import pytest
from scipy.optimize import minimize

from phasekit.model import Model, Parameters
from phasekit.theory.action import action_for
from phasekit.theory.action.base import Profiled, StationaryPoints
from phasekit.theory.action.generated import mean_field
from phasekit.theory.minima import find_minima, minima_of
from phasekit.theory.transitions import find_transitions

SCORES = {
    "softmax": {},
    "temperature": {"T": (-4, 2)},
    "ssa": {"n": (0, 1.3), "b": (-1, 1)},
    "sparsemax": {},
    "entmax": {"alpha": (0.0, 0.5)},
    "mixture": {},
}
NORMALISED = [*SCORES, "factorised softmax"]


def numbers(count, seed, score=None, *, most_L=4.0, spread=2.0):
    """Return random models: V to 300, L to 10⁴, σ_g over four decades, P from far below to far above what matters."""
    rng = np.random.default_rng(seed)
    V, L = np.floor(10 ** rng.uniform(0.31, 2.5, count)), np.floor(10 ** rng.uniform(0.5, most_L, count))
    sigma_w, kappa = 10 ** rng.uniform(-0.5, 0.5, count), 10 ** rng.uniform(-1, 1, count)
    P = kappa * V / sigma_w**2 * 10 ** rng.uniform(-1.5, 6, count)
    own = {name: 10 ** rng.uniform(*ends, count) for name, ends in SCORES.get(score, {}).items()}
    return Parameters(P, V, L, sigma_w, 10 ** rng.uniform(-spread, spread, count), kappa, score=own)


def action_of(name):
    if name == "factorised softmax":
        return action_for(Model(V=8, L=16, score="softmax", key_dim=20))
    mixture = {"name": "mixture", "scores": ["softmax", {"name": "ssa", "n": 2.0}]}
    return action_for(Model(V=8, L=16, score=mixture if name == "mixture" else name))


def scanned(action, p, nodes):
    """Return where S turns from falling to rising along the coordinate, to ten times the end of the package's path."""
    assert isinstance(action, Profiled)
    last = 10 * action.path(p, 1)[:, -1:]
    u = np.sinh(np.arcsinh(last) * np.linspace(0, 1, nodes))
    there = p.expand()
    values, slope = action.jet(action.profile(u, there).points, there).value, action.profile(u, there).slope
    turns = (slope[:, :-1] < 0) & (slope[:, 1:] >= 0)
    return values.min(axis=1), turns.sum(axis=1)


def check_normalised(name, count, seed):
    action, p = action_of(name), numbers(count, seed, name)
    lowest, turns = scanned(action, p, 500 if name in ("ssa", "mixture") else 6000)
    owner, z, _ = minima_of(action, p)
    value = action.jet(z, p[owner]).value
    found = np.full(count, np.inf)
    np.minimum.at(found, owner, value)
    bad = found > lowest + 1e-9 * (1 + np.abs(lowest))
    assert not bad.any(), (name, p[np.flatnonzero(bad)[:3]])
    times = np.bincount(owner, minlength=count)
    # A scan may overlook a pair of minimum and saddle point, never the other way round; it doesn't see origin and kink.
    assert np.all(times >= turns), (name, p[np.flatnonzero(times < turns)[:3]])
    g = action.averages(z, p[owner]).g
    order = np.lexsort((g, owner))
    twice = (np.diff(owner[order]) == 0) & (np.diff(g[order]) <= 1e-12) & (g[order][1:] < 1 - 1e-12)
    assert not twice.any(), (name, p[owner[order][1:][twice]])
    assert np.all((action.order(z, p[owner])[1] > -1e-9) & (action.order(z, p[owner])[1] <= 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMALISED)
def test_no_scan_finds_less_or_more(name):
    check_normalised(name, 100, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NORMALISED)
def test_no_scan_finds_less_or_more_in_a_thousand_models(name):
    check_normalised(name, 1000, 2)


def check_linear_map(key_dim, count, seed):
    """No point of a grid over both whitened coordinates lies below the lowest minimum; no minimum is found twice."""
    action, p = action_for(Model(V=8, L=16, score="linear", key_dim=key_dim)), numbers(count, seed)
    owner, z, _ = minima_of(action, p)
    value = action.jet(z, p[owner]).value
    found = np.full(count, np.inf)
    np.minimum.at(found, owner, value)
    assert np.isfinite(found).all()
    angles = np.arctan(np.sinh(np.linspace(-25, 25, 161)))
    for k in range(count):
        radii = np.geomspace(1e-3, 1.5, 120) * np.sqrt(p.P[k] / p.kappa[k])
        x, y = radii * np.cos(angles)[:, None], radii * np.sin(angles)[:, None]
        lowest = action.jet((x, y), p[k]).value.min()
        assert found[k] <= lowest + 1e-9 * (1 + abs(lowest)), (p[k], found[k], lowest)
        own = np.sort(value[owner == k])
        points = np.stack(z, axis=-1)[owner == k]
        apart = np.abs(points[:, None] - points[None]).max(-1) + np.eye(len(points)) * 1e9
        assert np.all(apart > 1e-6 * (1 + np.abs(points).max())), (p[k], own)


@pytest.mark.parametrize("key_dim", [None, 5])
def test_no_grid_of_linear_attention_finds_less(key_dim):
    check_linear_map(key_dim, 60, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("key_dim", [None, 5])
def test_no_grid_of_linear_attention_finds_less_in_a_thousand_models(key_dim):
    check_linear_map(key_dim, 1000, 2)


def whole_posterior(model):
    """Return S and its gradient over (s, cG) in prior deviations and ln(variance/σ_g²) of rows and of their means."""
    p, L = model.parameters(), float(model.L)
    scales = np.array([model.sigma_g / L, model.sigma_g / (L * np.sqrt(L - 1))])
    modes = np.array([L * (L - 1), L])

    @np.errstate(over="ignore", invalid="ignore")
    def S(x):
        s, cG = x[0] * scales[0], x[1] * scales[1]
        rows, means = np.exp(x[2:]) * model.sigma_g**2
        c1 = s - cG
        g = cG + c1 / L
        q = g**2 + (L - 1) * (c1 / L) ** 2 + (L - 1) / L**2 * rows * L / L + means / L**2
        s2 = s**2 + means / L
        cost = (x[0] ** 2 + x[1] ** 2) / 2 + (modes / 2 * (np.exp(x[2:]) - 1 - x[2:])).sum()
        return mean_field.action(s, s2, g, q, p.P, p.V, p.sigma_w, p.kappa) + cost

    def gradient(x):
        return np.array([S(x + 1e-100j * unit).imag / 1e-100 for unit in np.eye(4)])

    return lambda x: float(S(x)), gradient


def check_linear_posterior(count, seed):
    rng = np.random.default_rng(seed)
    for k in range(count):
        V, L = int(10 ** rng.uniform(0.31, 1.7)), int(10 ** rng.uniform(0.5, 1.9))
        sigma_w, sigma_g, kappa = 10 ** rng.uniform([-0.3, -0.3, -1], [0.3, 0.3, 1])
        P = kappa * V / sigma_w**2 * 10 ** rng.uniform(-1, 5)
        model = Model(V=V, L=L, P=P, score="linear", sigma_w=sigma_w, sigma_g=sigma_g, kappa=kappa)
        found = find_minima(model, "posterior")
        S, gradient = whole_posterior(model)
        reach = np.sqrt(P / kappa)
        lowest = np.inf
        for _ in range(6):
            angle, noise = rng.uniform(0, np.pi), rng.uniform(-8, 0, 2)
            radius = reach * 10 ** rng.uniform(-2, 0)
            start = np.array([radius * np.cos(angle), radius * np.sin(angle), *noise])
            end = minimize(S, start, jac=gradient, method="BFGS", options={"gtol": 1e-7})
            lowest = min(lowest, end.fun if np.isfinite(end.fun) else np.inf)
        assert found.converged.all(), model
        assert found.action[0] <= lowest + 1e-8 * (1 + abs(lowest)), (k, model, lowest)
        assert np.all(np.diff(found.action) > -1e-9 * (1 + abs(lowest)))


@pytest.mark.nightly
def test_no_minimiser_over_pattern_and_noise_finds_less():
    check_linear_posterior(25, 0)


@pytest.mark.nightly
def test_no_minimiser_over_pattern_and_noise_finds_less_in_two_thousand_models():
    check_linear_posterior(2000, 1)


@pytest.mark.parametrize(
    ("V", "L", "P", "S"), [(8, 32, 10_000, 1862.0817163), (4, 12, 5623.4, 384.9017846)], ids=["long", "short"]
)
def test_posterior_that_was_missed(V, L, P, S):
    found = find_minima(Model(V=V, L=L, P=P, score="linear"), "posterior")
    assert found.action[0] == pytest.approx(S, rel=1e-9)
    assert found.converged.all()
    assert found.order_parameters["cG"][0] > 0.17


def test_minima_close_to_full_copying_are_found_once():
    """Closer to it than the gap itself tells: a1 is 0 to rounding, and S that of full copying."""
    for P in (5.0, 8.7, 9.0, 12.0, 50.0):
        found = find_minima(Model(V=8, L=64, P=P, sigma_g=10, score={"name": "entmax", "alpha": 1.9}))
        assert (found.count, found.converged.all()) == (1, True)
        assert found.order_parameters["aG"][0] == pytest.approx(1, abs=1e-12)
    found = find_minima(Model(V=200, L=20, P=1000, score={"name": "entmax", "alpha": 1.9}))
    assert found.action[0] == pytest.approx(95.06172839506, rel=1e-12)


def test_one_model_in_its_two_names():
    """α = 1 is softmax, T divides σ_g, at all sizes of the gap."""
    for sigma_g in (1e-3, 1.0, 1e2, 1e4, 1e6):
        plain = find_minima(Model(V=8, L=64, P=800, sigma_g=sigma_g))
        for score in ({"name": "entmax", "alpha": 1}, {"name": "temperature", "T": 1}):
            same = find_minima(Model(V=8, L=64, P=800, sigma_g=sigma_g, score=score))
            np.testing.assert_allclose(same.action, plain.action, rtol=1e-12)
            np.testing.assert_allclose(same.curvatures, plain.curvatures, rtol=1e-9)
        other = find_minima(Model(V=8, L=64, P=800, score={"name": "temperature", "T": 1 / sigma_g}))
        np.testing.assert_allclose(other.action, plain.action, rtol=1e-12)
        np.testing.assert_allclose(other.curvatures, plain.curvatures, rtol=1e-9)


SCARCE = [(1e-12, 1.0), (1e-3, 1.0), (1.0, 1.0), (1.0, 1e9), (1e-12, 1e9)]


@pytest.mark.parametrize(("P", "kappa"), SCARCE)
@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_the_prior_wins_where_data_are_scarce_or_hot(P, kappa, inputs):
    found = find_minima(Model(V=8, L=16, P=P, kappa=kappa, score="linear", inputs=inputs), "posterior")
    assert (found.count, found.converged.all()) == (1, True)
    assert abs(found.coordinates["cG"][0]) < 1e-3
    assert found.action[0] == pytest.approx(0, abs=2.5 * P / kappa + 1e-12)


def test_no_minimum_that_stands_next_to_the_origin_is_counted():
    found = find_minima(Model(V=2, L=2**40, P=1000, score="linear"), "posterior")
    assert found.count == 1


def test_a_model_without_a_minimum_is_flagged_in_a_grid(monkeypatch):
    from phasekit.theory import diagram, minima

    def losing(action, p):
        found = minima_of(action, p)
        kept = found.owner != 1
        return type(found)(found.owner[kept], tuple(x[kept] for x in found.points), found.start[kept])

    monkeypatch.setattr(minima, "minima_of", losing)
    grid = Model(V=8, L=16).grid(P=[64, 128, 256])
    found = find_minima(grid)
    assert found.count.tolist() == [1, 0, 1]
    assert np.isnan(found.action[1]).all()
    assert not found.converged[1].any()
    assert "none found for 1" in repr(found)
    assert diagram.phase_diagram(grid)["phase"].values.tolist()[1] == -1
    nothing = StationaryPoints(np.empty(0, dtype=np.int64), (np.empty(0),), np.empty(0))
    monkeypatch.setattr(minima, "minima_of", lambda action, p: nothing)
    with pytest.raises(ArithmeticError, match="no minimum"):
        find_minima(Model(V=8, L=16, P=64))


def test_what_is_printed_of_many_minima_is_short():
    grid = Model(V=8, L=16).grid(P=np.geomspace(10, 1e4, 60), L=np.arange(4, 64))
    text = repr(find_minima(grid))
    assert len(text.splitlines()) <= 12
    assert len(text) < 1500
    assert "60 × 60" in text
    assert "more than one for" in text
    assert len(repr(find_minima(Model(V=8, L=16, P=96, score="linear"), "posterior")).splitlines()) <= 12


@pytest.mark.parametrize("score", ["sparsemax", "softmax", "linear"])
def test_a_description_is_plain_json(score):
    """Of a minimum in the kink, at the origin, and on the path."""
    model = Model(V=64, L=8, P=2e4 if score == "sparsemax" else 64, score=score)
    described = json.loads(json.dumps(find_minima(model).describe(), allow_nan=False))
    assert described["branches"][0]["converged"]
    assert (described["branches"][0]["start"] is None) == (score == "linear")


@pytest.mark.slow
def test_no_model_with_a_broken_number_has_a_minimum():
    for name, score in (("linear", "linear"), ("softmax", "softmax"), ("entmax", "entmax")):
        for estimator in ("map", "posterior") if name == "linear" else ("map",):
            action = action_for(Model(V=8, L=16, score=score), estimator)
            p = Model(V=8, L=16, P=1.0, score=score).grid(P=[40.0, 50.0]).parameters().ravel()
            owner, *_ = minima_of(action, p.replace(sigma_g=np.array([1.0, np.nan])))
            assert set(owner.tolist()) == {0}


@pytest.mark.parametrize("by", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_actions_know_ratios_only(by):
    """κ counts data against them; n and b of SSA measure logits in units of σ_g; T likewise; α = 1 is softmax."""
    ssa = {"name": "ssa", "n": 3.0, "b": 0.8}
    for score, estimator in ((ssa, "map"), ("linear", "map"), ("linear", "posterior"), ("sparsemax", "map")):
        one, other = Model(V=8, L=24, P=700, score=score), Model(V=8, L=24, P=700 * by, kappa=by, score=score)
        np.testing.assert_allclose(
            find_minima(other, estimator).action, find_minima(one, estimator).action, rtol=1e-9, atol=1e-9
        )
    scaled = Model(V=8, L=24, P=700, score={**ssa, "b": 0.8 / by}, sigma_g=by)
    np.testing.assert_allclose(find_minima(scaled).action, find_minima(Model(V=8, L=24, P=700, score=ssa)).action)
    hot = find_transitions(Model(V=8, L=64, score={"name": "temperature", "T": by})).values
    plain = find_transitions(Model(V=8, L=64, sigma_g=1 / by)).values
    assert hot["P_star"] == pytest.approx(plain["P_star"], rel=1e-9)
    assert hot["spinodals"] == pytest.approx(plain["spinodals"], rel=1e-9)


def test_entmax_of_one_has_the_transition_of_softmax():
    for alpha, digits in ((1, 1e-9), (1 + 1e-7, 1e-5)):
        values = find_transitions(Model(V=8, L=64, score={"name": "entmax", "alpha": alpha})).values
        assert values["P_star"] == pytest.approx(find_transitions(Model(V=8, L=64)).values["P_star"], rel=digits)
