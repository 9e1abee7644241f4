"""The numbers behind the pictures of saturation: what they claim can be read off their tables."""

import numpy as np
import pandas as pd
import pytest

from figures.saturation import saturation_crossover, saturation_gradient, saturation_mass, saturation_weights
from figures.saturation._saturation import SCORES, magnified, raised, weights, winner_gradients
from phasekit.drawing.presets import QUICK
from phasekit.scores import names


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw a figure without writing it; return the pictures and tables that it would write, by name."""

    def draw(module):
        saved = {}

        def keep(figure, table, stem):
            saved[stem.name] = (figure, pd.DataFrame(table))
            return [stem]

        monkeypatch.setattr(module, "save", keep)
        files = module.main(tmp_path, QUICK)
        assert [file.name for file in files] == list(saved)
        return saved

    return draw


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def test_every_registered_score_is_shown():
    # "per-head" isn't a score of its own: it gives each head one of the others
    assert {score.name for score in SCORES.values()} == set(names()) - {"per-head"}


def test_weights_are_those_of_the_row(drawn):
    saved = drawn(saturation_weights)
    assert list(saved) == ["saturation_weights_lambda", "saturation_weights_gap"]
    for stem, column, row in (
        ("saturation_weights_lambda", "lambda", lambda x: x * np.array([2, 1, 0, -1])),
        ("saturation_weights_gap", "gap", lambda x: np.array([1 + x, 1, 0, -1])),
    ):
        figure, table = saved[stem]
        assert len(figure.axes) == len(SCORES)
        keys = [f"key_{key}" for key in range(4)]
        np.testing.assert_allclose(table[keys].sum(axis=1), 1, atol=1e-12)
        for score, log_weight in (
            ("softmax", lambda z: z),
            ("SSA", lambda z: 1.5 * np.sign(z) * np.log1p(0.8 * abs(z))),
        ):
            for entry in table[table["score"] == score].iloc[::37].to_dict("records"):
                w = np.exp(log_weight(row(entry[column])) - log_weight(row(entry[column])).max())
                np.testing.assert_allclose([entry[key] for key in keys], w / w.sum(), atol=1e-12)


def test_mass_shows_the_limit_law_and_both_powers(drawn):
    (_, table) = drawn(saturation_mass)["saturation_mass"]
    ssa = table[table["score"] == "SSA"].set_index("panel")
    shared = ssa.loc["z = (2, 1, −1)"]
    assert shared["mass"].iloc[-1] == pytest.approx(0.261204, abs=1e-4)
    for panel, expected in (("z = (2, −1, −3)", -3.0), ("others (1, 0, −1)", -1.5)):
        far = ssa.loc[panel][ssa.loc[panel]["x"] > 1e3]
        assert slope(far["x"], far["mass"]) == pytest.approx(expected, abs=3e-3)
    softmax = table[(table["score"] == "softmax") & (table["panel"] == "others (1, 0, −1)")]
    tail = softmax[(softmax["x"] > 10) & (softmax["x"] < 500)]
    np.testing.assert_allclose(np.diff(np.log(tail["mass"])) / np.diff(tail["x"]), -1, atol=1e-3)
    for score in ("sparsemax", "1.5-entmax"):
        assert (table[(table["score"] == score) & (table["x"] > 10)]["mass"] == 0).all()


def test_gradients_fall_as_predicted(drawn):
    (_, table) = drawn(saturation_gradient)["saturation_gradient"]
    far = table[(table["score"] == "SSA") & (table["gap"] > 1e3)]
    assert slope(far["gap"], far["winner"]) == pytest.approx(-2.5, abs=3e-3)
    assert slope(far["gap"], far["others"]) == pytest.approx(-1.5, abs=3e-3)
    linear = table[table["score"] == "linear"]
    assert (linear["winner"] == 0.25).all()
    assert (linear["others"] == 0).all()


@pytest.mark.parametrize("name", SCORES)
def test_gradients_are_derivatives_of_the_weights(name):
    score, step = SCORES[name], 1e-6
    logits = np.array([[1.3, 0.9, 0.2, -0.7]])
    moved = [weights(score, logits + sign * step * np.eye(4))[:, 0] for sign in (1, -1)]  # row j moves logit j
    differences = (moved[0] - moved[1]) / (2 * step)
    np.testing.assert_allclose(winner_gradients(score, logits)[0], differences, atol=1e-8)


def test_the_map_shows_roots(drawn):
    ((_, table),) = drawn(saturation_crossover).values()
    crossing = table[table["gap"] > 0]
    assert ((crossing["n"] * crossing["b"]) > 1).all()
    assert ((table["n"] * table["b"])[table["gap"] == 0] <= 1).all()
    h = crossing["n"] * np.log1p(crossing["b"] * crossing["gap"]) - crossing["gap"]
    np.testing.assert_allclose(h, 0, atol=1e-12)
    just_below = crossing["n"] * np.log1p(crossing["b"] * crossing["gap"] / 2) - crossing["gap"] / 2
    assert (just_below > 0).all()


def test_rows_are_built_as_described():
    np.testing.assert_array_equal(magnified((2.0, -1.0), np.array([1.0, 3.0])), [[2, -1], [6, -3]])
    np.testing.assert_array_equal(raised((1.0, 0.0), np.array([0.5])), [[1.5, 1, 0]])
