"""What isn't a finite number, or never moves, is refused by one line: no NaN comes out of it."""

import warnings

import numpy as np
import pytest
import xarray as xr

from phasekit.errors import InputError
from phasekit.evidence import density, early_warning, free_energy, to_zero_step

RANDOM = np.random.default_rng(0)
DRAWS = RANDOM.normal(size=(6, 2, 20))


def windows(a):
    centres = np.arange(len(a)) / 10
    attributes = {"stiffness": 100.0, "order": "aG"}
    return xr.Dataset({"aG": (("window", "chain", "draw"), a)}, {"centre": ("window", centres)}, attributes)


def series(a):
    return xr.DataArray(a, {"P": np.arange(1, 7)}, ("P", "chain", "draw"))


CALLS = {
    "density": lambda a: density(a),
    "early_warning": lambda a: early_warning(series(a), 10.0),
    "free_energy": lambda a: free_energy(windows(a), 4, bootstrap=2),
    "means": lambda a: to_zero_step([0.1, 0.2], a[0, 0, :2], [1.0, 1.0]),
    "steps": lambda a: to_zero_step(a[0, 0, :2], [1.0, 1.0], [1.0, 1.0]),
}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("call", CALLS)
def test_numbers_that_are_not_finite(call, bad):
    draws = DRAWS.copy()
    draws[0, 0, 1] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"^\w+ = .*: must be finite numbers$"):
            CALLS[call](draws)


def test_words_and_an_order_that_is_none():
    with pytest.raises(InputError, match=r"^draws = .*must be numbers"):
        density(["a"] * 30)
    for order in (0, -1, 1.5):
        with pytest.raises(InputError, match=r"^order = "):
            to_zero_step([0.1, 0.2], [1.0, 2.0], [1.0, 1.0], order=order)


def test_a_chain_that_does_not_move_has_no_indicators():
    draws = DRAWS.copy()
    draws[2, 1] = 0.3
    with pytest.raises(InputError, match=r"^series = \[3\]: a chain didn't move"):
        early_warning(series(draws), 10.0)


@pytest.mark.slow
def test_windows_that_stand_still_are_not_to_be_trusted():
    draws = np.full((3, 2, 20), 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(free_energy(windows(draws), 4, bootstrap=2).rhat).all()
    with pytest.raises(InputError, match=r"^windows = 0: "):
        free_energy(windows(draws[:0]), 4)
