"""Positional encodings: what queries and keys know of their positions. One class each, found by name."""

from phasekit.encodings.base import (
    ENCODINGS,
    ALiBi,
    Encoding,
    OneHot,
    Relative,
    Rotary,
    Sinusoidal,
    TokenAndPosition,
)

__all__ = ["ENCODINGS", "ALiBi", "Encoding", "OneHot", "Relative", "Rotary", "Sinusoidal", "TokenAndPosition"]
