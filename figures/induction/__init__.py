"""Induction heads: two layers, their landscape, their jump and where they form together (docs/induction.md)."""
