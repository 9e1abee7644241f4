"""Evidence for the order of a transition, from samples of the posterior."""

from phasekit.evidence.early_warning import EarlyWarning, early_warning
from phasekit.evidence.extrapolation import Extrapolation, extrapolate, to_zero_step
from phasekit.evidence.free_energy import Barrier, FreeEnergy, barrier, free_energy
from phasekit.evidence.histograms import Density, density
from phasekit.evidence.hysteresis import Loop, sweep
from phasekit.evidence.susceptibility import susceptibility
from phasekit.evidence.umbrella import umbrella

__all__ = [
    "Barrier",
    "Density",
    "EarlyWarning",
    "Extrapolation",
    "FreeEnergy",
    "Loop",
    "barrier",
    "density",
    "early_warning",
    "extrapolate",
    "free_energy",
    "susceptibility",
    "sweep",
    "to_zero_step",
    "umbrella",
]
