"""The claims of the paper as tables."""
