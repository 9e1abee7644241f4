"""The cheapest logits that give an attention pattern: the prior part of the effective action."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import L, V, c1, cG, gap, lam, named, s, sigma_g

#: Entries of the blocks of G: token-token, token-position, position-token, and the mean of position-position.
blocks = sp.symbols("g_tt g_tp g_pt g_pp", real=True)
#: Logits of a row: on the copy entry, and elsewhere.
u, v = sp.symbols("u v", real=True)


def positional_cost() -> sp.Expr:
    """Positional inputs, linear attention: A = G/L, so the pattern c1 11ᵀ/L + cG S fixes every logit: c1 + L cG on the
    L copy entries, c1 on the others. Half the squared norm over σ_g², sorted by s = c1 + cG and cG, is the cost.
    """
    norm = L * ((c1 + L * cG) ** 2 + (L - 1) * c1**2)
    cost = sp.expand(norm.subs(c1, s - cG))
    return _diagonal(cost)


def block_cost() -> sp.Expr:
    """Token+position inputs: G has four blocks. The cost is convex and the pattern doesn't change when tokens are
    relabelled or positions shifted, so the cheapest G has the same symmetry: each block is uniform, apart from the
    copy diagonal of the position block. Split that block into its mean and L cG (S − 11ᵀ/L), which are orthogonal; the
    second part costs (L cG)² (L − 1).
    """
    tt, tp, pt, pp = blocks
    return V**2 * tt**2 + V * L * (tp**2 + pt**2) + L**2 * pp**2 + (L * cG) ** 2 * (L - 1)


@cache
def cheapest_blocks() -> dict[sp.Symbol, sp.Expr]:
    """Only the sum of the four means enters the logits, and it must be s. A Lagrange multiplier shares s among the
    blocks in inverse proportion to their numbers of entries.
    """
    multiplier = sp.Symbol("mu")
    lagrangian = block_cost() - 2 * multiplier * (sum(blocks) - s)
    solution = sp.solve([sp.diff(lagrangian, z) for z in (*blocks, multiplier)], [*blocks, multiplier], dict=True)
    return {block: sp.factor(solution[0][block]) for block in blocks}


@cache
def token_position_cost() -> sp.Expr:
    """Inserting these means gives the cost: the pooling part is cheaper than with positions alone, because it can use
    the token blocks too; the copying part is the same.
    """
    cost = sp.expand(block_cost().subs(cheapest_blocks()))
    return _diagonal(cost)


def pooling_cost(inputs: str) -> sp.Expr:
    """Return λ, the prior curvature of s times σ_g²: L² (positional), (VL/(V+L))² (token+position)."""
    cost = positional_cost() if inputs == "positional" else token_position_cost()
    return sp.factor(sp.diff(cost, s, 2) * sigma_g**2)


@cache
def pattern_cost() -> sp.Expr:
    """Both kinds of inputs have the same form, with their own λ: L² and (VL/(V+L))²."""
    common = (lam * (c1 + cG) ** 2 + L**2 * (L - 1) * cG**2) / (2 * sigma_g**2)
    for inputs, cost in (("positional", positional_cost()), ("token+position", token_position_cost())):
        require_equal(common.subs(lam, pooling_cost(inputs)), cost.subs(s, c1 + cG), f"prior cost, {inputs} inputs")
    return common


@cache
def cheapest_row() -> dict[sp.Symbol, sp.Expr]:
    """Softmax attention sees only the gap Δ = u − v between the copy logit and the others, because a shift of a row
    changes nothing. Minimising u² + (L − 1) v² at given Δ puts the mean of the row at zero.
    """
    multiplier = sp.Symbol("mu")
    lagrangian = u**2 + (L - 1) * v**2 - 2 * multiplier * (u - v - gap)
    solution = sp.solve([sp.diff(lagrangian, z) for z in (u, v, multiplier)], [u, v, multiplier], dict=True)
    return {logit: sp.factor(solution[0][logit]) for logit in (u, v)}


def gap_cost() -> sp.Expr:
    """Over L rows this costs (L − 1) Δ²/(2σ_g²). The logits are Δ (S − 11ᵀ/L), which have zero mean: with
    token+position inputs they lie in the position block alone, so both kinds of inputs have the same cost.
    """
    return sp.factor(L * (u**2 + (L - 1) * v**2).subs(cheapest_row()) / (2 * sigma_g**2))


def _diagonal(norm: sp.Expr) -> sp.Expr:
    """Return half a squared norm over σ_g², as a sum of an s² and a cG² term."""
    found = sp.factor(norm.coeff(s, 2)) * s**2 + sp.factor(norm.coeff(cG, 2)) * cG**2
    require_equal(found, norm, "the squared norm is diagonal in s and cG")
    return found / (2 * sigma_g**2)


def _steps() -> tuple[Step, ...]:
    cost = named("S_prior", r"S_{\mathrm{prior}}")
    return (
        Step.of(positional_cost, sp.Eq(cost, positional_cost())),
        Step.of(block_cost, sp.Eq(named("‖G‖²", r"\|G\|^2"), block_cost())),
        Step.of(cheapest_blocks, *(sp.Eq(block, mean) for block, mean in cheapest_blocks().items())),
        Step.of(token_position_cost, sp.Eq(cost, token_position_cost())),
        Step.of(pattern_cost, sp.Eq(cost, pattern_cost())),
        Step.of(cheapest_row, *(sp.Eq(logit, value) for logit, value in cheapest_row().items())),
        Step.of(gap_cost, sp.Eq(cost, gap_cost())),
    )


DERIVATION = Derivation("prior", "The cheapest logits of a pattern: the prior part of the action", "4 and 5", _steps)
