"""Heads whose attention matrix is a product of two factors."""
