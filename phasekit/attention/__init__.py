"""Attention with any score, ready to drop into a transformer."""

from phasekit.extras import missing

try:
    import torch  # noqa: F401
except ModuleNotFoundError:
    raise missing("torch") from None

from phasekit.attention.attention import ScoredAttention, scored_attention
from phasekit.attention.multihead import ScoredMultiheadAttention
from phasekit.attention.paths import Choice, choose_path

__all__ = ["Choice", "ScoredAttention", "ScoredMultiheadAttention", "choose_path", "scored_attention"]
