"""Row averages and the posterior of softmax attention, against quadrature, the prior, and sampled heads."""

import warnings
from functools import cache

import numpy as np
import pytest
import torch

from phasekit import InputError, Model, find_minima, find_transitions
from phasekit.scores import get_score
from phasekit.theory.action.row_averages import Tilt, rows_of
from phasekit.theory.action.row_curve import _Way, curve_of
from phasekit.theory.action.row_posterior import RowPosterior
from phasekit.theory.action.row_quadrature import RowQuadrature
from phasekit.theory.action.row_sample import row_sample
from phasekit.theory.transitions import Family, critical_endpoint
from phasekit.theory.transitions.curve import StationaryCurves

SCORES = [
    {"name": "softmax"},
    {"name": "ssa", "n": 2.0, "b": 1.0},
    {"name": "sparsemax"},
    {"name": "entmax", "alpha": 1.5},
]


@cache
def dense_rows(score, sigma_g):
    """Copy weight, squared norm and prior weight of rows of three keys on a dense grid of logits."""
    h = np.linspace(-6, 6, 121)
    rows = np.stack(np.meshgrid(h, h, h, indexing="ij"), axis=-1).reshape(-1, 3)
    A = score.rows(torch.from_numpy(rows * sigma_g)).numpy()
    return A[:, 0], (A**2).sum(axis=1), np.exp(-(rows**2).sum(axis=1) / 2)


def quadrature(score, theta, eta, sigma_g):
    """ln Z₁, ⟨g⟩, ⟨q⟩."""
    g, q, prior = dense_rows(score, sigma_g)
    weight = prior * np.exp(theta * g + eta * q)
    return np.log(weight.sum() / prior.sum()), (weight @ g) / weight.sum(), (weight @ q) / weight.sum()


@pytest.mark.slow
@pytest.mark.parametrize("described", SCORES, ids=lambda d: d["name"])
@pytest.mark.parametrize("tilt", [(0.0, 0.0), (2.0, -3.0), (12.0, -9.0)])
def test_row_averages_against_dense_quadrature(described, tilt):
    score = get_score(described)
    rows = rows_of(score, 3, 1.3)
    log_Z, g, q = quadrature(score, *tilt, 1.3)
    found, _ = rows.cumulants(*tilt)
    drawn = 0.0 if isinstance(rows, RowQuadrature) else rows.group_log_Z(*tilt).std(ddof=1) / np.sqrt(8)
    assert found.log_Z == pytest.approx(log_Z, abs=4 * drawn + 3e-4)  # the grid itself is good to 1e-4
    assert found.g == pytest.approx(g, abs=0.004)
    assert found.q == pytest.approx(q, abs=0.004)


@pytest.mark.slow
@pytest.mark.parametrize("score", ["softmax", "ssa"])
@pytest.mark.parametrize("sigma_g", [1e-6, 1e-3, 0.1])
def test_rows_of_narrow_logits_against_draws_from_the_prior(score, sigma_g):
    """Such a tilt is weak: draws of the prior know the answer. Product laws exist at few normalisers here."""
    L, theta, eta = 6, 20.0, -5.0
    found, _ = rows_of(get_score(score), L, sigma_g).cumulants(theta, eta)
    draws = np.random.default_rng(0).standard_normal((100_000, 1, L)) * sigma_g
    row = get_score(score).rows(torch.from_numpy(draws))[:, 0].numpy()
    g, q = row[:, 0], (row**2).sum(1)
    tilt = np.exp(theta * g + eta * q)
    mean = np.average(g, weights=tilt)
    assert found.g == pytest.approx(mean, abs=5 * g.std() / np.sqrt(g.size))
    assert found.gg == pytest.approx(np.average((g - mean) ** 2, weights=tilt), rel=5 * np.sqrt(2 / g.size))


@pytest.mark.parametrize("beyond", [{"sigma_g": 1e6}, {"sigma_g": 1e4, "L": 64}])
def test_rows_that_cant_be_averaged_are_refused(beyond):
    model = Model(**{"V": 4, "L": 6, "P": 10, **beyond})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"^L, .*sigma_g = .*: rows of softmax"):
            find_minima(model, "posterior")


