"""What somebody watching the fluctuations would have been told before a transition.

Critical slowing down announces a continuous transition: as P grows towards it, the order parameter's variance and its
autocorrelation grow. Monitors of ecosystems and climate test both for a trend by Kendall's τ (Scheffer et al. 2009,
Nature 461, 53; Dakos et al. 2012, PLoS ONE 7, e41010). A first-order transition that is nucleated gives no such sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau

from phasekit.checks import finite_numbers
from phasekit.errors import InputError
from phasekit.evidence.hysteresis import RHAT_MAX

INDICATORS = ("variance", "lag1")
#: A trend needs so many P before the event, and so many draws at each.
_LEAST_SIZES, _LEAST_DRAWS = 5, 8
#: Both trends must be as unlikely as this without one.
_SIGNIFICANT = 0.05


@dataclass(frozen=True, eq=False)
class EarlyWarning:
    """Indicators against P, and their trends before the event.

    Attributes
    ----------
    indicators : DataFrame
        Columns P, variance, variance_error, lag1, lag1_error, rhat, before (whether P is before the event). Mean
        over chains, and its standard error over chains; ``rhat`` tells whether chains agree (NaN for a single one).
    tau, p_value : dict of str to float
        Kendall's τ of each indicator with P before the event, and the probability of one as large without a trend
        (one-sided).
    growth : dict of str to float
        The last value before the event over the first (of lag1: the difference).
    warned : bool
        Whether both trends have p < 0.05.
    disagree : tuple of int
        P before the event whose chains don't sample one distribution: their variance says nothing, and the warning, or
        its absence, must not be trusted.
    """

    indicators: pd.DataFrame
    tau: dict[str, float]
    p_value: dict[str, float]
    growth: dict[str, float]
    warned: bool
    disagree: tuple[int, ...]


def early_warning(series: xr.DataArray, event: float) -> EarlyWarning:
    """Test variance and lag-1 autocorrelation for growth towards an event.

    Parameters
    ----------
    series : DataArray
        Dimensions ``P``, ``chain``, ``draw``: one recorded quantity while P grows slowly, as from
        ``loop.data[...].sel(direction="up")`` of :func:`phasekit.evidence.hysteresis_loop`. Use a sampler with a
        dynamics (SGLD, Langevin), equally spaced draws, and a signed quantity where there is a sign symmetry.
    event : float
        The P of the transition; only smaller ones are used.

    Raises
    ------
    InputError
        For fewer than five P before the event, fewer than eight draws, a chain that doesn't move, and what isn't a
        finite number.
    """
    series = series.transpose("P", "chain", "draw").sortby("P")
    x, P = finite_numbers("series", series.to_numpy()), series.P.to_numpy()
    check_trend(P, event, series.sizes["draw"])
    before = event > P
    still = P[(x.max(-1) == x.min(-1)).any(-1)]
    if still.size:
        raise InputError("series", still.tolist(), "a chain didn't move at these P: nothing fluctuates")
    values = dict(zip(INDICATORS, _indicators(x), strict=True))
    columns = {"P": P}
    for name, each in values.items():
        columns[name] = each.mean(1)
        columns[f"{name}_error"] = each.std(1, ddof=1) / np.sqrt(each.shape[1]) if each.shape[1] > 1 else np.nan
    rhat = np.array([_rhat(chains) for chains in x])
    table = pd.DataFrame({**columns, "rhat": rhat, "before": before})
    tests = {name: kendalltau(P[before], table[name][before], alternative="greater") for name in INDICATORS}
    first, last = table[before].iloc[0], table[before].iloc[-1]
    return EarlyWarning(
        table,
        tau={name: float(test.statistic) for name, test in tests.items()},
        p_value={name: float(test.pvalue) for name, test in tests.items()},
        growth={"variance": float(last.variance / first.variance), "lag1": float(last.lag1 - first.lag1)},
        warned=all(bool(test.pvalue < _SIGNIFICANT) for test in tests.values()),
        disagree=tuple(P[before & (rhat > RHAT_MAX)].astype(int).tolist()),
    )


def check_trend(P: ArrayLike, event: float, draws: int) -> None:
    """Refuse sizes that are too few to show a trend before the event, or too few draws: before any of them is drawn.

    Raises
    ------
    InputError
    """
    for name, value, least in (
        ("P before the event", int((np.asarray(P) < event).sum()), _LEAST_SIZES),
        ("draws", draws, _LEAST_DRAWS),
    ):
        if value < least:
            raise InputError(name, value, f"a trend needs at least {least}")


def _rhat(chains: NDArray[np.float64]) -> float:
    """Return R̂ of one quantity, x of shape (chains, draws)."""
    from arviz_stats import sampling_diagnostics  # here, because it takes a second

    statistics: Any = sampling_diagnostics
    return float(statistics.rhat(chains)) if len(chains) > 1 else np.nan


def _indicators(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variance and the lag-1 autocorrelation of each chain at each P, shapes (P, chains).

    Both about the mean over all chains and draws at that P, which has less noise than each chain's own mean.
    """
    deviation = x - x.mean((1, 2), keepdims=True)
    variance = (deviation**2).mean(-1)
    covariance = (deviation[..., 1:] * deviation[..., :-1]).mean(-1)
    scale = variance.mean(1, keepdims=True)
    lag1 = covariance.mean(1, keepdims=True) / scale
    # A ratio of means scatters less than its numerator: a chain that swings widely does so in both. Linearised:
    return variance, lag1 + (covariance - lag1 * variance) / scale
