"""Masked heads: rows in a common field against exhaustive search over which rows copy, and the numbers of the page."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.theory.action import action_for
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions


def random_model(random, longest, mask="causal"):
    V, L = int(random.integers(2, 200)), int(random.integers(3, longest + 1))
    scales = {name: float(np.exp(random.uniform(-0.7, 0.7))) for name in ("sigma_w", "sigma_g", "kappa")}
    P = scales["kappa"] * L * np.log(L + 1) ** 2 * np.exp(random.uniform(-1.5, 2.5)) / scales["sigma_g"] ** 2
    return Model(V=V, L=L, P=float(P), mask=mask, **scales)


def action_of(model, gaps):
    """S of gaps (..., rows), with the readout eliminated: written without the field."""
    keys = model.mask.keys(model.L)
    t, weight = model.P * model.sigma_w**2 / (model.kappa * model.V), model.P / (2 * model.kappa * model.V)
    alpha = 1 / (1 + (keys - 1) * np.exp(-gaps))
    g, q = alpha.mean(-1), (alpha**2 + (1 - alpha) ** 2 / (keys - 1)).mean(-1)
    cost = ((1 - 1 / keys) * gaps**2).sum(-1) / (2 * model.sigma_g**2)
    slope = alpha * (1 - alpha) / keys.size
    on_g = -2 * t * g / (1 + t * q) * weight * (model.V - 1)
    on_q = (t * g / (1 + t * q)) ** 2 * weight * (model.V - 1)
    tilt = 2 * (alpha - (1 - alpha) / (keys - 1))
    gradient = slope * (on_g[..., None] + tilt * on_q[..., None]) + (1 - 1 / keys) * gaps / model.sigma_g**2
    return weight * (1 / (1 + t) + (model.V - 1) * (1 - t * g**2 / (1 + t * q))) + cost, gradient


def exhaustive(model):
    """The lowest minimum over all choices of rows that begin by copying: Adam on all, then BFGS on the best."""
    keys = model.mask.keys(model.L)
    raised = np.array(list(itertools.product((0.0, 1.0), repeat=keys.size)))
    gaps, mean, square = raised * (np.log(keys) + 1.5), 0.0, 0.0
    for step in range(1, 301):
        _, gradient = action_of(model, gaps)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        rate = 0.1 * (1 - step / 301)
        gaps = gaps - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-12)
    best = np.argsort(action_of(model, gaps)[0])[:4]
    ends = [minimize(lambda x: action_of(model, x), gaps[k], jac=True, method="BFGS", tol=1e-9) for k in best]
    return min(end.fun for end in ends)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_choice_of_rows_is_lower(seed):
    model = random_model(np.random.default_rng(seed), 10)
    assert find_minima(model).action[0] == pytest.approx(exhaustive(model), rel=1e-7)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_no_choice_of_rows_is_lower_in_many_models(seed):
    model = random_model(np.random.default_rng(seed), 12, "window:5" if seed % 5 == 0 else "causal")
    assert find_minima(model).action[0] == pytest.approx(exhaustive(model), rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_place_of_the_front_is_lower(seed):
    """Long contexts: descents that begin with the front anywhere."""
    model = random_model(np.random.default_rng(50 + seed), 120)
    rows = action_for(model).rows(model.parameters())
    found = [rows.descended(first).action for first in range(0, model.L + 1, 2)]
    lowest = rows.lowest()
    assert lowest.action <= min(found) * (1 + 1e-12)
    gaps = lowest.rows.delta  # of softmax at unit temperature
    value, gradient = action_of(model, gaps)
    assert value == pytest.approx(lowest.action, rel=1e-12)
    assert np.abs(gradient).max() < 1e-7 * max(1, np.abs(gaps).max())


@pytest.mark.parametrize(
    ("L", "P", "action", "g", "front"),
    [
        (64, 523, 205.47, 0.1389, None),
        (64, 742, 268.45, 0.2244, None),
        (64, 850, 288.478, 0.2848, None),
        (256, 2048, 869.58, None, 8),
        (256, 3072, 1279.83, None, 24),
        (256, 4096, 1645.93, None, 75),
        (256, 5257, 1935.80, None, 214),
    ],
)
def test_the_front(L, P, action, g, front):
    found = find_minima(Model(V=8, L=L, P=P, mask="causal"))
    assert found.converged[0]
    assert found.action[0] == pytest.approx(action, abs=0.006)
    if g is not None:
        assert found.averages["g"][0] == pytest.approx(g, abs=6e-5)
        assert found.positions["copy"][0].mean() == pytest.approx(found.averages["g"][0])
    if front is not None:
        assert found.coordinates["front"][0] == front
    assert found.positions["loss"][0].mean() == pytest.approx(found.loss[0])


def test_copy_weights_by_position():
    found = find_minima(Model(V=8, L=64, mask="causal").grid(P=[523, 742]))
    places = np.array([4, 10, 18, 26, 34, 50]) - 2
    expected = [[0.564, 0.352, 0.184, 0.077, 0.046, 0.026], [0.557, 0.405, 0.322, 0.265, 0.214, 0.046]]
    assert found.positions["copy"][:, 0, places] == pytest.approx(np.array(expected), abs=6e-4)


def test_short_rows_are_sacrificed():
    """Row 2 learns first; later it overshoots, and its loss rises above that of chance, 1 − 1/V."""
    losses = find_minima(Model(V=8, L=256, mask="causal").grid(P=[2048, 5257])).positions["loss"][:, 0, 0]
    assert losses / (7 / 8) == pytest.approx(np.array([0.107, 2.7]), rel=0.02)


def test_both_ends_lag_behind():
    found = find_minima(Model(V=8, L=256, P=5257, mask="causal"))
    assert found.count == 3
    assert np.isnan(found.start[0])
    assert found.start[1:].tolist() == [256, 0]
    assert found.action[1] == pytest.approx(1942.5, abs=0.06)
    assert found.action[2] == pytest.approx(1977.99, abs=0.06)


def test_the_front_begins_with_a_jump_in_large_vocabularies():
    found = find_transitions(Model(V=1024, L=64, mask="causal"))
    assert found.order == "first"
    jump = found.passage("P_star")
    assert pytest.approx(31.58, abs=0.006) == jump.P / 64
    assert jump.jump["loss"] == pytest.approx([0.93, 0.40], abs=0.006)
    assert jump.spinodals[0] < jump.P < jump.spinodals[1]
    assert found.threshold("P_end") > jump.P
    assert found.values["jump"]["front"] == [1, 5]


def profile_of(model, w):
    """E of the page on a fine mesh of gaps, each row at its lowest: it shares nothing with the search."""
    keys = model.mask.keys(model.L)[:, None]
    gaps = np.linspace(0, 14, 2001)
    alpha = 1 / (1 + (keys - 1) * np.exp(-gaps))
    q, cost = alpha**2 + (1 - alpha) ** 2 / (keys - 1), (1 - 1 / keys) * gaps**2 / 2
    t, weight = model.P / model.V, model.P * (model.V - 1) / (2 * model.V)
    rows = np.stack([(weight / keys.size * (field**2 * q - 2 * field * alpha) + cost).min(1).sum() for field in w])
    return model.P / (2 * model.V * (1 + t)) + weight * (1 + w**2 / t) + rows


@pytest.mark.slow
def test_a_jump_beside_a_steep_but_smooth_rise():
    """The cell of P with the largest rise of g holds no jump here; the one before does."""
    found = find_transitions(Model(V=1000, L=256, mask="causal"))
    jump = found.passage("P_star")
    assert pytest.approx(7934.5, abs=0.3) == jump.P
    assert jump.jump["aG"] == pytest.approx([0.0426, 0.1422], abs=3e-4)
    there = Model(V=1000, L=256, P=jump.P, mask="causal")
    low, high = (profile_of(there, w).min() for w in (np.linspace(0.365, 0.4, 36), np.linspace(0.7, 0.75, 51)))
    assert low == pytest.approx(high, abs=0.01)
    between = profile_of(there, np.linspace(0.42, 0.65, 24))
    assert between.min() > low + 0.05


def test_a_state_is_listed_once():
    found = find_minima(Model(V=1000, L=256, P=7934, mask="causal"))
    assert found.converged.all()
    assert np.diff(found.action).min() > 1e-3


def test_an_end_of_many_data_gives_no_warning(recwarn):
    assert find_minima(Model(V=8, L=8, P=1e12, mask="causal")).converged[0]
    assert not recwarn.list


@pytest.mark.parametrize(("V", "L", "P"), [(64, 14, 14415.44), (20, 6, 3000.0)])
def test_rows_of_sparsemax_sit_in_their_kinks(V, L, P):
    """All data: each row has its whole weight on the token, and a readout that the data alone set."""
    found = find_minima(Model(V=V, L=L, P=P, mask="causal", score="sparsemax"))
    assert found.converged[0]
    copy, t, keys = found.positions["copy"][0], P / V, np.arange(2, L + 1)
    assert copy == pytest.approx(1)
    cost = ((1 - 1 / keys) / 2).sum()
    assert found.action[0] == pytest.approx(P / (2 * V) * (1 + (V - 1)) / (1 + t) + cost, rel=1e-9)


def test_otherwise_it_moves_row_by_row():
    found = find_transitions(Model(V=8, L=32, mask="causal"))
    assert found.order == "front"
    assert [passage.name for passage in found.passages] == ["P_end"]
    assert found.evidence["largest_step"] < 3


def test_a_window_as_wide_as_the_context_is_a_causal_mask():
    wide, causal = (find_minima(Model(V=8, L=32, P=300, mask=mask)) for mask in ("window:32", "causal"))
    assert wide.action == pytest.approx(causal.action, rel=1e-13)


@pytest.mark.parametrize("score", ["temperature", "ssa", "entmax", "sparsemax", "mixture"])
def test_other_scores(score):
    """The action of what was found, from the score's own rows on the logits that cost as much."""
    model = Model(V=8, L=24, P=150, mask="causal", score=score)
    found = find_minima(model)
    assert found.converged.all()
    if score == "temperature":
        same = find_minima(Model(V=8, L=24, P=150, mask="causal"))
        assert found.action == pytest.approx(same.action)


def test_what_has_no_theory_is_refused():
    for fields, reason in [
        ({"score": "linear"}, "divided by L or by what they see"),
        ({"inputs": "token+position"}, "together with inputs"),
        ({"key_dim": 3}, "nuclear norm"),
    ]:
        with pytest.raises(InputError, match=reason):
            find_minima(Model(V=8, L=16, P=10, mask="causal", **fields))
    with pytest.raises(InputError, match="posterior"):
        find_minima(Model(V=8, L=16, P=10, mask="causal"), "posterior")
