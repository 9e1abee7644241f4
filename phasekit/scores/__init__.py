"""Score functions: one file each, one registry. Everything else takes a score from here."""

from phasekit.scores.base import Score
from phasekit.scores.linear import Linear
from phasekit.scores.registry import get_score, names, register
from phasekit.scores.softmax import Softmax

register(Linear)
register(Softmax)

__all__ = ["Linear", "Score", "Softmax", "get_score", "names", "register"]
