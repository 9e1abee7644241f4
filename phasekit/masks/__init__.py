"""Attention masks: which keys each position sees. One class a mask, found by name; :class:`Mask` says what it knows."""

from phasekit.masks.base import MASKS, Causal, Mask, NoMask, Window

__all__ = ["MASKS", "Causal", "Mask", "NoMask", "Window"]
