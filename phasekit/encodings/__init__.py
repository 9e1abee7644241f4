"""Positional encodings: what queries and keys know of their positions. One class each, found by name."""

from phasekit.encodings.base import (
    ENCODINGS,
    ALiBi,
    Encoding,
    Matrix,
    OneHot,
    Relative,
    Rotary,
    Sinusoidal,
    TokenAndPosition,
    matrix_from,
)

__all__ = [
    "ENCODINGS",
    "ALiBi",
    "Encoding",
    "Matrix",
    "OneHot",
    "Relative",
    "Rotary",
    "Sinusoidal",
    "TokenAndPosition",
    "matrix_from",
]
