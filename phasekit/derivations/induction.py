"""An induction head: two layers of attention that find the token after an earlier copy of the query."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import evidence, prior, softmax, vocabulary
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import LATEX, D, L, P, V, g, gap, kappa, named, q, sigma_g, sigma_w, t
from phasekit.derivations.two_level import delta
from phasekit.derivations.vocabulary import OnTokens

#: Strength of the match of the second layer, G₂ = β (1 − Π).
beta = sp.Symbol("beta", real=True)
#: Log odds of the first layer: of the previous token against any other one.
first = sp.Symbol("delta_1", real=True)
#: How much of a match reaches the second layer's logits, and what the first layer's odds cost.
route, first_cost = sp.Function("gamma"), sp.Function("c_1")
#: y = e^(−δ), the weight of a wrong key in units of the right one's; x = (L − 1) y; ν and c of the bulk bracket.
y, x, nu, spread, ratio = sp.symbols("y x nu c rho", real=True)
#: Slope γ/Δ of the route through layer 1, and what layer 1 adds to the price of layer 2's odds, times 2σ_g².
steepness, extra = sp.symbols("r C", positive=True)
#: Share of the sequences that ask what layer 1 alone can answer.
share = sp.Symbol("w", nonnegative=True)
LATEX |= {beta: r"\beta", first: r"\delta_1", nu: r"\nu", ratio: r"\rho"}


def different_tokens() -> OnTokens:
    """The L tokens of a sequence are distinct, so two positions never hold the same one: E[x_j x_kᵀ] = (11ᵀ −
    1)/(V(V − 1)) for j ≠ k. The constant direction has 1/V as for independent tokens; the others get −1/(V(V − 1)).
    """
    return OnTokens(-1 / (V * (V - 1)), 1 / V)


@cache
def overlaps() -> tuple[sp.Expr, sp.Expr]:
    """The query token stands at position m, m uniform, the target is the token after it, and the second layer
    attends with weights a_j, a = g on the right key. As for copying, E[φφᵀ] has the terms j = k, which add up to q =
    Σ a_j², and the others, 1 − q; E[φyᵀ] has the right key, g, and the others, 1 − g. So Φ is that of copying, with
    both averages measured against what attending to a random token gives.
    """
    found = []
    for weight in (g, q):
        moment = vocabulary.same_position().times(weight) + different_tokens().times(1 - weight)
        require_equal(V * moment.constant, 1, "the constant direction doesn't depend on the attention")
        found.append(sp.factor(V * moment.bulk))
    for one, weight in zip(found, (g, q), strict=True):
        require_equal(one, (V * weight - 1) / (V - 1), "overlap of distinct tokens")
    return found[0], found[1]


@cache
def keys() -> tuple[sp.Expr, sp.Expr]:
    """Layer 1 attends by position. With log odds δ₁ of the previous position it has weight α₁ there, and (1 − α₁)/(L −
    1) on each other token. The second layer compares the query with these mixtures: the right key holds the query's
    token with weight α₁, every other key with the smaller weight (every token is somewhere in every mixture).
    """
    copied = softmax.averages()[2].subs(gap, first)
    return copied, (1 - copied) / (L - 1)


@cache
def second_gap() -> sp.Expr:
    """The logits of the second layer are q G₂ c_j. Relabelling the tokens changes nothing, so the cheapest G₂ is β(1 −
    Π) plus a multiple of Π, which shifts all logits alike and is left out. The right key's logit then stands β γ
    above the others: γ is the difference of the two weights, from 0 (layer 1 uniform) to 1 (it copies).
    """
    right, other = keys()
    compact = (sp.exp(first) - 1) / (sp.exp(first) + L - 1)
    require_equal(right - other, compact, "difference of the keys")
    require_equal(right - other, (L * right - 1) / (L - 1), "in terms of the weight")
    return beta * compact


def match_cost() -> sp.Expr:
    """‖1 − Π‖² = V − 1, so the match costs (V − 1) β²/(2σ_g²); the first layer's gap costs what that of a copy head
    does.
    """
    return (V - 1) * beta**2 / (2 * sigma_g**2)


@cache
def data_action() -> sp.Expr:
    """Φ as a function of the second layer's log odds δ alone."""
    copied, squares = (softmax.averages()[k].subs(gap, delta) for k in (2, 3))
    g_hat, q_hat = (expression.subs({g: copied, q: squares}, simultaneous=True) for expression in overlaps())
    return evidence.data_action(sp.Integer(1), sp.Integer(1), g_hat, q_hat)


