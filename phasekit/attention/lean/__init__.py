"""Attention in blocks of keys, for long contexts: memory grows with the length, not with its square."""