def test_derivatives_of_log_Z():
    rows = RowQuadrature(get_score("softmax"), 16, 1.0, error=1e-9)
    (at, near), h = rows.cumulants(20.0, -22.0), 1e-3

    def change(dtheta, deta, what):
        ends = [getattr(rows.cumulants(20.0 + s * dtheta, -22.0 + s * deta, near)[0], what) for s in (1, -1)]
        return (ends[0] - ends[1]) / (2 * h)

    for by, names in (((h, 0), ("g", "gg", "gq")), ((0, h), ("q", "gq", "qq"))):
        for what, name in zip(("log_Z", "g", "q"), names, strict=True):
            assert change(*by, what) == pytest.approx(getattr(at, name), rel=1e-6)


def test_derivatives_of_F():
    """The gradient everywhere, the Hessian where the gradient vanishes."""
    action = RowPosterior(get_score("softmax"))
    p = Model(V=8, L=16, P=256.0).parameters()
    scale = action.physical((np.ones(1),), p)[0]
    z = np.array([4.0, 15.0, 30.0]) / scale
    h = 1e-4 * z
    slope = (action.jet((z + h,), p).value - action.jet((z - h,), p).value) / (2 * h)
    np.testing.assert_allclose(action.jet((z,), p).gradient[..., 0], slope, rtol=1e-4, atol=1e-5)
    found = find_minima(Model(V=8, L=16, P=256.0), "posterior")
    at = found.coordinates["theta"][:1] / scale
    ends = [action.jet((at * (1 + side * 1e-2),), p).gradient[0, 0] for side in (1, -1)]
    assert float(found.curvatures[0, 0]) == pytest.approx((ends[0] - ends[1]) / (2e-2 * at), rel=1e-2)  # interpolated


@pytest.mark.parametrize(("P", "aG", "q", "loss"), [(128, 0.016, 0.119, 1.169), (320, 0.286, 0.178, 0.519)])
def test_agrees_with_sampled_heads(P, aG, q, loss):
    """Means of six HMC chains (docs/theory.md, section 8), with finite-size shifts of a few percent at L = 16."""
    found = find_minima(Model(V=8, L=16, P=P), "posterior")
    assert int(found.count) == 1
    assert bool(found.converged[0])
    assert float(found.order_parameters["aG"][0]) == pytest.approx(aG, abs=0.006)
    assert float(found.averages["q"][0]) == pytest.approx(q, abs=0.003)
    assert float(found.loss[0]) == pytest.approx(loss, abs=0.02)


@pytest.mark.slow
def test_first_order_at_64_smooth_at_16():
    found = find_transitions(Model(V=8, L=64), "posterior")
    assert found.order == "first"
    assert found.values["P_star"] == pytest.approx(1436, abs=1)  # drawn rows: 1436.8 ± 0.8
    low, high = found.values["spinodals"]
    assert (low, high) == (pytest.approx(1362.5, abs=0.5), pytest.approx(1777.1, abs=0.5))
    assert found.evidence["P_star_error"] < 0.02
    assert (
        abs(found.evidence["P_star_with_fluctuations"] - found.values["P_star"]) < 30
    )  # O(1) in F, 0.21 per unit of P
    for P, branches in ((1300, 1), (1609, 2), (1822, 1)):
        assert int(find_minima(Model(V=8, L=64, P=P), "posterior").count) == branches
    # At these fields q can't be relaxed at fixed θ (two solutions meet near θ = 84, P = 2380); at fixed g it can.
    beyond = find_minima(Model(V=8, L=64).grid(P=[2000, 2250, 2356, 2700, 3200]), "posterior")
    assert beyond.converged.all()
    rise = np.diff(np.log(beyond.order_parameters["aG"][:, 0])) / np.diff(np.log(beyond.models.axes["P"]))
    assert np.all((rise > 0.4) & (rise < 0.6))
    smooth = find_transitions(Model(V=8, L=16), "posterior")
    assert smooth.order == "crossover"
    assert 200 < smooth.values["P_x"] < 300  # aG passes 0.1 at 239