def map_loss() -> sp.Expr:
    """The loss per sequence at the best W."""
    copied, squares = (softmax.averages()[k].subs(gap, delta) for k in (2, 3))
    g_hat, q_hat = (expression.subs({g: copied, q: squares}, simultaneous=True) for expression in overlaps())
    return evidence.loss(sp.Integer(1), sp.Integer(1), g_hat, q_hat)


def action() -> sp.Expr:
    """Data and both priors are the action of a pair of softmax layers, S(Δ, β) with δ = βγ(Δ)."""
    return data_action().subs(delta, second_gap().subs(first, gap)) + prior.gap_cost() + match_cost()


@cache
def bracket() -> sp.Expr:
    """With y = e^(−δ) and x = (L − 1) y the bulk bracket of Φ is N/(N + t ν²), where N = (1 + x)² + t c y². Copying has
    ν = 1 and c = L − 1; distinct tokens have ν = 1 − ρy, ρ = (L − 1)/(V − 1), because a sequence that holds a
    share of the vocabulary tells by itself what the target may be. For V = L the unstructured state (y = 1) has ν = 0.
    """
    compact = numerator() / (numerator() + t * nu**2)
    copied, squares = (softmax.averages()[k].subs(gap, delta) for k in (2, 3))
    g_hat, q_hat = (expression.subs({g: copied, q: squares}, simultaneous=True) for expression in overlaps())
    require_equal(1 - t * g_hat**2 / (1 + t * q_hat), unfold(compact), "the bulk bracket of induction")
    return compact


def numerator() -> sp.Expr:
    """Return N = (1 + x)² + t c y²."""
    return (1 + x) ** 2 + t * spread * y**2


def unfold(expression: sp.Expr) -> sp.Expr:
    """Insert what ν, c, ρ, x and y stand for."""
    held = (L - 1) / (V - 1)
    inner = {nu: 1 - held * y, spread: held * V * (V - L) / (V - 1), x: (L - 1) * y, ratio: held}
    return expression.subs(inner, simultaneous=True).subs(y, sp.exp(-delta))


@cache
def data_force() -> sp.Expr:
    """The force −Φ'(δ) has the sign of ν: it pulls the odds up, and where the right key is all but ignored (y > 1/ρ, a
    negative readout) further down. At every δ it grows with P: its logarithmic slope in t is 2(1 + x)²/E + t c y²/K >
    0, with E = N + tν² and K = (1 + x)(x + ρy) + t c y².
    """
    K, E = (1 + x) * (x + ratio * y) + t * spread * y**2, numerator() + t * nu**2
    compact = (V - 1) / sigma_w**2 * t**2 * nu * K / E**2
    force = -sp.diff(data_action(), delta).subs(P, t * kappa * V / sigma_w**2)
    require_equal(force, unfold(compact), "force of the data")
    require_equal(
        t * sp.diff(sp.log(compact), t), 2 * (1 + x) ** 2 / E + t * spread * y**2 / K, "its logarithmic slope"
    )
    return compact


@cache
def force_terms() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """In s = 1/t the force is (a s + b)/(s (s + e)²). So the P at which it balances a price is the root of a cubic,
    s (s + e)² = (a s + b)/price: one change of sign, one positive root. For V = L b is zero, and the force stays below
    a/e² however many the data.
    """
    weight, inverse = (V - 1) / sigma_w**2 * nu, sp.Symbol("s", positive=True)
    noise = spread * y**2
    terms = (
        (noise + nu**2) / (1 + x) ** 2,
        weight * (x + ratio * y) / (1 + x) ** 3,
        weight * noise / (1 + x) ** 4,
    )
    e, a, b = terms
    written = (a * inverse + b) / (inverse * (inverse + e) ** 2)
    require_equal(data_force().subs(t, 1 / inverse), written, "the force in s")
    return terms


@cache
def balance() -> sp.Expr:
    """Log odds δ of the second layer may be paid by either layer: cost₁(δ₁) + (V − 1)(δ/γ(δ₁))²/(2σ_g²). The cheapest
    split has δ² = σ_g² γ³ cost₁'/((V − 1) γ'). For softmax the right-hand side, Δ γ³/γ' up to a factor, grows with
    Δ: its logarithmic slope is 1/Δ + [3e^Δ/(e^Δ − 1) − 1] − e^Δ/(e^Δ + L − 1) > 1. So each δ has one cheapest split,
    and the stationary points with Δ, β > 0 form one curve; with the force growing in P at every δ, it is P(Δ).
    """
    total = first_cost(first) + (V - 1) * (delta / route(first)) ** 2 / (2 * sigma_g**2)
    slope, gain = sp.diff(first_cost(first), first), sp.diff(route(first), first)
    squared = sigma_g**2 * route(first) ** 3 * slope / ((V - 1) * gain)
    stationary = sp.diff(total, first).subs(delta, sp.sqrt(squared))
    if sp.simplify(stationary) != 0:
        raise AssertionError("the cheapest split of the odds between the layers")
    shape = (second_gap() / beta).subs(first, gap)
    growth = sp.diff(sp.log(gap * shape**3 / sp.diff(shape, gap)), gap)
    listed = 1 / gap + 3 * sp.exp(gap) / (sp.exp(gap) - 1) - sp.exp(gap) / (sp.exp(gap) + L - 1) - 1
    require_equal(growth, listed, "growth of the cheapest split")
    return squared


