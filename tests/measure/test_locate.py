"""Locators on curves whose threshold is known: exact lines, the theory's own curves, and data that show nothing."""

import numpy as np
import pytest

from phasekit.measure.locate import NotLocated, crossing, onset
from phasekit.measure.observables import QUANTITIES
from phasekit.measure.predict import predicted, predicted_curve
from phasekit.model import Model

P = np.array([80.0, 90, 105, 110, 120, 130, 140, 300])


def test_the_onset_of_pure_pooling_is_exact():
    y = np.maximum(P / 101 - 1, 0.0)[None]
    assert onset(P, y) == pytest.approx(101, rel=1e-12)
    assert onset(P, y, check=True) == pytest.approx(101, rel=1e-12)


def test_what_lies_far_above_the_onset_does_not_count():
    y = np.maximum(P / 101 - 1, 0.0)[None]
    y[:, -1] = 0.3  # back in range, but beyond a P where y exceeds the ceiling
    y = np.insert(y, -1, 2.0, axis=1)
    assert onset(np.insert(P, -1, 200.0), y) == pytest.approx(101, rel=1e-12)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], "no P lies below"),
        ([0, 0, 0, 0, 0, 0, 0.1, 0.2], "fewer than 3"),
        ([0, 0, 0, 0, 0, 0, 0, 0], "fewer than 3"),
    ],
)
def test_an_onset_that_is_not_shown(y, words):
    with pytest.raises(NotLocated, match=words):
        onset(P, np.array([y]))


def test_a_crossing_with_missing_points():
    x = np.log(P / 107)
    y = np.stack([x + x**2, x + x**2])
    y[0, ::2] = np.nan
    assert crossing(P, y) == pytest.approx(107, rel=1e-10)


def test_a_crossing_just_outside_is_extrapolated_to_and_no_further():
    at, outside = P[2:5], P[2:5] / 1.1
    assert crossing(at, np.log(at / 104)[None]) == pytest.approx(104, rel=1e-10)
    with pytest.raises(NotLocated, match="no crossing"):
        crossing(at, np.log(outside / 80)[None])
    with pytest.raises(NotLocated, match="fewer than 2"):
        crossing(at, np.array([[0.1, np.nan, np.nan]]))


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
@pytest.mark.parametrize(("V", "L"), [(4, 24), (8, 32), (8, 128)])
def test_thresholds_of_linear_attention_are_read_off_from_the_theory_s_own_curves(inputs, V, L):
    """What the locators get wrong by themselves, on the values of P that sweeps use: below 0.3 %."""
    model = Model(V=V, L=L, score="linear", inputs=inputs)
    for name, multiples in (("P1", (0.9, 1.05, 1.1, 1.2, 1.3, 1.4)), ("P2", (0.9, 0.95, 0.99, 1.04, 1.1))):
        true, quantity = predicted(model, name), QUANTITIES[name]
        at = true * np.array(multiples)
        assert quantity.locate(at, predicted_curve(model, at, quantity)[None]) == pytest.approx(true, rel=3e-3)


@pytest.mark.parametrize("L", [16, 64, 256])
def test_the_jump_is_read_off_from_the_theory_s_own_energies(L):
    model, quantity = Model(V=8, L=L, score="softmax"), QUANTITIES["P_star"]
    true = predicted(model, "P_star")
    at = true * np.array([0.993, 0.997, 1.004, 1.009])
    y = predicted_curve(model, at, quantity)
    assert np.isfinite(y).all()
    assert (np.diff(y) < 0).all()
    assert crossing(at, y[None]) == pytest.approx(true, rel=1e-4)
    assert np.isnan(predicted_curve(model, np.array([true * 0.3]), quantity)).all()


def test_a_model_without_the_transition_has_no_prediction():
    assert np.isnan(predicted(Model(V=8, L=64, score="softmax"), "P1"))
