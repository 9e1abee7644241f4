"""Numeric forms of the derived formulas, from which the numpy modules are written."""
