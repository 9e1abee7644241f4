"""The model description: what it refuses, that it is a value, and the numbers it hands to theory."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasekit.errors import InputError
from phasekit.model import AXES, INTEGER_AXES, RANGES, Grid, Model, Parameters
from phasekit.scores import SSA, Linear, Softmax
from phasekit.theory import solve

GOOD = {"V": 8, "L": 16, "P": 256.0}
BAD = [
    *[(name, value) for name in ("V", "L") for value in (1, 0, -3, 2.5, float("nan"), "eight", None, True, 2**60, [8])],
    *[
        (name, value)
        for name in ("P", "sigma_w", "sigma_g", "kappa")
        for value in (0, -1.0, float("nan"), float("inf"), "many", [1.0, 2.0], 10**400, 1e-300, 1e30)
    ],
    *[(name, None) for name in ("sigma_w", "sigma_g", "kappa")],
    ("inputs", "tokens"),
    ("inputs", None),
    ("score", "hardmax"),
    ("score", None),
    ("score", {"name": "linear", "slope": 2}),
    ("heads", 2),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_wrong_field_is_refused_in_one_line_that_names_it(field, value):
    with pytest.raises(InputError) as refused:
        Model(**{**GOOD, field: value})
    line = str(refused.value)
    assert "\n" not in line
    assert len(line) < 250
    assert field in line


@pytest.mark.parametrize("field", ["V", "L"])
def test_sizes_must_be_given(field):
    with pytest.raises(InputError, match=f"{field} = None: missing"):
        Model(**{name: value for name, value in GOOD.items() if name != field})


def test_an_unknown_score_error_lists_the_known_ones():
    with pytest.raises(InputError, match=r"hardmax.*linear.*softmax"):
        Model(V=8, L=16, score="hardmax")


def test_numpy_numbers_are_taken_like_python_ones():
    model = Model(V=np.int64(8), L=np.float64(16), P=np.float32(256))
    assert model == Model(**GOOD)
    assert [type(value) for value in (model.V, model.L, model.P)] == [int, int, float]


def test_a_model_is_a_value():
    model = Model(**GOOD, score=Linear(), inputs="token+position")
    same = Model(**GOOD, score="linear", inputs="token+position")
    assert model == same
    assert hash(model) == hash(same)
    assert model != Model(**GOOD, score="softmax", inputs="token+position")
    assert pickle.loads(pickle.dumps(model)) == model
    with pytest.raises(ValueError, match="frozen"):
        model.V = 9


sizes = st.integers(2, 2**53)
positive = st.floats(1e-9, 1e9)


@pytest.mark.slow
@given(
    V=sizes,
    L=sizes,
    P=positive | st.none(),
    sigma_w=positive,
    kappa=positive,
    score=st.sampled_from(["linear", "softmax"]),
    inputs=st.sampled_from(["positional", "token+position"]),
)
def test_description_is_json_and_gives_the_model_back(**fields):
    model = Model(**fields)
    assert Model(**json.loads(json.dumps(model.describe(), allow_nan=False))) == model


def test_a_changed_copy_is_validated():
    model = Model(**GOOD)
    assert model.at(P=3).P == 3
    assert model.at(score="linear").score == Linear()
    assert model.P == 256
    with pytest.raises(InputError, match="kappa = -1"):
        model.at(kappa=-1)
    with pytest.raises(InputError, match="heads"):
        model.at(heads=2)


def test_parameters_of_a_model():
    p = Model(**GOOD, sigma_w=0.5, inputs="token+position").parameters()
    assert p.shape == ()
    assert (p.P, p.V, p.L, p.sigma_w, p.sigma_g, p.kappa) == (256, 8, 16, 0.5, 1, 1)
    assert p.pooling_cost == pytest.approx((8 * 16 / 24) ** 2)
    assert Model(**GOOD).parameters().pooling_cost == 256


def test_theory_needs_P():
    model = Model(V=8, L=16)
    with pytest.raises(InputError, match="P = None: missing"):
        model.parameters()
    with pytest.raises(InputError, match="P = None: missing"):
        model.grid(L=[4, 8]).parameters()


def test_a_grid_varies_its_axes_along_dimensions():
    p = Model(V=8, L=2).grid(P=[1, 10, 100], L=[4, 8]).parameters()
    assert p.shape == (3, 2)
    flat = p.ravel()
    assert flat.P.tolist() == [1, 1, 10, 10, 100, 100]
    assert flat.L.tolist() == [4, 8] * 3
    assert flat.V.tolist() == [8] * 6
    assert p.expand().shape == (3, 2, 1)
    picked = flat[np.array([1, 4])]
    assert isinstance(picked, Parameters)
    assert picked.P.tolist() == [1, 100]
    assert picked.setting.encoding.name == "one-hot"
    assert flat.replace(P=7.0).P == 7


@pytest.mark.parametrize(
    ("axes", "line"),
    [
        ({}, "no axes"),
        ({"P": []}, "at least one point"),
        ({"P": [[1, 2]]}, "at least one point"),
        ({"P": [1, -2]}, "P = -2.0"),
        ({"P": [1, np.nan]}, "P = nan"),
        ({"P": [1, np.inf]}, "P = inf"),
        ({"P": ["a"]}, "P = "),
        ({"P": [3, 3]}, "repeat"),
        ({"L": [4, 4.5]}, "L = 4.5"),
        ({"L": [1]}, "L = 1.0"),
        ({"V": [2.0**54]}, "V = "),
        ({"sigma_g": [0]}, "sigma_g = 0.0"),
        ({"heads": [1]}, "heads"),
        ({"score": ["linear"]}, "must be one of P, V, L"),
    ],
)
def test_a_wrong_axis_is_refused_in_one_line(axes, line):
    with pytest.raises(InputError, match=line) as refused:
        Grid(Model(**GOOD), axes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", AXES)
def test_the_ends_of_a_range_belong_to_it(name):
    for value in RANGES[name]:
        assert getattr(Model(**{**GOOD, name: value}), name) == value
        assert Model(**GOOD).grid(**{name: [value]}).axes[name] == value
    beyond = [1, 2**53 + 2] if name in INTEGER_AXES else [RANGES[name][0] * 0.99, RANGES[name][1] * 1.01]
    for value in beyond:
        with pytest.raises(InputError, match=f"{name} = "):
            Model(**{**GOOD, name: value})
        with pytest.raises(InputError, match=f"{name} = "):
            Model(**GOOD).grid(**{name: [value]})


def test_every_number_of_a_model_can_be_an_axis():
    for name in AXES:
        assert Model(**GOOD).grid(**{name: [2, 4]}).parameters().shape == (2,)


def test_numbers_of_the_score_are_numbers_of_the_model():
    model = Model(**GOOD, score=SSA(n=2, b=0.5))
    alone = model.parameters()
    assert dict(alone.score) == {"n": 2, "b": 0.5}
    grid = model.grid(n=[1, 1.5, 4], P=[10, 20]).parameters()
    assert grid.shape == (3, 2)
    flat = grid.ravel()
    assert flat.score["n"].tolist() == [1, 1, 1.5, 1.5, 4, 4]
    assert flat.score["b"].tolist() == [0.5] * 6
    assert flat.P.tolist() == [10, 20] * 3
    assert flat[np.array([2, 5])].score["n"].tolist() == [1.5, 4]
    assert flat.expand().score["n"].shape == (6, 1)
    assert flat.replace(n=3.0, P=1.0).score["n"] == 3
    assert dict(flat.score)["n"].tolist() == [1, 1, 1.5, 1.5, 4, 4]  # the original stays as it is
    with pytest.raises(TypeError, match="no such numbers: m"):
        flat.replace(m=1.0)


def test_solvers_hand_the_numbers_of_the_score_through():
    p = Model(**GOOD, score="ssa").grid(n=[2, 3], P=[5, 7]).parameters().ravel()
    found = solve.root(lambda x, q: x - q.score["n"] * q.P / q.score["b"], np.zeros(4), np.full(4, 1e3), p)
    assert found == pytest.approx([12.5, 17.5, 18.75, 26.25], rel=1e-12)


@pytest.mark.parametrize(
    ("axes", "line"),
    [
        ({"n": [1, 0.5]}, "score ssa: n = 0.5"),
        ({"b": [0.0]}, "score ssa: b = 0.0"),
        ({"n": [2, 2]}, "repeat"),
        ({"n": ["two"]}, "n = .*must be numbers"),
        ({"T": [1]}, "must be one of P, V, L, sigma_w, sigma_g, kappa, n, b"),
    ],
)
def test_a_wrong_axis_over_a_number_of_the_score_is_refused(axes, line):
    with pytest.raises(InputError, match=line):
        Model(**GOOD, score="ssa").grid(**axes)


def test_input_errors_survive_a_trip_between_processes():
    error = InputError("P", np.arange(1000.0), "must be\nshort")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert len(str(error)) < 100
    assert "\n" not in str(error)
    assert str(InputError("V", 10**5000, "too large")) == "V = a int too long to print: too large"


def test_the_default_score_is_softmax():
    assert Model(V=8, L=16).score == Softmax()


def test_the_strength_of_the_data_and_the_P_of_a_strength_are_inverse_to_each_other():
    p = Model(V=8, L=16, P=96, sigma_w=2, kappa=3).grid(P=[1.0, 96.0], kappa=[0.5, 3.0]).parameters()
    np.testing.assert_allclose(p.strength, np.array([[1.0], [96.0]]) * 4 / (np.array([0.5, 3.0]) * 8), rtol=1e-15)
    np.testing.assert_allclose(p.with_strength(p.strength).P, np.broadcast_to(p.P, (2, 2)), rtol=1e-15)
    assert p.with_strength(2.0).P.shape == (2, 2)


def test_induction_is_a_task_of_its_own():
    model = Model(V=8, L=4, task={"name": "induction", "first": {"name": "ssa", "n": 2.0}})
    assert Model(**json.loads(json.dumps(model.describe()))) == model
    assert "task" not in Model(V=8, L=4).describe()
    assert Model(V=8, L=4, P=2, task="induction:first=softmax").task.first == Softmax()
    assert model.at(P=1.0).parameters().score.keys() == {"first_n", "first_b"}
    for changes, field in [
        ({"L": 9}, "V"),
        ({"inputs": "token+position"}, "inputs"),
        ({"key_dim": 3}, "key_dim"),
        ({"task": "recall"}, "task"),
        ({"task": "induction:first=hardmax"}, "score"),
    ]:
        with pytest.raises(InputError) as refused:
            Model(**{"V": 8, "L": 4, "task": "induction", **changes})
        assert refused.value.field == field
    with pytest.raises(InputError, match="at least L = 16"):
        Model(V=8, L=4, task="induction").grid(L=[4, 16])
