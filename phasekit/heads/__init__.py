"""Attention heads trained on the copy task: the energy U, ensembles under Adam, and what they ended up as."""

from phasekit.heads.adam import Adam, AdamEnsemble
from phasekit.heads.build import build_energy
from phasekit.heads.energy import Averages, Energy
from phasekit.heads.ensemble import Ensemble
from phasekit.heads.onset import onset_ratio
from phasekit.heads.order_parameters import order_parameters
from phasekit.heads.selection import Selection, select_lowest
from phasekit.heads.starts import draw_start, draw_starts
from phasekit.heads.train import train

__all__ = [
    "Adam",
    "AdamEnsemble",
    "Averages",
    "Energy",
    "Ensemble",
    "Selection",
    "build_energy",
    "draw_start",
    "draw_starts",
    "onset_ratio",
    "order_parameters",
    "select_lowest",
    "train",
]
