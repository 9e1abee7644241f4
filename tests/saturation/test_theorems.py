"""Every theorem's quantity and bounds against 60-digit arithmetic, its hypotheses, and the limits of its truth."""

import dataclasses

import numpy as np
import pytest
from mpmath import mp

from phasekit.errors import InputError
from phasekit.saturation import THEOREMS, get_theorem
from phasekit.saturation.domain import count, select
from phasekit.saturation.sampling import draw
from tests.saturation import brute

ROWS = 25
NAMES = [theorem.name for theorem in THEOREMS]


def points(theorem, seed=3):
    """Rows of every length, a third of them on special patterns (ties, zeros on top, …)."""
    rng = np.random.default_rng(seed)
    for keys in (2, 3, 5):
        for special in (0.0, 0.0, 1.0):
            yield draw(theorem, rng, ROWS, keys, special)


def logarithm(x):
    return -np.inf if x == 0 else float(mp.log(x))


def test_each_theorem_has_a_reference():
    assert list(brute.REFERENCES) == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_quantity_and_bounds_equal_the_words(name):
    theorem = get_theorem(name)
    reference = brute.REFERENCES[name]
    for inputs in points(theorem):
        found = np.broadcast_arrays(theorem.evaluate(**unshaped(inputs)), *theorem.bounds(**unshaped(inputs)))
        for row in range(count(inputs)):
            with mp.workdps(brute.DIGITS):
                expected = reference(**brute.exact({key: values[row] for key, values in inputs.items()}))
                for side, (numbers, exact) in enumerate(zip(found, expected, strict=True)):
                    if exact is None:
                        assert np.all(np.isinf(numbers)), (name, side)
                        continue
                    logs = [logarithm(x) for x in exact]
                    # slack is a difference of logarithms of size up to 1e5: rounding in units of the largest
                    np.testing.assert_allclose(numbers[row], logs, rtol=1e-12, atol=3e-12, err_msg=f"{name} {side}")


@pytest.mark.parametrize("name", NAMES)
def test_bounds_hold_in_the_words_formulation(name):
    theorem = get_theorem(name)
    for inputs in points(theorem, seed=4):
        for row in range(0, count(inputs), 3):
            with mp.workdps(brute.DIGITS):
                numbers = brute.exact({key: values[row] for key, values in inputs.items()})
                value, lower, upper = brute.REFERENCES[name](**numbers)
                rounding = mp.mpf(10) ** -(brute.DIGITS // 3)  # numerical derivatives lose half of the digits
                for j, quantity in enumerate(value):
                    assert quantity >= lower[j] * (1 - rounding), (name, numbers)
                    assert upper is None or quantity <= upper[j] * (1 + rounding), (name, numbers)


def unshaped(inputs):
    """Inputs as a caller gives them."""
    return {name: values if name in ("z", "others") else values[:, 0] for name, values in inputs.items()}


GOOD = {
    "softmax-magnification": {"z": [2, 1, -1], "lam": 3},
    "ssa-ratios": {"z": [2, 1, -1], "lam": 3, "n": 1.5, "b": 0.8},
    "ssa-monotone": {"z": [2, 1, -1], "lam": 3, "factor": 2, "n": 1.5, "b": 0.8},
    "ssa-limit": {"z": [2, 1, -1], "lam": 3, "n": 1.5, "b": 0.8},
    "ssa-magnification": {"z": [2, 1, -1], "lam": 3, "n": 1.5, "b": 0.8},
    "softmax-floor": {"z": [2, 1, -1], "lam": 3},
    "ssa-floor": {"z": [2, 1, -1], "lam": 3, "n": 1.5, "b": 0.8},
    "softmax-imbalance": {"others": [1, -1], "gap": 3},
    "ssa-imbalance": {"others": [1, -1], "gap": 3, "n": 1.5, "b": 0.8},
    "ssa-imbalance-uniform": {"c": -1, "gap": 3, "n": 1.5, "b": 0.8},
    "ssa-tail": {"others": [1, -1], "gap": 30, "n": 1.5, "b": 0.8},
    "ssa-gradient": {"others": [1, -1], "gap": 30, "n": 1.5, "b": 0.8},
    "ssa-gradient-others": {"others": [1, -1], "gap": 30, "n": 1.5, "b": 0.8},
    "softmax-gradient": {"others": [1, -1], "gap": 3},
    "crossover": {"n": 1.5, "b": 0.8, "ratio": 0.5},
    "exponential-limit": {"z": [2, 1, -1], "n": 10},
}
BROKEN = [
    *((name, field, 0) for name, inputs in GOOD.items() for field in inputs if field not in ("z", "others", "c")),
    *((name, "n", -1) for name, inputs in GOOD.items() if "n" in inputs),
    ("softmax-magnification", "z", [1, 1, 1]),
    ("ssa-monotone", "factor", 0.99),
    ("ssa-limit", "n", 0.99),
    ("ssa-limit", "z", [0, 0]),
    ("ssa-magnification", "n", 0.99),
    ("ssa-magnification", "z", [0, 0]),
    ("ssa-tail", "gap", 2.2),
    ("ssa-gradient", "gap", 2.2),
    ("ssa-gradient-others", "gap", 2.2),
    ("crossover", "b", 0.5),
]


@pytest.mark.parametrize(("name", "field", "value"), BROKEN)
def test_a_broken_hypothesis_is_refused_by_name(name, field, value):
    theorem = get_theorem(name)
    theorem.bounds(**GOOD[name])
    with pytest.raises(InputError) as refusal:
        theorem.bounds(**{**GOOD[name], field: value})
    assert refusal.value.field == field
    with pytest.raises(InputError):
        theorem.evaluate(**{**GOOD[name], field: value})


def test_the_winner_must_not_be_negative_in_the_tail():
    with pytest.raises(InputError, match=r"c \+ Δ must not be below 0"):
        get_theorem("ssa-tail").bounds(others=[-100.0, -200.0], gap=99.9, n=1.5, b=0.8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lam": None}, "must be exactly: z, lam"),
        ({"extra": 1}, "must be exactly: z, lam"),
        ({"z": [1, np.nan]}, "must be finite"),
        ({"lam": np.inf}, "must be finite"),
        ({"z": [1.0]}, "at least 2 keys"),
        ({"z": 1.0}, "its shape must be"),
        ({"lam": [[1.0]]}, "its shape must be"),
        ({"z": "words"}, "must be numbers"),
        ({"z": [[2, 1]] * 3, "lam": [1.0, 2.0]}, "numbers of rows must agree"),
    ],
)
def test_malformed_inputs_are_refused(changes, message):
    inputs = {key: value for key, value in {"z": [2, 1, -1], "lam": 3, **changes}.items() if value is not None}
    with pytest.raises(InputError, match=message):
        get_theorem("softmax-floor").bounds(**inputs)


