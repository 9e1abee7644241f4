"""Attention with any score, ready to drop into a transformer."""

from phasekit.nn.attention import ScoredAttention, scored_attention
from phasekit.nn.multihead import ScoredMultiheadAttention
from phasekit.nn.paths import Choice, choose_path

__all__ = ["Choice", "ScoredAttention", "ScoredMultiheadAttention", "choose_path", "scored_attention"]
