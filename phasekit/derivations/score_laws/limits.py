"""Prove that a closed form tends to a law whose exponents are symbols."""

from __future__ import annotations

import sympy as sp

from phasekit.derivations.proof import NotProven


def require_ratio_to_one(form: sp.Expr, law: sp.Expr, variable: sp.Symbol, to: sp.Expr, what: str) -> None:
    """Do nothing if form/law → 1 as the variable tends to a value from above (or to ∞).

    All factors must be positive where the limit is taken: logarithms are then sums, and powers with symbolic exponents
    are products.

    Raises
    ------
    NotProven
        If SymPy finds another limit, or none, naming ``what``.
    """
    if sp.simplify(sp.limit(_log_ratio(form, law), variable, to, "-" if to is sp.oo else "+")) != 0:
        raise NotProven(what)


def require_same_product(form: sp.Expr, law: sp.Expr, what: str) -> None:
    """Do nothing if two products of powers with symbolic exponents and positive factors are equal.

    Raises
    ------
    NotProven
        If SymPy can't reduce the logarithm of their ratio to zero, naming ``what``.
    """
    if _log_ratio(form, law) != 0:
        raise NotProven(what)


def _log_ratio(form: sp.Expr, law: sp.Expr) -> sp.Expr:
    """Return ln(form/law) as a linear form of logarithms of factors, with one simplified coefficient for each."""
    logarithm = sp.expand_log(sp.log(form) - sp.log(law), force=True)
    factored = logarithm.replace(sp.log, lambda argument: sp.log(sp.factor(argument)))
    split = sp.expand_log(factored, force=True)
    names = {each: sp.Dummy(positive=True) for each in split.atoms(sp.log)}
    linear = sp.expand(split.xreplace(names))
    rest = linear.subs(dict.fromkeys(names.values(), 0))
    return sum((sp.simplify(sp.diff(linear, name)) * each for each, name in names.items()), sp.simplify(rest))
