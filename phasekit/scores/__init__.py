"""Score functions: one file each, one registry. Everything else takes a score from here."""

import importlib
from typing import TYPE_CHECKING, Any

from phasekit.scores.base import Score
from phasekit.scores.cosformer import CosFormer
from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.scores.entmax import Entmax
from phasekit.scores.linear import Linear
from phasekit.scores.mixture import Mixture
from phasekit.scores.per_head import PerHead
from phasekit.scores.registry import get_score, names, parse_score, register, write_score
from phasekit.scores.sa_softmax import SASoftmax
from phasekit.scores.softmax import Softmax
from phasekit.scores.sparsemax import Sparsemax
from phasekit.scores.ssa import SSA
from phasekit.scores.temperature import TemperatureSoftmax

if TYPE_CHECKING:
    from phasekit.scores.check import check_score
    from phasekit.scores.parameters import ScoreParameters, learned_values, parameter_groups

for _score in (CosFormer, Entmax, Linear, Mixture, PerHead, SASoftmax, Softmax, Sparsemax, SSA, TemperatureSoftmax):
    register(_score)

__all__ = [
    "SSA",
    "CosFormer",
    "ElementwiseSoftmax",
    "Entmax",
    "Linear",
    "Mixture",
    "PerHead",
    "SASoftmax",
    "Score",
    "ScoreParameters",
    "Softmax",
    "Sparsemax",
    "TemperatureSoftmax",
    "check_score",
    "get_score",
    "learned_values",
    "names",
    "parameter_groups",
    "parse_score",
    "register",
    "write_score",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch on first use only."""
    if name == "check_score":
        return importlib.import_module("phasekit.scores.check").check_score
    if name in ("ScoreParameters", "learned_values", "parameter_groups"):
        return getattr(importlib.import_module("phasekit.scores.parameters"), name)
    raise AttributeError(f"module 'phasekit.scores' has no attribute {name!r}")
