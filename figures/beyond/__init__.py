"""Encodings, masks and token laws beyond the paper's head (docs/beyond.md)."""
