"""When an induction head's layers form: numbers known, and a search over all minima that knows nothing of curves."""

import numpy as np
import pytest

from phasekit.model import Model, Parameters
from phasekit.theory.action import action_for
from phasekit.theory.minima import find_minima, minima_of
from phasekit.theory.transitions import find_transitions, locate, transition_table

SOFTMAX = action_for(Model(V=8, L=8, task="induction"))


@pytest.mark.parametrize(
    ("V", "L", "P_star"),
    [(8, 8, 158.8), (16, 8, 259.1), (16, 16, 478.1), (32, 16, 751), (32, 32, 1352), (64, 64, 3640), (128, 32, 3224)],
)
def test_both_layers_jump_together(V, L, P_star):
    found = find_transitions(Model(V=V, L=L, task="induction"))
    (passage,) = found.passages
    assert (found.order, passage.kind) == ("first", "jump")
    assert abs(passage.P - P_star) <= (0.05 if P_star < 500 else 0.5)
    low, high = passage.spinodals
    assert low < passage.P < high
    assert np.isinf(high) == (V == L)
    document = found.describe()
    assert document["spinodals"][1] is None if V == L else document["spinodals"][1] == high
    assert document["jump"]["alpha1"][0] == 1 / L
    assert document["P_layer2"] is None


def test_layers_jump_one_after_the_other():
    first, second = find_transitions(Model(V=65536, L=16, task="induction")).passages
    assert (first.name, first.kind, second.name, second.kind) == ("P_star", "jump", "P_layer2", "jump")
    assert pytest.approx(342189, abs=0.5) == first.P
    assert pytest.approx(623719, abs=0.5) == second.P
    assert first.jump["alpha1"] == pytest.approx([0.0625, 0.792], abs=5e-5)
    assert first.jump["loss"] == pytest.approx([0.9730, 0.9704], abs=5e-5)
    assert second.jump["alpha2"] == pytest.approx([0.092, 0.267], abs=5e-4)
    assert second.jump["loss"] == pytest.approx([0.918, 0.498], abs=6e-4)


def test_layer_2_follows_smoothly_in_short_sequences():
    found = find_transitions(Model(V=65536, L=6, task="induction"))
    first, second = found.passages
    assert (first.kind, second.kind) == ("jump", "crossover")
    assert first.P < second.P
    assert first.after.order_parameters["alpha1"] > 0.5 > 0.2 > first.after.order_parameters["alpha2"]
    assert found.describe()["layer2"] == {"kind": "crossover"}


def test_two_tokens_need_no_jump():
    found = find_transitions(Model(V=96, L=2, task="induction"))
    assert (found.order, found.passages[0].kind) == ("second", "onset")
    p = Model(V=96, L=2, P=1.0, task="induction").parameters().ravel()
    assert pytest.approx(SOFTMAX.spinodal(p)[0], rel=1e-6) == found.passages[0].P


def random_models(count, seed):
    rng = np.random.default_rng(seed)
    V = np.floor(10 ** rng.uniform(0.5, 8, count))
    L = np.floor(np.maximum(3, V ** rng.uniform(0.1, 0.7, count)))
    L, V = np.minimum(L, 3000), np.maximum(V, L)
    V[::7] = L[::7]
    return Parameters(np.ones(count), V, L, *10 ** rng.uniform(-0.5, 0.5, (3, count)))


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.nightly)])
def test_global_minimum_changes_there_and_nowhere_else(count):
    p = random_models(count, 1)
    row = locate(SOFTMAX, p)
    assert not row["failed"].any()
    jump = row["P_star"], np.where(np.isfinite(row["layer2_action"]), row["P_layer2"], np.inf)
    assert np.all(jump[0] < jump[1])

    def alpha1(P):
        there = p.replace(P=P)
        owner, z, _ = minima_of(SOFTMAX, there)
        value = SOFTMAX.jet(z, there[owner]).value
        lowest = np.lexsort((value, owner))
        best = lowest[np.unique(owner[lowest], return_index=True)[1]]
        return [x[best] for x in SOFTMAX.order(tuple(x for x in z), there[owner])]

    below, above = alpha1(jump[0] * (1 - 1e-6)), alpha1(jump[0] * (1 + 1e-6))
    assert below[0] == pytest.approx(1 / p.L, rel=1e-9)
    assert above[0] == pytest.approx(row["alpha1"][:, 1], rel=1e-3)
    assert np.all(above[0] > 1.5 * below[0])
    # Where the window is a few times 1e-6 wide, neighbouring P say nothing about the states at the jump.
    twice = np.isfinite(jump[1])
    wide = row["layer2_spinodals"][:, 1] > row["layer2_spinodals"][:, 0] * (1 + 1e-4)
    assert twice.sum() >= count / 40
    second = np.where(twice, jump[1], 10 * jump[0])
    before, after = alpha1(second * (1 - 1e-6))[1], alpha1(second * (1 + 1e-6))[1]
    assert before[wide] == pytest.approx(row["layer2_alpha2"][wide, 0], rel=2e-3)
    assert after[wide] == pytest.approx(row["layer2_alpha2"][wide, 1], rel=2e-3)
    for share in (0.2, 0.5, 0.8):  # nothing jumps between the two, nor after
        P = jump[0] * np.where(twice, (second / jump[0]) ** share, 100**share)
        near, far = alpha1(P)[1], alpha1(P * (1 + 1e-5))[1]
        assert near == pytest.approx(far, rel=0.01)


def test_spinodals_are_where_minima_end():
    model = Model(V=128, L=8, task="induction")
    found = find_transitions(model)
    low, high = found.passages[0].spinodals
    assert high == pytest.approx(2975, abs=0.5)

    def at(P):
        orders = find_minima(model.at(P=P)).order_parameters["alpha1"]
        return orders[np.isfinite(orders)]

    assert at(low * 0.999).max() < 0.2
    assert at(low * 1.001).max() > 0.8
    assert np.isclose(at(high * 0.999), 1 / 8).any()
    assert not np.isclose(at(high * 1.01), 1 / 8, rtol=1e-9).any()


def test_table_over_a_grid():
    table = transition_table(Model(V=64, L=8, task="induction").grid(V=[64, 128], L=[4, 8, 16]))
    assert table["P_star"].shape == (2, 3)
    assert table["layer2_spinodals"].dims == ("V", "L", "end")
    single = find_transitions(Model(V=128, L=8, task="induction")).threshold("P_star")
    assert table["P_star"].sel(V=128, L=8) == pytest.approx(single, rel=1e-12)