def two_kinds() -> sp.Expr:
    """A share w of the sequences asks instead which token came before a position i, i uniform. Layer 1 alone answers:
    its output there is Σ_j C_ij x_j, with weight α₁ on the target, so ĝ and q̂ are those above at its own log odds.
    Each layer has a readout of its own, as each has value matrices of its own in a transformer, so both minima over W
    are taken apart: S = Φ(βγ(Δ)) for (1 − w)P questions + Φ(Δ) for wP + both priors. Only the price of layer 1 has
    changed, to c₁(Δ) + Φ(Δ): the cheapest split is the one above with that in the place of c₁, and there is none where
    its slope is negative.
    """
    own = data_action().subs(P, share * P).subs(delta, gap)
    later = data_action().subs(P, (1 - share) * P).subs(delta, second_gap().subs(first, gap))
    total = later + own + prior.gap_cost() + match_cost()
    require_equal(total.subs(share, 0) - action(), own.subs(share, 0), "without a share it is the action above")
    require_equal(sp.diff(own.subs(share, 0), gap), 0, "which no question of layer 1 pulls")
    return total


@cache
def small_match() -> sp.Expr:
    """While δ is small the data gain F δ, F their force at δ = 0, and the best β = F γ σ_g²/(V − 1) leaves S = −F² γ²
    σ_g²/(2(V − 1)) + (L − 1)Δ²/(2σ_g²): layer 1 pays as soon as F γ/Δ > √((L − 1)(V − 1))/σ_g². With ĝ₀ = (V − L)/(L(V
    − 1)), what looking at a random token tells, this is P ĝ₀t/(1 + ĝ₀t) > B, B = κ L² √((V − 1)/(L − 1))/(σ_g² γ/Δ),
    a quadratic equation for P. Close to Δ = 0 the slope γ/Δ is 1/L: that P is the spinodal of the unstructured
    state. At the largest γ/Δ it is where layer 1 forms by itself (V ≫ L⁵, so that δ still is small there): P₁. For
    V = L there is neither.
    """
    at_zero = sp.simplify(sp.diff(second_gap(), beta).diff(first).subs(first, 0))
    require_equal(at_zero, 1 / L, "slope of the route at zero")
    known, bound = sp.symbols("g_0 B", positive=True)
    force = unfold(data_force()).subs(delta, 0)
    told = (V - L) / (L * (V - 1))
    limit = kappa * L**2 * sp.sqrt((V - 1) / (L - 1)) / (sigma_g**2 * steepness)
    strength = t * kappa * V / sigma_w**2 * told * t / (1 + told * t)
    needed = sp.sqrt((L - 1) * (V - 1)) / sigma_g**2
    require_equal(force * steepness / needed, strength / limit, "force against price")
    unit = kappa * V / sigma_w**2
    found = bound / 2 + sp.sqrt(bound**2 / 4 + bound * unit / known)
    require_equal(found**2 - bound * found - bound * unit / known, 0, "root of the quadratic equation")
    return found.subs({known: told, bound: limit}, simultaneous=True)


def steepest_route() -> sp.Expr:
    """The largest γ/Δ is where γ' = γ/Δ; for long sequences e^Δ = LΔ, hence γ/Δ = 1/(1 + Δ), about 1/ln L. So P₁ grows
    as V^(3/4) L^(5/4) √(ln L) for 1 ≪ t ≪ L, without any help from layer 2.
    """
    shape = (second_gap() / beta).subs(first, gap)
    balance = gap * L * sp.exp(gap) - (sp.exp(gap) - 1) * (sp.exp(gap) + L - 1)
    slope = sp.diff(shape, gap) - shape / gap
    require_equal(slope * gap * (sp.exp(gap) + L - 1) ** 2, balance, "the steepest route")
    return balance


