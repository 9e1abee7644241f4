"""Token laws: how often each token of the vocabulary is drawn. One class a law, found by name."""

from phasekit.tokens.base import TOKEN_LAWS, Given, TokenLaw, Uniform, Zipf, unigrams

__all__ = ["TOKEN_LAWS", "Given", "TokenLaw", "Uniform", "Zipf", "unigrams"]
