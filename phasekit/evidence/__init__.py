"""Evidence for the order of a transition, from samples of the posterior."""

from phasekit.evidence.early_warning import EarlyWarning, early_warning
from phasekit.evidence.extrapolation import Extrapolation, to_zero_step
from phasekit.evidence.free_energy import Barrier, FreeEnergy, NotJoined, Undecided, barrier, free_energy
from phasekit.evidence.histograms import Density, density
from phasekit.evidence.hysteresis import Loop, hysteresis_loop
from phasekit.evidence.ranges import loop_sizes, posterior_passage, windows
from phasekit.evidence.susceptibility import susceptibility
from phasekit.evidence.theory import theory_free_energy
from phasekit.evidence.umbrella import umbrella

__all__ = [
    "Barrier",
    "Density",
    "EarlyWarning",
    "Extrapolation",
    "FreeEnergy",
    "Loop",
    "NotJoined",
    "Undecided",
    "barrier",
    "density",
    "early_warning",
    "free_energy",
    "hysteresis_loop",
    "loop_sizes",
    "posterior_passage",
    "susceptibility",
    "theory_free_energy",
    "to_zero_step",
    "umbrella",
    "windows",
]
