"""Checks return plain Python values, take NumPy's numbers, and refuse everything else in one line."""

import numpy as np
import pytest

from phasekit import checks
from phasekit.errors import InputError


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_any_library_come_back_as_int(value):
    found = checks.whole_number("count", value, 1)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("value", [3.0, True, np.True_, "3", None, 0, 10, float("nan"), [3], np.array([3])])
def test_what_is_no_whole_number_in_range_is_refused(value):
    with pytest.raises(InputError, match=r"count = .*: must be a whole number of at least 1 and at most 9"):
        checks.whole_number("count", value, 1, 9)


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5)])
def test_real_numbers_of_any_library_come_back_as_float(value):
    found = checks.real_number("rate", value, above=0)
    assert found == 0.5
    assert type(found) is float


@pytest.mark.parametrize("value", [0, -1, True, "0.5", None, 1j, float("nan"), np.inf, 2.5, np.array([0.5])])
def test_what_is_no_real_number_in_range_is_refused(value):
    with pytest.raises(InputError, match=r"rate = .*: must be a finite number above 0 and at most 2"):
        checks.real_number("rate", value, above=0, most=2)


def test_one_of_several_words():
    assert type(checks.one_of("estimator", np.str_("map"), ("map", "posterior"))) is str
    for wrong in ("MAP", None, 1, ["map"], np.array(["map", "map"])):
        with pytest.raises(InputError, match=r"estimator = .*: must be one of map, posterior"):
            checks.one_of("estimator", wrong, ("map", "posterior"))


def test_distinct_entries():
    assert list(checks.distinct("seeds", range(3))) == [0, 1, 2]
    assert list(checks.distinct("seeds", np.arange(2))) == [0, 1]
    for wrong in ([], 3, "ab", None, [1, 1], [[1], [1]]):
        with pytest.raises(InputError, match="seeds = "):
            checks.distinct("seeds", wrong)


def test_arrays_of_numbers_lose_nothing_in_silence():
    assert checks.finite_numbers("x", [1, np.float32(2)]).tolist() == [1, 2]
    assert checks.number_array("x", ["1e3", "2"]).tolist() == [1000, 2]
    assert checks.finite_numbers("x", np.ma.masked_array([1.0, 2.0], mask=[False, False])).tolist() == [1, 2]
    for wrong in (
        [1, np.nan],
        [np.inf],
        [1j],
        ["a"],
        [True],
        [b"1"],
        np.ma.masked_array([1, 2], mask=[0, 1]),
        [[1], [1, 2]],
    ):
        with pytest.raises(InputError, match=r"x = .*: must be"):
            checks.finite_numbers("x", wrong)


def test_numpy_s_numbers_are_printed_like_python_s():
    assert str(InputError("x", np.float64(-1), "no")) == "x = -1.0: no"
    assert str(InputError("x", [np.float64(-1), (np.int64(2),)], "no")) == "x = [-1.0, (2,)]: no"
