"""A masked head: rows of different length in a common field, and how far copying has spread."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import prior
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import LATEX, L, P, T, V, c1, cG, g, gap, kappa, named, q, sigma_g, sigma_w, t

#: Gain of the readout; how many keys a row sees; weight of a row on the token to be copied.
w, n, weight = sp.symbols("w n alpha", positive=True)
#: Data per row against the prior of its logits, and the other rows' share of the readout's price.
data, rest = sp.symbols("p B", positive=True)
#: How far the front has come.
reach = sp.Symbol("i_c", positive=True)
LATEX.update({weight: r"\alpha", reach: "i_c"})


@cache
def field_identity() -> sp.Expr:
    """Rows meet in two averages only, g and q, through −t g²/(1 + t q). That is the minimum over a field w, the gain of
    the readout, of −2wg + w²q + w²/t: linear in g and q, so that given w the rows are independent.
    """
    in_field = -2 * w * g + w**2 * q + w**2 / t
    (best,) = sp.solve(sp.diff(in_field, w), w)
    require_equal(best, t * g / (1 + t * q), "the best field")
    require_equal(in_field.subs(w, best), -t * g**2 / (1 + t * q), "the field's minimum")
    return in_field


@cache
def row_cost() -> sp.Expr:
    """A row of n keys ignores a shift of its logits, so a gap Δ is cheapest with zero mean. A whole head of L = n rows
    pays n times what one row does.
    """
    whole = prior.pattern_cost().subs({c1: -gap / L, cG: gap / L}, simultaneous=True)
    found = sp.simplify(whole.subs(L, n) / n)
    require_equal(found, (1 - 1 / n) * gap**2 / (2 * sigma_g**2), "cost of a row")
    return found


@cache
def reward() -> sp.Expr:
    """One row out of L adds P(V−1)/(2κVL) (−2wα + w²α²) where others' weights are small. The best it can have is −1, at
    α = 1/w: as the readout's gain grows, rows need to attend less.
    """
    found = P * (V - 1) / (2 * kappa * V * L) * (-2 * w * weight + w**2 * weight**2)
    (best,) = sp.solve(sp.diff(found, weight), weight)
    require_equal(best, 1 / w, "the weight that a row needs")
    return found


@cache
def front_of_a_field() -> sp.Expr:
    """The row at the front gains as much as it pays, Δ²/(2σ_g²) with Δ = ln(n/w): with p = P(V−1)σ_g²/(κVL) this is
    p = ln²(i_c/w).
    """
    p = P * (V - 1) * sigma_g**2 / (kappa * V * L)
    gain = -reward().subs(weight, 1 / w)
    require_equal(2 * sigma_g**2 * gain, p, "the gain in units of the prior")
    return sp.log(w) + sp.sqrt(data)


@cache
def field_of_a_front() -> sp.Expr:
    """The field is balanced where w/t + w q of rows that don't copy is Σ α(1 − wα)/L of those that do. There a row's
    own balance says p (1 − wα) = Δ = √p, so the sum is i_c/(L w √p); rows that don't copy have q = ln(L)/L to leading
    order. Hence w² = i_c/(√p B), with B = L/t + ln L.
    """
    shortfall = sp.sqrt(data) / data
    balance = w / t + w * sp.log(L) / L - reach / (L * w) * shortfall
    price = L / t + sp.log(L)
    solved = sp.sqrt(reach / (sp.sqrt(data) * price))
    require_equal(balance.subs(w, solved), 0, "the field of a front")
    require_equal(price.subs(t, T), sp.log(L) + kappa * V * L / (P * sigma_w**2), "B in the model's numbers")
    return sp.sqrt(reach / (sp.sqrt(data) * rest))


@cache
def front() -> sp.Expr:
    """Both together, ln i_c = √p + ½ ln i_c − ½ ln(√p B): the gain grows like √i_c and takes the front along."""
    ln_reach = sp.Symbol("x", real=True)
    field = sp.expand_log(sp.log(field_of_a_front()), force=True).subs(sp.log(reach), ln_reach)
    equation = ln_reach - front_of_a_field().subs(sp.log(w), field)
    (found,) = sp.solve(equation, ln_reach)
    compact = 2 * sp.sqrt(data) - sp.log(sp.sqrt(data) * rest)
    require_equal(sp.expand_log(found - compact, force=True), 0, "the law of the front")
    return compact


def _steps() -> tuple[Step, ...]:
    identity = sp.Eq(-t * g**2 / (1 + t * q), sp.Function("min")(field_identity()), evaluate=False)
    return (
        Step.of(field_identity, identity),
        Step.of(row_cost, sp.Eq(named("cost", r"\mathrm{cost}"), row_cost())),
        Step.of(reward, sp.Eq(named("E_row", r"E_{\mathrm{row}}"), reward())),
        Step.of(front_of_a_field, sp.Eq(sp.log(reach), front_of_a_field())),
        Step.of(field_of_a_front, sp.Eq(w, field_of_a_front())),
        Step.of(front, sp.Eq(sp.log(reach), front())),
    )


DERIVATION = Derivation("front", "Causal masks: rows in a common field", "4", _steps, "docs/beyond.md")