def test_rows_may_come_in_any_order_and_numbers_broadcast():
    theorem = get_theorem("ssa-magnification")
    lower, upper = theorem.bounds(z=[-1, 2, 1], lam=[1.0, 10.0], n=1.5, b=0.8)
    sorted_lower, sorted_upper = theorem.bounds(z=[[2, 1, -1]] * 2, lam=[1.0, 10.0], n=[1.5, 1.5], b=0.8)
    assert lower.shape == (2, 1)
    np.testing.assert_array_equal(lower, sorted_lower)
    np.testing.assert_array_equal(upper, sorted_upper)


def test_unknown_theorems_are_refused():
    with pytest.raises(InputError, match="must be one of softmax-magnification"):
        get_theorem("ssa-floors")


def kept_without(name, dropped, **inputs):
    """Whether a theorem's bounds hold at inputs that break the hypotheses on one field."""
    theorem = get_theorem(name)
    hypotheses = tuple(h for h in theorem.hypotheses if h.field != dropped)
    free = dataclasses.replace(theorem, hypotheses=hypotheses)
    lower, upper = free.bounds(**inputs)
    value = free.evaluate(**inputs)
    return bool(np.all((lower <= value) & (value <= upper)))


def test_hypotheses_are_needed():
    assert not kept_without("ssa-limit", "n", z=[2, 1], lam=1.0, n=0.3, b=0.8)
    assert not kept_without("ssa-magnification", "n", z=[2, 1], lam=1.0, n=0.3, b=0.8)
    assert not kept_without("ssa-monotone", "factor", z=[2, -1], lam=1.0, factor=0.5, n=1.5, b=0.8)
    assert not kept_without("ssa-tail", "gap", others=[-1.2], gap=0.1, n=1.5, b=0.8)  # c + Δ < 0


@pytest.mark.parametrize("name", NAMES)
def test_random_rows_satisfy_the_hypotheses(name):
    theorem = get_theorem(name)
    for inputs in points(theorem, seed=5):
        assert theorem.satisfied(inputs).all()
        theorem.inputs(**unshaped(select(inputs, slice(3))))


@pytest.mark.slow
@pytest.mark.parametrize("name", [theorem.name for theorem in THEOREMS])
def test_no_input_gives_a_silent_nan_or_infinity(name):
    """Where λb|z| and the like overflow in float64, either the right numbers or one line."""
    theorem, rng, answered = get_theorem(name), np.random.default_rng(0), 0
    for _ in range(60):
        given = {}
        for field, variable in theorem.domain.variables.items():
            scale = 10.0 ** rng.choice([-300, -200, -20, -3, 0, 0, 0, 1, 3, 20, 200, 300, 307])
            if variable.kind == "logits":
                given[field] = scale * rng.uniform(-1, 1, 3)
            elif field == "n":
                given[field] = rng.choice([1, 1.5, 2, 7, 1e3, 1e10])
            else:
                given[field] = scale * (rng.uniform(-1, 1) if variable.kind == "logit" else rng.random())
        try:
            value, (lower, upper) = theorem.evaluate(**given), theorem.bounds(**given)
        except InputError:
            continue
        answered += 1
        assert np.isfinite(value).all()
        assert np.isfinite(lower).all() or theorem.lower is None or name == "ssa-limit"
        assert np.isfinite(upper).all() or theorem.upper is None
        room = 1e-9 * np.maximum(np.abs(value), 1)
        assert (lower - room <= value).all()
        assert (value <= upper + room).all()
    assert answered > 10


def test_numbers_beyond_float64_on_the_way_are_right():
    """λb|z| = 1e600: ln R = −2n ln(1e600) up to the parts that cancel."""
    value = get_theorem("ssa-ratios").evaluate(z=[1e200, -1e200], lam=1e200, n=1.5, b=1e200)
    np.testing.assert_allclose(value, -3 * 600 * np.log(10), rtol=1e-14)
    with pytest.raises(InputError, match=r"inputs = .*: lie beyond what float64 can hold"):
        get_theorem("softmax-magnification").evaluate(z=[1e200, -1e200], lam=1e200)