@cache
def first_layer_cost() -> sp.Expr:
    """Once layer 1 is sharp, 1 − γ ≈ L e^(−Δ), and the cheapest split has (L − 1)Δ = (V − 1)δ² L e^(−Δ), Δ = ln[(V − 1)
    L δ²/((L − 1)Δ)]. What layer 1 then adds to the price (V − 1)δ²/2 of layer 2's odds is C/2, C = (L − 1)(Δ² + 2Δ):
    its own gap, and the rest of the match that it lets through badly.
    """
    loss = sp.Symbol("loss", positive=True)
    total = ((L - 1) * gap**2 + (V - 1) * delta**2 * (1 + 2 * loss)) / 2
    balanced = total.subs(loss, (L - 1) * gap / ((V - 1) * delta**2))
    cost = (L - 1) * (gap**2 + 2 * gap)
    require_equal(balanced, ((V - 1) * delta**2 + cost) / 2, "what layer 1 adds")
    return cost


@cache
def joint_jump() -> sp.Expr:
    """With Y = tν²/N the data gain P(V − 1)/(2κV) · Y/(1 + Y), and Y grows as e^(2δ). The minimum is stationary and as
    low as the unstructured state (whose own gain is left out) if 1 + Y = D + C/((V − 1)D) at δ = D. So P* = κV/(V −
    1) · [(V − 1)D² + C]/σ_g² · (1 + Y)/Y, where D follows from tν² = Y N, a quadratic equation for e^(−D). Without C
    it is the law of a copy head in which V stands for the length. To leading order P* = κ [V ln²L + L ln²(V ln
    L)]/σ_g².
    """
    full, odds = (V - 1) * D**2 + extra, sp.Symbol("full", positive=True)
    Y = D + extra / ((V - 1) * D) - 1
    strength = odds / (Y / (1 + Y))
    # gain' = strength · 2Y/(1+Y)² = 2(V−1)D, gain = strength · Y/(1+Y) = (V−1)D² + C, both in units of 1/(2σ_g²)
    slope = strength * 2 * Y / (1 + Y) ** 2
    require_equal(slope.subs(odds, full), 2 * (V - 1) * D, "stationary where the actions are equal")
    return kappa * V / (V - 1) * full / sigma_g**2 * (1 + Y) / Y


def _steps() -> tuple[Step, ...]:
    right, other = keys()
    g_hat, q_hat = overlaps()
    split, at_gap = named("delta^2", r"\delta^2"), named("Phi(β γ(Δ))", r"\Phi(\beta\gamma(\Delta))")
    own, later = named("Phi_w(Δ)", r"\Phi_{wP}(\Delta)"), named("Phi_later", r"\Phi_{(1-w)P}(\beta\gamma(\Delta))")
    return (
        Step.of(different_tokens, sp.Eq(named("E_bulk", r"E_{1-\Pi}"), different_tokens().bulk)),
        Step.of(overlaps, sp.Eq(named("ĝ", r"\hat g"), g_hat), sp.Eq(named("q̂", r"\hat q"), q_hat)),
        Step.of(keys, sp.Eq(named("right", r"c_{\rm right}"), right), sp.Eq(named("other", r"c_{\rm other}"), other)),
        Step.of(second_gap, sp.Eq(delta, second_gap())),
        Step.of(match_cost, sp.Eq(named("S_prior", r"S_{\mathrm{prior}}"), prior.gap_cost() + match_cost())),
        Step.of(data_action, sp.Eq(named("Phi(delta)", r"\Phi(\delta)"), data_action())),
        Step.of(action, sp.Eq(named("S", "S"), at_gap + prior.gap_cost() + match_cost())),
        Step.of(bracket, sp.Eq(named("N/(N+tν²)", r"N/(N+t\nu^2)"), bracket())),
        Step.of(data_force, sp.Eq(named("-Phi'(delta)", r"-\Phi'(\delta)"), data_force())),
        Step.of(force_terms, *(sp.Eq(sp.Symbol(n), term) for n, term in zip("eab", force_terms(), strict=True))),
        Step.of(balance, sp.Eq(split, balance())),
        Step.of(two_kinds, sp.Eq(named("S_w", "S_w"), later + own + prior.gap_cost() + match_cost())),
        Step.of(small_match, sp.Eq(named("P_1", "P_1"), small_match())),
        Step.of(steepest_route, sp.Eq(steepest_route(), 0)),
        Step.of(first_layer_cost, sp.Eq(extra, first_layer_cost())),
        Step.of(joint_jump, sp.Eq(named("P*", "P^*"), joint_jump())),
    )


DERIVATION = Derivation("induction", "Induction heads: two layers, one action", "2", _steps, "docs/induction.md")
