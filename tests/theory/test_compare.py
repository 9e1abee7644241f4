"""Comparing scores: against numbers found by other routes, and on scores whose ranking is known."""

import numpy as np
import pytest

from phasekit import InputError, Model, find_minima, find_transitions
from phasekit.scores import get_score, parse_score
from phasekit.theory.compare import compare_scores, in_words

MODEL = Model(V=8, L=32, P=300.0)


@pytest.fixture(scope="module")
def table():
    scores = [get_score("linear"), get_score("softmax"), get_score("temperature", T=2.0), get_score("sparsemax")]
    return compare_scores(MODEL, scores).set_index("score")


def test_orders_and_thresholds_are_those_of_each_score_alone(table):
    for words, row in table.iterrows():
        alone = find_transitions(Model(V=8, L=32, score=parse_score(words)))
        assert row["order"] == alone.order
        assert row["P"] in alone.values.values()
    assert np.isnan(table.loc["linear", "loss_after"])
    jump = find_transitions(Model(V=8, L=32)).values["jump"]
    assert table.loc["softmax", ["loss_before", "loss_after"]].tolist() == jump["loss"]


def test_half_the_loss_is_left_at_P_half(table):
    for words, row in table.iterrows():
        sides = [
            float(find_minima(MODEL.at(P=row["P_half"] * f, score=parse_score(words))).loss[0]) for f in (0.999, 1.001)
        ]
        assert sides[0] > 0.5 >= sides[1]


def test_least_data_first_and_colder_is_faster(table):
    assert table["P_half"].is_monotonic_increasing
    assert table.loc["softmax", "P_half"] < table.loc["temperature:T=2", "P_half"]
    assert table.index[0] == "sparsemax"


def test_state_at_the_given_P(table):
    softmax = find_minima(MODEL)
    assert table.loc["softmax", "loss"] == softmax.loss[0]
    assert table.loc["softmax", "copy"] == softmax.order_parameters["aG"][0]


def test_words_of_a_score_read_back():
    for score in (get_score("ssa", n=2.5, b=0.1), get_score("softmax"), get_score("entmax", alpha=1.25)):
        assert parse_score(in_words(score)) == score


@pytest.mark.parametrize(
    "text", ["", "nothing", "ssa:n", "ssa:n=0.5", "softmax:n=2", "ssa:n=2:", "ssa:n=2:n=3", "ssa,softmax"]
)
def test_words_that_are_no_score(text):
    with pytest.raises(InputError):
        parse_score(text)


def test_a_score_named_twice_is_compared_once():
    table = compare_scores(Model(V=8, L=16), [get_score("softmax"), get_score("softmax")])
    assert table["score"].tolist() == ["softmax"]


def test_nothing_to_compare():
    with pytest.raises(InputError, match="name at least one"):
        compare_scores(MODEL, [])