@pytest.mark.slow
def test_coverage_without_data_is_that_of_prior_heads():
    """A ratio of means; the mean of the ratio is 0.679. At L = 4 a mode counted twice would show."""
    action, model = RowPosterior(get_score("softmax")), Model(V=8, L=4, P=1e-6)
    theory = float(action.coverage((np.array(1e-6),), model.parameters()))
    A = torch.randn(100_000, 4, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64).softmax(-1)
    aG = (A.roll(-1, dims=-2).diagonal(dim1=1, dim2=2).mean(-1) - 1 / 4) / (1 - 1 / 4)
    inside, norm = 1 + 3 * aG**2, A.square().sum((1, 2))
    ratio = float(inside.mean() / norm.mean())
    error = float((inside - ratio * norm).std() / norm.mean()) / np.sqrt(len(A))
    assert theory == pytest.approx(ratio, abs=4 * error + 5e-4)  # 5e-4: the theory's own rows
    assert error < 5e-4


@pytest.mark.slow
def test_numbers_of_the_score_are_an_axis():
    """Two values of n in one grid, against each alone."""
    model = Model(V=8, L=16, P=150.0, score={"name": "ssa", "n": 2.0, "b": 1.0})
    both = find_minima(model.grid(n=[1.5, 3.0]), "posterior")
    for k, n in enumerate((1.5, 3.0)):
        alone = find_minima(model.at(score=model.score.at(n=n)), "posterior")
        assert float(both.action[k, 0]) == pytest.approx(float(alone.action[0]), rel=1e-12)


@pytest.mark.slow
def test_difference_of_drawn_rows_is_within_its_error():
    """Rows of another seed differ by what the standard error of the first says."""
    score = get_score({"name": "entmax", "alpha": 1.5})
    rows, others = (row_sample(score, 32, 1.0, seed=seed) for seed in (0, 1))
    low, high = ((1.0, -8.0), (30.0, -30.0))
    at = [[each.cumulants(*tilt)[0].log_Z for tilt in (low, high)] for each in (rows, others)]
    error = rows.error_of_difference(*(Tilt(*tilt, log_Z) for tilt, log_Z in zip((low, high), at[0], strict=True)))
    assert 1e-4 < error < 0.05
    assert abs((at[0][1] - at[0][0]) - (at[1][1] - at[1][0])) < 4 * np.sqrt(2) * error


def test_refuses_what_it_cannot_sample():
    with pytest.raises(InputError, match="P = "):
        find_minima(Model(V=8, L=16, P=1e19), "posterior")
    with pytest.raises(InputError, match="4096"):
        find_minima(Model(V=8, L=5000, P=1e3, score="sparsemax"), "posterior")


@pytest.mark.parametrize(("P", "kappa"), [(1e-12, 1.0), (1e-3, 1.0), (1.0, 1.0), (1.0, 1e9), (1e-12, 1e9)])
def test_the_prior_wins_where_data_are_scarce_or_hot(P, kappa):
    """The minimum is then the prior's state, to the noise of the rows that it is averaged over."""
    found = find_minima(Model(V=8, L=16, P=P, kappa=kappa), "posterior")
    assert (found.count, found.converged.all()) == (1, True)
    assert abs(found.order_parameters["aG"][0]) < 1e-3
    assert found.action[0] == pytest.approx(0, abs=1.5 * P / kappa + 0.01)


def test_the_state_next_to_the_prior_joins_the_curve():
    """Where the curve of stationary states begins, P a little below and above give nearly the same."""
    action, p = RowPosterior(get_score("softmax")), Model(V=8, L=16, P=1.0).parameters().ravel()
    first = action.curve_nodes(p)[:, 0]
    P = float(p.with_strength(action.balancing_strength(first, p)).P[0])
    below, above = (find_minima(Model(V=8, L=16, P=P * by), "posterior") for by in (1 - 1e-3, 1 + 1e-3))
    assert below.converged.all()
    assert above.converged.all()
    np.testing.assert_allclose(below.action, above.action, rtol=3e-3)
    np.testing.assert_allclose(below.averages["g"], above.averages["g"], rtol=1e-5)


@pytest.mark.slow
def test_a_curve_is_looked_at_up_to_its_very_end():
    """Where weights grow slowly rows can't be averaged to the end, and nothing is asked beyond it."""
    model = Model(V=8, L=64, score={"name": "ssa", "n": 1.2, "b": 1.0})
    found = find_transitions(model, "posterior")
    assert found.order == "crossover"
    assert found.values["P_x"] == pytest.approx(5125, rel=2e-3)


