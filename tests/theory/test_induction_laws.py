"""Closed forms of an induction head's passages against the thresholds themselves, and their local exponents."""

import numpy as np
import pytest

from phasekit.model import Model, Parameters
from phasekit.theory.action import action_for
from phasekit.theory.closed_forms import closed_forms_of
from phasekit.theory.scaling import exponent, scaling_law
from phasekit.theory.transitions import locate

MODEL = Model(V=8, L=8, task="induction")
FORMS = closed_forms_of("P_star", MODEL.score, MODEL.task)


def models(V, L, seed=0):
    V, L = np.broadcast_arrays(np.asarray(V, float), np.asarray(L, float))
    rng = np.random.default_rng(seed)
    return Parameters(np.ones(V.shape), V, L, *10 ** rng.uniform(-0.3, 0.3, (3, *V.shape)))


def test_both_layers_together():
    """Within 5 % from L = 64 on and 2 % from 1000 on, for V = L to 1000 L and any priors that leave t well above 1."""
    L = np.array([64.0, 256, 1000, 4096, 1e5])
    one = np.ones(5)
    for many in (1, 2, 8, 100, 1000):
        p = Parameters(one, many * L, L, one, one, one)
        off = FORMS["both_layers"](p) / locate(action_for(MODEL), p)["P_star"] - 1
        assert np.all(np.abs(off) < np.where(L < 200, 0.05, np.where(L < 1000, 0.025, 0.02)))
    p = models(L, L)  # other priors: t is as small as 10 here
    exact = locate(action_for(MODEL), p)["P_star"]
    assert FORMS["both_layers"](p) == pytest.approx(exact, rel=0.11)
    p = Parameters(one, L, L, one, one, one)
    off = np.abs(FORMS["leading"](p) / locate(action_for(MODEL), p)["P_star"] - 1)
    assert np.all(np.diff(off) < 0)
    assert off[-1] < 0.03


def test_one_after_the_other():
    """P₁ within 3 % and P₂ within 4 % once V is far beyond L⁵/ln⁶L."""
    second = closed_forms_of("P_layer2", MODEL.score, MODEL.task)["second_layer"]
    V, L, one = np.array([1e6, 1e7, 1e8, 1e10]), np.array([16.0, 16, 64, 64]), np.ones(4)
    p = Parameters(one, V, L, one, one, one)
    row = locate(action_for(MODEL), p)
    assert FORMS["first_layer"](p) == pytest.approx(row["P_star"], rel=0.03)
    assert second(p) == pytest.approx(row["P_layer2"], rel=0.04)


def test_first_layer_is_infinite_where_a_sequence_holds_everything():
    assert np.all(np.isinf(FORMS["first_layer"](models([8, 50], [8, 50]))))


@pytest.mark.slow
def test_local_exponents_over_three_decades():
    V = np.round(np.geomspace(64, 64e3, 13))
    law = scaling_law(Model(V=64, L=64, task="induction"), "P_star", "V", V)
    local = law["local_exponent"].to_numpy()
    assert 0.4 < local[0] < local[-1] < 1.0  # L ln² of V at first, then V: layer 2's price
    assert exponent(law).value == pytest.approx(0.95, abs=0.05)
    law = scaling_law(Model(V=1e9, L=16, task="induction"), "P_star", "V", np.geomspace(1e6, 1e9, 10).round())
    assert exponent(law).value == pytest.approx(0.75, abs=0.01)
    assert law["closed_first_layer"].to_numpy() == pytest.approx(law["P_star"].to_numpy(), rel=0.01)
    p = Parameters(*(np.ones(7),) * 6).replace(V=np.geomspace(64, 64e3, 7).round(), L=np.geomspace(64, 64e3, 7).round())
    P = locate(action_for(MODEL), p)["P_star"]
    slopes = np.diff(np.log(P)) / np.diff(np.log(p.L))
    assert np.all(np.diff(slopes) < 0)
    assert slopes[[0, -1]] == pytest.approx([1.358, 1.172], abs=0.003)
