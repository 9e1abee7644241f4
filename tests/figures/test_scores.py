"""Networks of other scores: their branch, their ends, the table and the picture, on sweeps of seconds."""

import numpy as np
import pandas as pd
import pytest

from figures.scores import _scores
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

JUMPING = Model(V=8, L=32, score={"name": "ssa", "n": 4.0, "b": 1.0})


def made_up(P, aG, start, fate="kept", seed=0):
    return {"P": P, "data_seed": seed, "start": start, "number": 0, "aG": aG, "U": 10.0 + aG, "fate": fate}


def test_networks_belong_to_the_minimum_of_nearest_copying():
    at = find_transitions(JUMPING).values
    P, below = round(at["P_star"]), round(0.8 * at["P_star"])
    low, high = at["jump"]["aG"]
    rows = [made_up(P, low * 1.1, "uniform"), made_up(P, high * 0.9, "copy"), made_up(below, 0.01, "uniform")]
    rows += [made_up(P, low, "copy", "not converged"), made_up(P, high, "uniform", "higher energy")]
    found = _scores.beside_theory(JUMPING, pd.DataFrame(rows))
    assert found["branch"].tolist() == ["low", "high", "only", "high"]
    assert found["minima"].tolist() == [2, 2, 1, 2]
    minima = find_minima(JUMPING.at(P=float(P)))
    order = minima.order_parameters["aG"].argsort()
    np.testing.assert_allclose(found["theory_U"][:2], minima.action[order])
    np.testing.assert_allclose(found["theory_aG"][:2], minima.order_parameters["aG"][order])


def test_ends_are_apart_where_their_copying_differs():
    rows = [made_up(100, 0.01, "uniform"), made_up(100, 0.2, "copy"), made_up(100, 0.1, "copy", "not converged")]
    rows += [made_up(200, 0.2, "uniform"), made_up(200, 0.205, "copy"), made_up(300, 0.2, "uniform")]
    found = _scores.gaps(pd.DataFrame(rows))
    assert found["P"].tolist() == [100, 200]
    assert found["apart"].tolist() == [True, False]
    assert found["advantage"].tolist() == pytest.approx([0.19, 0.005])
    counted = _scores.counts(pd.DataFrame(rows))
    assert (counted["networks"], counted["kept"], counted["not converged"], counted["seeds"]) == (6, 5, 1, 1)


@pytest.mark.parametrize(
    ("score", "name"),
    [
        ("sparsemax", "sparsemax"),
        ({"name": "ssa", "n": 1.5, "b": 1.0}, "SSA, n = 1.5"),
        ({"name": "entmax", "alpha": 1.5}, "1.5-entmax"),
        ({"name": "temperature", "T": 0.7}, "softmax, T = 0.7"),
    ],
)
def test_labels(score, name):
    assert _scores.label(Model(V=8, L=16, score=score)) == name


@pytest.mark.nightly
def test_table(drawn):
    csv, md = drawn("table_scores").files
    rows = pd.read_csv(csv)
    rows = rows[rows["L"].isin([32, 64])].set_index(["score", "L"])
    jump, smooth = rows.loc[("SSA, n = 4", 64)], rows.loc[("SSA, n = 1.5", 32)]
    values = find_transitions(JUMPING.at(L=64)).values
    assert (jump["order"], smooth["order"]) == ("first", "crossover")
    assert jump["P"] == pytest.approx(values["P_star"])
    assert abs(jump["measured"] / jump["P"] - 1) < 0.02
    assert jump["verdict"] == smooth["verdict"] == "pass"
    assert jump["found_low"] == pytest.approx(values["jump"]["aG"][0], rel=0.2)
    assert jump["found_high"] == pytest.approx(values["jump"]["aG"][1], rel=0.1)
    assert jump["largest_gap"] > 0.1
    assert jump["higher energy"] > 0
    assert smooth["largest_gap"] < 0.005
    assert smooth["higher energy"] == 0
    sparse = rows.loc[("sparsemax", 64)].set_index("kappa")
    for kappa in (1, 16):
        assert sparse.loc[kappa, "aG_drawn"] == pytest.approx(sparse.loc[kappa, "aG"], rel=0.05)
        assert sparse.loc[kappa, "ends_differ"] < 1e-4
    # What is left at κ = 16 of the distance from infinite data is about 1/16 of that at κ = 1.
    shift = sparse["aG"] / sparse["aG_infinite"] - 1
    assert shift[1] > 0.25
    assert 0 < shift[16] < 0.25 * shift[1]
    assert "4 of 4 rows stay within 0.5%" in md.read_text()


@pytest.mark.slow
def test_picture(drawn):
    rows = drawn("score_networks").numbers("score_networks")
    model = JUMPING.at(L=64)
    values = find_transitions(model).values
    jump = rows[rows["score"] == "SSA, n = 4"]
    line = jump[(jump["kind"] == "theory") & (jump["branch"] == "global")]
    minima = find_minima(model.grid(P=line["P"].to_numpy()))
    np.testing.assert_allclose(line["aG"], minima.order_parameters["aG"][:, 0], rtol=1e-6)
    other = jump[(jump["kind"] == "theory") & (jump["branch"] == "metastable")]["P"]
    low, high = values["spinodals"]
    assert low < other.min() < values["P_star"] < other.max() < high
    sparse = rows[rows["score"] == "sparsemax"]
    drawn_line, infinite = (sparse[sparse["kind"] == kind] for kind in ("sampling force", "theory"))
    middle = drawn_line.iloc[1]
    assert middle["aG"] > 1.2 * np.interp(middle["P"], infinite["P"], infinite["aG"])
    assert set(rows[rows["kind"] == "network"]["kappa"]) == {1, 16}
