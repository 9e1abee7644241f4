"""One model written in two ways gives one answer, over the whole range of every score's numbers."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions, transition_table

HEAD = {"V": 8, "L": 64}
SCALES = 10.0 ** np.arange(-8, 9, 2)  # of the logits


def thresholds(grid):
    table = transition_table(grid)
    return table["P_star"].values


def test_a_temperature_is_a_narrower_prior():
    cold = thresholds(Model(**HEAD, score="temperature").grid(T=1 / SCALES))
    wide = thresholds(Model(**HEAD, score="softmax").grid(sigma_g=SCALES))
    assert np.isfinite(cold).all()
    np.testing.assert_allclose(cold, wide, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3.0, 20.0])
def test_the_scale_b_of_ssa_is_a_wider_prior(n):
    scores = [{"name": "ssa", "n": n, "b": b} for b in (0.8, 1.0)]
    scales = SCALES[1:-1:2]
    scaled = thresholds(Model(**HEAD, score=scores[0]).grid(b=scales))
    wide = thresholds(Model(**HEAD, score=scores[1]).grid(sigma_g=scales))
    assert np.isfinite(scaled).all()
    np.testing.assert_allclose(scaled, wide, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("score", ["softmax", "temperature", {"name": "ssa", "n": 3}, "entmax"])
def test_only_the_ratio_of_P_to_kappa_counts(score):
    kappa = 10.0 ** np.arange(-8, 9, 4)
    found = thresholds(Model(**HEAD, score=score).grid(kappa=kappa))
    np.testing.assert_allclose(found / kappa, found[2], rtol=1e-9)


@pytest.mark.parametrize(("score", "numbers"), [("temperature", {"T": 1e-4}), ("ssa", {"n": 1e4, "b": 1.0})])
def test_sharp_scores_have_their_minima(score, numbers):
    sharp = find_minima(Model(**HEAD, P=1.0, score={"name": score, **numbers}))
    wide = find_minima(Model(**HEAD, P=1.0, sigma_g=1e4))
    assert sharp.converged.all()
    np.testing.assert_allclose(sharp.action, wide.action, rtol=1e-3 if score == "ssa" else 1e-8)
    np.testing.assert_allclose(sharp.curvatures[0, -1], wide.curvatures[0, -1], rtol=1e-3 if score == "ssa" else 1e-6)
    assert wide.curvatures[0, -1] == pytest.approx(14.37, abs=0.01)


def test_entmax_at_alpha_1_is_softmax():
    model, softmax = Model(**HEAD, score={"name": "entmax", "alpha": 1}), Model(**HEAD)
    assert find_transitions(model).values["P_star"] == pytest.approx(823.00965745, rel=1e-10)
    assert find_minima(model.at(P=900)).action == pytest.approx(find_minima(softmax.at(P=900)).action, rel=1e-10)
    grid = thresholds(model.grid(alpha=[1, 1.2]))
    assert grid[0] == pytest.approx(823.00965745, rel=1e-10)


@pytest.mark.slow
def test_a_large_n_of_ssa_is_softmax():
    for n in (1e3, 1e6, 1e9):
        found = find_transitions(Model(**HEAD, score={"name": "ssa", "n": n, "b": 1 / n}))
        assert found.order == "first"
        assert found.values["P_star"] == pytest.approx(823.00965745, rel=3 / n + 1e-7)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"score": {"name": "ssa", "n": 1e9, "b": 1e9}}, "sigma_g = 1.0: times the score's slope"),
        ({"score": {"name": "temperature", "T": 1e-9}, "sigma_g": 10}, "sigma_g = 10.0: times the score's slope"),
        ({"score": {"name": "entmax", "alpha": 20}}, "alpha = 20.0: transitions are resolved up to"),
    ],
)
def test_beyond_what_is_resolved_models_are_refused(fields, line):
    with pytest.raises(InputError, match=line):
        find_transitions(Model(**HEAD, **fields))


@pytest.mark.parametrize(
    ("score", "numbers"),
    [
        ("ssa", {"n": 1e300}),
        ("ssa", {"b": 1e-300}),
        ("temperature", {"T": 1e-300}),
        ("temperature", {"T": 1e300}),
        ("entmax", {"alpha": 1e300}),
    ],
)
def test_scores_have_a_working_range(score, numbers):
    with pytest.raises(InputError, match=f"score {score}: .*: must be a finite number of at least .* and at most "):
        Model(**HEAD, score={"name": score, **numbers})
