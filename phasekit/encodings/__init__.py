"""Positional encodings: what queries and keys know of their positions. One class each, found by name."""

from phasekit.encodings.base import ENCODINGS, Encoding, OneHot, Relative, TokenAndPosition

__all__ = ["ENCODINGS", "Encoding", "OneHot", "Relative", "TokenAndPosition"]
