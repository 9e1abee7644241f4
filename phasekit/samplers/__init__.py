"""Samplers of exp(-U/T) for ensembles of heads, and what tells whether to trust them."""

from phasekit.samplers.chains import Chains, NotFinite
from phasekit.samplers.curvature import stiffest_curvature
from phasekit.samplers.diagnostics import Diagnosis, diagnose
from phasekit.samplers.driver import ChainDiverged, sample
from phasekit.samplers.heads import HeadsTarget
from phasekit.samplers.methods import HMC, SGLD, Langevin, Method, get_method
from phasekit.samplers.minibatch import MinibatchTarget
from phasekit.samplers.samples import Samples
from phasekit.samplers.schedule import Decay
from phasekit.samplers.target import Kernel, State, Target

__all__ = [
    "HMC",
    "SGLD",
    "ChainDiverged",
    "Chains",
    "Decay",
    "Diagnosis",
    "HeadsTarget",
    "Kernel",
    "Langevin",
    "Method",
    "MinibatchTarget",
    "NotFinite",
    "Samples",
    "State",
    "Target",
    "diagnose",
    "get_method",
    "sample",
    "stiffest_curvature",
]
