"""Comparing scores: against numbers found by other routes, and on scores whose ranking is known."""

import numpy as np
import pytest

from phasekit import InputError, Model, find_minima, find_transitions
from phasekit.scores import get_score, parse_score, write_score
from phasekit.theory.compare import compare_scores

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
    mixed = get_score(
        "mixture", scores=["softmax", get_score("ssa", n=2.5), "mixture:scores=entmax(alpha=1.000001)+ssa"]
    )
    for score in (get_score("ssa", n=2.5, b=1 / 3), get_score("softmax"), get_score("entmax", alpha=1.000001), mixed):
        assert parse_score(write_score(score)) == get_score(write_score(score)) == score
    assert write_score(get_score("ssa", n=2.5, b=1), without=["n"]) == "ssa:b=1"
    assert write_score(mixed.at(scores=["softmax", mixed.scores[1]], shares=[0.25, 0.75])) == (
        "mixture:scores=softmax+ssa(n=2.5,b=0.8):shares=0.25+0.75"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "ssa:n",
        "ssa:n=0.5",
        "softmax:n=2",
        "ssa:n=2:",
        "ssa:n=2:n=3",
        "ssa,softmax",
        "ssa(n=2",
        "ssa(n=2)b",
    ],
)
def test_words_that_are_no_score(text):
    with pytest.raises(InputError):
        parse_score(text)


def test_a_number_given_twice():
    with pytest.raises(InputError, match="gives n, and n = 3 is given beside it"):
        parse_score("ssa:n=2", n=3)
    with pytest.raises(InputError, match="gives n, and n = 3 is given beside it"):
        get_score("ssa:n=2", n=3)
    assert parse_score("ssa:n=2", b=3) == get_score("ssa", n=2, b=3)


def test_a_score_named_twice_is_refused():
    with pytest.raises(InputError, match="must not repeat an entry"):
        compare_scores(Model(V=8, L=16), [get_score("softmax"), get_score("softmax")])


def test_nothing_to_compare():
    with pytest.raises(InputError, match="at least one"):
        compare_scores(MODEL, [])