@pytest.mark.slow
def test_jumps_end_where_the_curve_s_own_slope_vanishes():
    """The endpoint's curvature is interpolated; d ln t/d ln θ, solved for at each place, isn't."""
    (n,) = np.atleast_1d(
        critical_endpoint(
            Model(V=8, L=16, score={"name": "ssa", "n": 4.0, "b": 1.0}), Family("n", (2.0, 6.0)), "posterior"
        )["n"]
    )
    slopes = []
    for other in (n - 0.01, n + 0.01):
        score = get_score({"name": "ssa", "n": float(other), "b": 1.0})
        way, curve = _Way(rows_of(score, 16.0, 1.0), 16.0, 8.0, 1.0), curve_of(score, 16.0, 8.0, 1.0, 1.0)
        x = np.log(curve.theta)
        k = int(np.argmin([node.log_t_slope for node in curve._nodes[:-2]]))
        places = np.linspace(x[k - 1], x[k + 1], 41)
        slopes.append(min(way._solve(at, float(curve.eta(np.exp(at))), None).log_t_slope for at in places))
    assert slopes[0] > 0 > slopes[1]


@pytest.mark.slow
@pytest.mark.parametrize(("b", "between", "expected"), [(1.0, (1.2, 4.0), 1.441), (0.8, (1.2, 4.0), 1.521)])
def test_jumps_of_long_rows_end_at_a_fold_and_not_in_the_noise_of_strong_fields(b, between, expected):
    """At L = 64 the eigenvalue falls with P as 1/P and then to its noise, whose sign is no fold."""
    model = Model(V=8, L=64, score={"name": "ssa", "n": 2.0, "b": b})
    end = critical_endpoint(model, Family("n", between), "posterior")
    assert float(end["n"]) == pytest.approx(expected, abs=3e-3)
    assert 3000 < float(end["P"]) < 5000


@pytest.mark.nightly
def test_curves_that_end_past_their_folds_dip_as_whole_ones_do():
    """Random models with and without folds; both curves have the same dip, and most short ones are shorter."""
    shorter = 0
    rng = np.random.default_rng(5)
    for _ in range(6):
        V, L, n = float(rng.choice([2, 4, 8, 32])), float(rng.integers(12, 64)), float(rng.uniform(1.3, 6.0))
        action = RowPosterior(get_score({"name": "ssa", "n": n, "b": 1.0}))
        p = Model(V=int(V), L=int(L), P=1.0, score={"name": "ssa", "n": n, "b": 1.0}).parameters().ravel()
        short, whole = (StationaryCurves(which, p) for which in (action.near_folds(), action))
        (u, soft), (u_whole, soft_whole) = short.softest(), whole.softest()
        assert soft == pytest.approx(soft_whole, abs=1e-3, rel=0.1), (V, L, n)  # where it folds, its sign counts
        if soft < 0:  # the dip of a smooth curve is flat: its place is known less well than its depth
            P, P_whole = short.at(u, p).P, whole.at(u_whole, p).P
            np.testing.assert_allclose(P, P_whole, rtol=1e-3)
        assert short.nodes[0, -1] <= whole.nodes[0, -1], (V, L, n)
        shorter += short.nodes[0, -1] < 0.9 * whole.nodes[0, -1]
    assert shorter >= 3


@pytest.mark.slow
def test_folds_beyond_steep_weak_fields_are_found():
    """Of two tokens P ~ θ in weak fields, before any copying: as steep as where the curve has passed its folds."""
    model = Model(V=2, L=256, P=1.0)
    curve = curve_of(get_score("softmax"), 256.0, 2.0, 1.0, 1.0)
    slopes = curve.log_t_slope(curve.theta)
    assert (slopes[curve.share(curve.theta) < 0.01] > 0.9).sum() > 3  # what this is about
    assert slopes.min() < -0.5
    for action in (RowPosterior(get_score("softmax")), RowPosterior(get_score("softmax")).near_folds()):
        assert StationaryCurves(action, model.parameters().ravel()).softest()[1] < 0
