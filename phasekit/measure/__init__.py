"""Thresholds and exponents from networks' own data: where, with what error, and how they grow with the size.

Theory plays no part in locating anything; it stands beside the result, for exactly the sizes that were run.
See docs/runs.md. From Python::

    for found in measure_store(Store.open("build/runs/softmax_scaling")):
        print(found.quantity, found.exponent, found.predicted)
"""

from phasekit.measure.bootstrap import Estimate, bootstrap
from phasekit.measure.collapse import Collapse, collapse, quality
from phasekit.measure.exponents import PowerLaw, fit_power_law
from phasekit.measure.locate import NotLocated, crossing, onset
from phasekit.measure.observables import Curve, curves_of
from phasekit.measure.report import Measurement, Size, measure_store

__all__ = [
    "Collapse",
    "Curve",
    "Estimate",
    "Measurement",
    "NotLocated",
    "PowerLaw",
    "Size",
    "bootstrap",
    "collapse",
    "crossing",
    "curves_of",
    "fit_power_law",
    "measure_store",
    "onset",
    "quality",
]
