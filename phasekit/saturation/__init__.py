"""How attention rows saturate: theorems about softmax and SSA, and their verification (docs/saturation.md).

Examples
--------
>>> from phasekit.saturation import crossover_gap, get_theorem
>>> lower, upper = get_theorem("ssa-magnification").bounds(z=[2, 1, -1], lam=100, n=1.5, b=0.8)
>>> round(float(crossover_gap(n=1.5, b=0.8)), 4)
0.5313
"""

from phasekit.saturation.laws import limit_weights, saturation_exponent
from phasekit.saturation.slopes import Slope, fit_slopes
from phasekit.saturation.theorem import Hypothesis, Theorem
from phasekit.saturation.theorems import THEOREMS, get_theorem
from phasekit.saturation.theorems.crossover import crossover_gap
from phasekit.saturation.verify import Verification, verify

__all__ = [
    "THEOREMS",
    "Hypothesis",
    "Slope",
    "Theorem",
    "Verification",
    "crossover_gap",
    "fit_slopes",
    "get_theorem",
    "limit_weights",
    "saturation_exponent",
    "verify",
]
