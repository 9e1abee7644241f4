"""Attention heads trained on the copy task: the energy U, ensembles under Adam, and what they ended up as."""

from phasekit.heads.adam import Adam, AdamEnsemble
from phasekit.heads.build import build_energy
from phasekit.heads.energy import Averages, Energy
from phasekit.heads.ensemble import Ensemble
from phasekit.heads.onset import onset_ratio
from phasekit.heads.order_parameters import order_parameters
from phasekit.heads.reference import Row, checked_models, table
from phasekit.heads.selection import Selection, select_lowest
from phasekit.heads.starts import draw_start, draw_starts
from phasekit.heads.train import train, train_on
from phasekit.streams import stream
from phasekit.tasks.copy import Dataset, draw_dataset

__all__ = [
    "Adam",
    "AdamEnsemble",
    "Averages",
    "Dataset",
    "Energy",
    "Ensemble",
    "Row",
    "Selection",
    "build_energy",
    "checked_models",
    "draw_dataset",
    "draw_start",
    "draw_starts",
    "onset_ratio",
    "order_parameters",
    "select_lowest",
    "stream",
    "table",
    "train",
    "train_on",
]
