"""Attention heads trained on the copy task: the energy U, ensembles under Adam, and what they ended up as."""

from phasekit.networks.adam import Adam, AdamEnsemble
from phasekit.networks.build import build_energy
from phasekit.networks.energy import Averages, Energy
from phasekit.networks.ensemble import Ensemble
from phasekit.networks.onset import onset_ratio
from phasekit.networks.order_parameters import order_parameters
from phasekit.networks.reference import Row, checked_models, table
from phasekit.networks.selection import Selection, select_lowest
from phasekit.networks.starts import draw_start, draw_starts
from phasekit.networks.streams import stream
from phasekit.networks.task import Dataset, draw_dataset
from phasekit.networks.train import train, train_on

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
