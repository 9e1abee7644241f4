"""Any normalised score: a row with one raised entry, and what it costs to raise it."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import evidence, prior, softmax
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import L, P, V, c1, cG, gap, kappa, lam, named, sigma_g, sigma_w, t
from phasekit.scores import Entmax, Sparsemax

#: The copy entry's logit u, and the depth w = −v of all others below zero.
u, w = sp.symbols("u w", positive=True)
#: Mean logit of a row.
mean = sp.Symbol("m", real=True)
#: α-entmax: k = α − 1, and the weight of the copy entry.
k, weight = sp.symbols("k p", positive=True)
#: Log odds of the copy entry against any other one.
delta = sp.Symbol("delta", real=True)
#: Slopes of the log odds in u and in w.
up, down = sp.symbols("delta_u delta_w", positive=True)


def log_odds() -> sp.Expr:
    """A row that sums to one, with weight p on its copy entry and the rest shared equally among L − 1 others, is
    described by one number: the log odds δ of the copy entry against any other one.
    """
    return sp.log(weight / ((1 - weight) / (L - 1)))


@cache
def copy_weight() -> sp.Expr:
    """Solved for p, these are the weights of softmax at the gap Δ = δ, whatever the score."""
    copy = softmax.averages()[2].subs(gap, delta)
    require_equal(sp.exp(log_odds()).subs(weight, copy), sp.exp(delta), "softmax's weights have log odds Δ")
    return copy


def data_action() -> sp.Expr:
    """So all normalised scores share one data part: Φ as a function of δ. They differ in nothing but the price of δ,
    the cheapest logits that reach it.
    """
    return evidence.data_action(*softmax.averages()).subs(gap, delta)


@cache
def pair_cost() -> sp.Expr:
    """Logits u on the copy entries and v = −w on all others cost what they cost in linear attention, where c1 = v and
    L cG = u − v: in terms of the gap and of the row mean m. Only the price λ of the mean depends on the inputs.
    """
    v = mean - gap / L
    cost = prior.pattern_cost().subs({c1: v, cG: gap / L}, simultaneous=True)
    compact = (lam * mean**2 + (L - 1) * gap**2) / (2 * sigma_g**2)
    require_equal(cost, compact, "prior cost of two levels")
    return compact


@cache
def stiffnesses() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Its coefficients in u and w: cost = (A u² + 2B u w + C w²)/(2σ_g²). For positional inputs B = 0."""
    in_levels = pair_cost().subs({gap: u + w, mean: (u - (L - 1) * w) / L}, simultaneous=True)
    found = tuple(sp.diff(in_levels, *pair) * sigma_g**2 for pair in ((u, u), (u, w), (w, w)))
    compact = (lam / L**2 + L - 1, (L - 1) * (1 - lam / L**2), (L - 1) * (1 + lam * (L - 1) / L**2))
    for one, other in zip(found, compact, strict=True):
        require_equal(one, other, "stiffness of the two levels")
    return compact


def relaxation() -> sp.Expr:
    """A stationary point balances both levels: −Φ'(δ) δ_u = (A u + B w)/σ_g² and −Φ'(δ) δ_w = (B u + C w)/σ_g². The
    quotient contains neither the data nor P: the stationary points of all P lie on one curve w(u). Softmax has δ = u +
    w, hence w = u/(L − 1), zero row mean.
    """
    A, B, C = stiffnesses()
    balance = (A * u + B * w) * down - (B * u + C * w) * up
    at_softmax = balance.subs({up: 1, down: 1, w: u / (L - 1)}, simultaneous=True)
    require_equal(at_softmax, 0, "softmax relaxes to zero row mean")
    return balance


@cache
def data_force() -> sp.Expr:
    """Along that curve one P makes each point stationary, because the force −Φ'(δ) of the data grows with P at every
    δ. With x = (L − 1) e^(−δ), a = 1 + x, b = x/(L − 1), c = (1 + x)², d = 1 + x²/(L − 1) it is proportional to
    t² (a + t b)/(c + t d)², whose logarithmic slope in t is 2 c/(c + t d) + t b/(a + t b) > 0.
    """
    x = (L - 1) * sp.exp(-delta)
    a, b, c, d = 1 + x, x / (L - 1), (1 + x) ** 2, 1 + x**2 / (L - 1)
    compact = (V - 1) / sigma_w**2 * x * t**2 * (a + t * b) / (c + t * d) ** 2
    force = -sp.diff(data_action(), delta).subs(P, t * kappa * V / sigma_w**2)
    require_equal(force, compact, "force of the data")
    require_equal(t * sp.diff(sp.log(compact), t), 2 * c / (c + t * d) + t * b / (a + t * b), "its logarithmic slope")
    return compact


@cache
def entmax_gap() -> sp.Expr:
    """α-entmax ignores a shift of a row, like softmax, so w = u/(L − 1) and the cost is (L − 1) Δ²/(2σ_g²). Its
    inverse row map gives the gap that a weight p needs, for any α: with k = α − 1 and log odds δ, the weights are p and
    p e^(−δ). Sparsemax is k = 1.
    """
    needed = Entmax().symbolic_gap(weight, L, {"alpha": 1 + k})
    other = (1 - weight) / (L - 1)
    compact = weight**k * (1 - sp.exp(-k * delta)) / k
    back = compact.subs(sp.exp(-k * delta), other**k / weight**k)
    if sp.simplify(back - needed) != 0:
        raise AssertionError("the gap of entmax in log odds")
    between, low, high = 1 / L + (1 - 1 / L) * gap, sp.Integer(0), sp.Integer(1)
    if Sparsemax().symbolic_two_level(gap, low, L)[0] != sp.Max(low, sp.Min(high, between)):
        raise AssertionError("the row map of sparsemax")
    require_equal(between.subs(gap, needed.subs(k, 1)), weight, "sparsemax is α = 2")
    return compact


def _steps() -> tuple[Step, ...]:
    A, B, C = stiffnesses()
    return (
        Step.of(log_odds, sp.Eq(delta, log_odds())),
        Step.of(copy_weight, sp.Eq(weight, copy_weight())),
        Step.of(data_action, sp.Eq(named("Phi(delta)", r"\Phi(\delta)"), data_action())),
        Step.of(pair_cost, sp.Eq(named("S_prior", r"S_{\mathrm{prior}}"), pair_cost())),
        Step.of(stiffnesses, *(sp.Eq(sp.Symbol(n), value) for n, value in zip("ABC", (A, B, C), strict=True))),
        Step.of(relaxation, sp.Eq((A * u + B * w) * down, (B * u + C * w) * up, evaluate=False)),
        Step.of(data_force, sp.Eq(named("-Phi'(delta)", r"-\Phi'(\delta)"), data_force())),
        Step.of(entmax_gap, sp.Eq(gap, entmax_gap())),
    )


DERIVATION = Derivation("two-level", "Any normalised score: two levels of logits", "6", _steps)
