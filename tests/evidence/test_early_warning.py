"""Springs that soften must warn, springs that don't must not; indicators are those of the known process."""

import numpy as np
import pytest
import xarray as xr

from phasekit.errors import InputError
from phasekit.evidence import early_warning

P = np.arange(10, 30)


def series(phi, noise, chains=8, draws=400, seed=0):
    """Return AR(1) processes x' = φ x + noise ξ at each P, started from their stationary law.

    This is Ornstein-Uhlenbeck sampled in equal steps: φ = e^(−rate · step) with the restoring rate.
    """
    random = np.random.default_rng(seed)
    phi, noise = (np.broadcast_to(each, P.shape)[:, None] for each in (phi, noise))
    x = np.empty((len(P), chains, draws))
    x[..., 0] = noise / np.sqrt(1 - phi**2) * random.standard_normal((len(P), chains))
    for n in range(1, draws):
        x[..., n] = phi * x[..., n - 1] + noise * random.standard_normal((len(P), chains))
    return xr.DataArray(x, {"P": P}, ("P", "chain", "draw"))


def softening(last=0.05):
    """Return φ of a spring whose rate falls linearly from 1 towards nothing at P = 30."""
    return np.exp(-np.linspace(1.0, last, len(P)))


def test_a_vanishing_restoring_force_warns():
    phi = softening()
    found = early_warning(series(phi, 1.0), 30.0)
    assert found.warned
    assert min(found.tau.values()) > 0.9
    assert max(found.p_value.values()) < 1e-6
    table = found.indicators
    for name, exact in (("variance", 1 / (1 - phi**2)), ("lag1", phi)):
        assert (np.abs(table[name] - exact) < 5 * table[f"{name}_error"] + 0.01 * exact).all()
    known = np.sqrt((1 - phi**2) / 3200)  # Bartlett's error of a lag-1 autocorrelation
    assert np.median(table["lag1_error"] / known) == pytest.approx(1, abs=0.3)
    assert found.growth["variance"] == pytest.approx((1 - phi[0] ** 2) / (1 - phi[-1] ** 2), rel=0.3)
    assert found.growth["lag1"] == pytest.approx(phi[-1] - phi[0], abs=0.05)


def test_chains_that_disagree_are_named():
    """Two chains a distance apart at one P: their variance there is no fluctuation."""
    x = series(0.5, 1.0)
    x[3, :4] += 10
    assert early_warning(x, 30.0).disagree == (13,)
    assert early_warning(x, 13.0 + 12).disagree == (13,)
    assert early_warning(series(0.5, 1.0), 30.0).disagree == ()


@pytest.mark.slow
def test_white_noise_of_constant_variance_does_not():
    """Of 200 series without a trend, at most the 5 % of each test may warn; both at once far fewer."""
    runs = [early_warning(series(0.0, 1.0, chains=2, draws=50, seed=seed), 30.0) for seed in range(200)]
    assert np.mean([run.warned for run in runs]) < 0.03
    for name in ("variance", "lag1"):
        assert np.mean([run.p_value[name] < 0.05 for run in runs]) == pytest.approx(0.05, abs=0.05)
        assert abs(np.mean([run.tau[name] for run in runs])) < 0.04


def test_louder_noise_alone_does_not():
    """Variance grows tenfold because the drive does, not because the spring softens: no slowing down, no warning."""
    found = early_warning(series(0.5, np.sqrt(np.linspace(1, 10, len(P)))), 30.0)
    assert found.p_value["variance"] < 1e-6
    assert not found.warned


def test_a_hardening_spring_does_not():
    """The test is one-sided: falling variance and autocorrelation are no warning."""
    assert not early_warning(series(softening()[::-1], 1.0), 30.0).warned


def test_only_what_came_before_the_event_counts():
    """Softening after the event is hindsight."""
    phi = np.where(P < 20, 0.5, softening(last=0.01))
    assert not early_warning(series(phi, 1.0, seed=1), 20.0).warned
    table = early_warning(series(phi, 1.0), 20.0).indicators
    np.testing.assert_array_equal(table["before"], P < 20)


def test_the_order_of_P_does_not_matter():
    x = series(softening(), 1.0)
    shuffled = x.isel(P=np.random.default_rng(0).permutation(len(P)))
    one, other = early_warning(shuffled, 30.0), early_warning(x, 30.0)
    assert (one.tau, one.growth) == (other.tau, other.growth)


@pytest.mark.parametrize(("wrong", "event"), [({"P": slice(4)}, 30.0), ({"draw": slice(7)}, 30.0), ({}, 12.0)])
def test_a_trend_needs_points(wrong, event):
    with pytest.raises(InputError, match="a trend needs at least"):
        early_warning(series(0.5, 1.0).isel(wrong), event)
