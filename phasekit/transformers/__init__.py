"""Transformers with any score: one decoder, one training loop, in-context learning and what saturation does to it."""

from phasekit.extras import missing

try:
    import torch  # noqa: F401
except ModuleNotFoundError:
    raise missing("torch") from None

from phasekit.transformers.decoder import PRESETS, Architecture, Decoder, get_architecture, parameter_count
from phasekit.transformers.in_context import Curriculum, InContext, train_in_context
from phasekit.transformers.training import Diverged, History, Training, train

__all__ = [
    "PRESETS",
    "Architecture",
    "Curriculum",
    "Decoder",
    "Diverged",
    "History",
    "InContext",
    "Training",
    "get_architecture",
    "parameter_count",
    "train",
    "train_in_context",
]
