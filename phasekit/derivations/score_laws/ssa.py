"""SSA, f(x) = (1 + b|x|)^(n·sgn x): laws of P* in every regime, with and without help of the other logits."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import two_level
from phasekit.derivations.proof import require_equal
from phasekit.derivations.score_laws.any_score import factor, gain, price
from phasekit.derivations.score_laws.limits import require_ratio_to_one
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import D, L, V, gap, kappa, lam, named, sigma_g, sigma_w, t
from phasekit.derivations.two_level import delta, down, u, up, w
from phasekit.scores import SSA

#: Sharpness and scale of SSA.
n, b = sp.symbols("n b", positive=True)
#: bu, and the scale-free depth W = bw of the others.
raised, depth = sp.symbols("s W", positive=True)
#: What multiplies P* for all scores at finite V.
_share = kappa * V / (V - 1)


@cache
def log_odds() -> sp.Expr:
    """SSA gives each level a logarithm, with slopes nb/(1 + bu) and nb/(1 + bw): the elasticity D saturates, at n for
    the copy entry alone and at 2n if both levels take part.
    """
    score, values = SSA(), {"n": n, "b": b}
    of_u, of_v = (score.symbolic_transform(z, **values) for z in (u, -w))
    found = n * (sp.log(1 + b * u) + sp.log(1 + b * w))
    require_equal(of_u - of_v, found, "log odds of SSA")
    return found


@cache
def elasticity() -> sp.Expr:
    """Return D = u δ_u + w δ_w."""
    slopes = {up: sp.diff(log_odds(), u), down: sp.diff(log_odds(), w)}
    found = n * (b * u / (1 + b * u) + b * w / (1 + b * w))
    require_equal((u * up + w * down).subs(slopes), found, "elasticity of SSA")
    return found


@cache
def relaxed_depth() -> sp.Expr:
    """How deep the others are pushed follows from u by a quadratic equation (A, B, C: stiffnesses of the two levels).
    With it, δ, D and 2C are explicit in u, and the general condition on t² is one equation for u: the closed form of P*
    for SSA.
    """
    A, B, C = two_level.stiffnesses()
    pull, stiff = u * (A * (1 + b * u) - B), C - B
    found = 2 * pull / (stiff + sp.sqrt(stiff**2 + 4 * C * b * pull))
    quadratic = C * b * w**2 + stiff * w - pull
    slopes = {up: n * b / (1 + b * u), down: n * b / (1 + b * w)}
    balance = sp.factor(two_level.relaxation().subs(slopes)) * (1 + b * u) * (1 + b * w) / (n * b)
    require_equal(balance, -quadratic, "balance of the levels")
    require_equal(quadratic.subs(w, found), 0, "depth of the others")
    return found


@cache
def shallow() -> sp.Expr:
    """With positional inputs λ = L². For L → ∞ the depth obeys bw (1 + bw) = (bu)²/L if bu ≫ 1: the others may stay at
    zero (w = 0) as long as (bu)² ≪ L. Dropped then: terms of relative order (bu)²/L.
    """
    scale = sp.Symbol("U", positive=True)
    at_scale = b * relaxed_depth().subs(lam, L**2).subs(u, scale * sp.sqrt(L) / b)
    limit = (sp.sqrt(1 + 4 * scale**2) - 1) / 2
    if sp.simplify(sp.limit(at_scale, L, sp.oo) - limit) != 0:
        raise AssertionError("depth at large L")
    require_equal(limit * (1 + limit), scale**2, "bw (1 + bw)")
    return raised**2 / L


@cache
def one_level() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """With w = 0 and a small copy weight the closed form is short: y = D − 1, D = nbu/(1 + bu), 2C = Lu²/σ_g²."""
    alone = {w: 0}
    share = elasticity().subs(alone)
    squared = (1 + b * u) ** (2 * n)
    require_equal(2 * log_odds().subs(alone), sp.expand_log(sp.log(squared), force=True), "R² with the others at zero")
    return share, squared, _share * L * u**2 / sigma_g**2 * share / (share - 1)


def _one_level_in_raised() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Return D, R, 2C in terms of s = bu."""
    return n * raised / (1 + raised), (1 + raised) ** n, L * raised**2 / (b * sigma_g) ** 2


@cache
def long_context() -> sp.Expr:
    """t ≫ L: then R² = L(D − 1), so bu → ((n − 1)L)^(1/(2n)) and D → n. The last regime at fixed V, for n > 1.
    Dropped: relative orders L^(−1/(2n)) (from 1/(bu)), L^(1/n − 1) (from w) and L/t.
    """
    law = _share * n * (n - 1) ** (1 / n - 1) * L ** (1 + 1 / n) / (b * sigma_g) ** 2
    D_s, R, cost = _one_level_in_raised()
    length = R**2 / (D_s - 1)
    _in_regime(_share * cost * D_s / (D_s - 1), law, {L: length}, "SSA, t ≫ L")
    return law


def wide_factors() -> tuple[sp.Expr, sp.Expr]:
    """Return K and M of P* = K (M/P*)^(1/n), which holds for 1 ≪ t ≪ L with the others at zero."""
    return _share * n * L / ((n - 1) * (b * sigma_g) ** 2), (n - 1) * kappa * V * L**2 / sigma_w**2


@cache
def wide_vocabulary() -> sp.Expr:
    """1 ≪ t ≪ L, with (bu)² ≪ L, that is t ≫ L^(2 − n): R² = L²(D − 1)/t, and t = P*σ_w²/(κV) closes the equation: a
    power of V appears. Dropped: relative orders 1/(bu), (bu)²/L, t/L and t^(−1/2).
    """
    K, M = wide_factors()
    law = K ** (n / (n + 1)) * M ** (1 / (n + 1))
    D_s, R, cost = _one_level_in_raised()
    samples = _share * cost * D_s / (D_s - 1)
    variance = (D_s - 1) * L**2 / R**2 * kappa * V / samples
    _in_regime(samples, law, {sigma_w: sp.sqrt(variance)}, "SSA, 1 ≪ t ≪ L")
    return law


@cache
def scarce_data() -> sp.Expr:
    """t ≪ 1 and n > 2: R = L(D − 1) gives bu → ((n − 1)L)^(1/n), and P* ~ √V L^(1/2 + 1/n). Dropped: relative orders
    1/(bu) ~ L^(−1/n), (bu)²/L ~ L^(2/n − 1), and t.
    """
    law = (
        kappa * V / sp.sqrt(V - 1) / (sigma_w * sigma_g * b)
        * sp.sqrt(L) * ((n - 1) * L) ** (1 / n) * n / (n - 1)
    )  # fmt: skip
    D_s, R, cost = _one_level_in_raised()
    samples = kappa * V / sp.sqrt(V - 1) * sp.sqrt(cost) * D_s / (D_s - 1) / sigma_w
    _in_regime(samples, law, {L: R / (D_s - 1)}, "SSA, t ≪ 1, n > 2")
    return law


@cache
def both_levels() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Where (bu)² is no longer small against L it is cheaper to lower the others too. For L → ∞ the depth W = bw is
    the only parameter: (bu)² = L W(1 + W). D grows from n (W ≪ 1) to 2n (W ≫ 1): SSA then acts as if its n were twice
    as large. So even SSA with n = 1 can jump.
    """
    D_W = n * (1 + 2 * depth) / (1 + depth)
    R = (sp.sqrt(L * depth * (1 + depth)) * (1 + depth)) ** n
    cost = L**2 * depth * (1 + 2 * depth) / (b * sigma_g) ** 2
    A, B, C = (stiffness.subs(lam, L**2) for stiffness in two_level.stiffnesses())
    levels = {u: sp.sqrt(L * depth * (1 + depth)) / b, w: depth / b}
    in_levels = (A * u**2 + 2 * B * u * w + C * w**2).subs(levels) / sigma_g**2
    require_ratio_to_one(in_levels, cost, L, sp.oo, "cost of both levels")
    if sp.simplify(sp.limit(elasticity().subs(levels), L, sp.oo) - D_W) != 0:
        raise AssertionError("elasticity of both levels")
    return D_W, R, cost


def wide_pair_factors() -> tuple[sp.Expr, sp.Expr]:
    """Return K and M of P* = K (M/P*)^(1/(2n)), which holds for 1 ≪ t ≪ L with both levels."""
    cost = 2 * L ** sp.Rational(3, 2) / (b * sigma_g) ** 2
    return _share * cost * 2 * n / (2 * n - 1), (2 * n - 1) * kappa * V * L**2 / sigma_w**2


@cache
def wide_vocabulary_pair() -> sp.Expr:
    """1 ≪ t ≪ L^(2 − n), which needs n < 2: both levels take part, D → 2n, 2C → 2 L^(3/2) R^(1/n)/(bσ_g)². Dropped:
    relative orders 1/W and t^(−1/2).
    """
    K, M = wide_pair_factors()
    law = K ** (2 * n / (2 * n + 1)) * M ** (1 / (2 * n + 1))
    D_W, R, cost = both_levels()
    samples = _share * cost * D_W / (D_W - 1)
    variance = (D_W - 1) * L**2 / R**2 * kappa * V / samples
    require_ratio_to_one(samples, law.subs(sigma_w, sp.sqrt(variance)), depth, sp.oo, "SSA, 1 ≪ t ≪ L^(2−n)")
    return law


@cache
def scarce_data_pair() -> sp.Expr:
    """t ≪ 1 and n < 2: the same with R = L(D − 1), P* ~ √V L^(3/4 + 1/(2n))."""
    D_W, R, cost = both_levels()

    def law_of(length: sp.Expr) -> sp.Expr:
        power = ((2 * n - 1) * length) ** (1 / (2 * n))
        scale = kappa * V / sp.sqrt(V - 1) / (sigma_w * sigma_g * b)
        return scale * sp.sqrt(2) * L ** sp.Rational(3, 4) * power * 2 * n / (2 * n - 1)

    samples = kappa * V / sp.sqrt(V - 1) * sp.sqrt(cost) * D_W / (D_W - 1) / sigma_w
    beyond = {n: 1 + sp.Symbol("c", positive=True)}
    pair = samples.subs(beyond), law_of(R / (D_W - 1)).subs(beyond)
    require_ratio_to_one(*pair, depth, sp.oo, "SSA, t ≪ 1, n < 2")
    return law_of(L)


@cache
def marginal() -> tuple[sp.Expr, sp.Expr]:
    """For n = 2 and t ≪ 1 the depth at the jump doesn't depend on L: W(1 + W)⁴ = 1 + 3W, W = 0.495. The law is linear
    in L, with a prefactor 1.590 instead of the 2 that w = 0 would give.
    """
    D_W, R, cost = (part.subs(n, 2) for part in both_levels())
    condition = sp.Eq(depth * (1 + depth) ** 4, 1 + 3 * depth)
    require_equal((R - L * (D_W - 1)) * (1 + depth) / L, condition.lhs - condition.rhs, "R = L(D − 1) for n = 2")
    prefactor = sp.sqrt(depth * (1 + 2 * depth)) * 2 * (1 + 2 * depth) / (1 + 3 * depth)
    require_equal(D_W / (D_W - 1) * sp.sqrt(cost) * b * sigma_g / L, prefactor, "prefactor for n = 2")
    return condition, kappa * V / sp.sqrt(V - 1) * prefactor * L / (sigma_w * sigma_g * b)


@cache
def linear_tails() -> tuple[sp.Expr, sp.Expr]:
    """SSA with n = 1 has D = 1 + W/(1 + W) > 1 where bu ≫ 1. With y = D − 1 and R² = L(1 + L/t) y it follows that (1 +
    W)⁴ = 1 + L/t: a jump that fades away as L/t → 0. The terms 1/(bu) that are dropped here end it: it exists only
    where they are smaller than W, for t ≪ L^(3/2). At fixed V, where t ~ L², SSA with n = 1 doesn't jump.
    """
    D_W, R, cost = (part.subs(n, 1) for part in both_levels())
    condition = sp.Eq((1 + depth) ** 4, 1 + L / t)
    require_equal((R**2 / (D_W - 1)).subs(L, 1), condition.lhs, "R² = L(1 + L/t)(D − 1) for n = 1")
    samples = _share * L**2 * (1 + 2 * depth) ** 2 / (b * sigma_g) ** 2
    require_equal(_share * cost * D_W / (D_W - 1), samples, "P* for n = 1")
    return condition, samples


@cache
def free_mean() -> sp.Expr:
    """Token+position inputs have λ = (VL/(V + L))². At V² ≪ L the mean of a row costs nothing against its gap: the
    cheapest logits are u = w (if bu ≫ 1), half the gap each. SSA then acts with 2n and b/2 instead of n and b, and all
    one-level laws hold with these.
    """
    free = sp.limit(relaxed_depth().subs(u, raised / b), lam, 0)
    require_equal(free, raised / b, "equal levels if the mean is free")
    doubled = (1 + b / 2 * (u + w)) ** (2 * n)
    require_equal(sp.exp(2 * log_odds() / n).subs(w, u), doubled.subs({n: 2}).subs(w, u), "R with equal levels")
    cost = two_level.pair_cost().subs(lam, 0)
    require_ratio_to_one(2 * cost, L * gap**2 / sigma_g**2, L, sp.oo, "cost of a gap")
    return free


@cache
def exponential_limit() -> sp.Expr:
    """For b = 1/n and n → ∞, δ → u + w and D → u + w: softmax. A temperature T scales logits by 1/T; in H/T the prior
    has σ_g/T, so temperature softmax is softmax with σ_g → σ_g/T.
    """
    for part in (log_odds(), elasticity()):
        if sp.limit(part.subs(b, 1 / n), n, sp.oo) != u + w:
            raise AssertionError("softmax as limit of SSA")
    return u + w


def _in_regime(form: sp.Expr, law: sp.Expr, where: dict[sp.Symbol, sp.Expr], what: str) -> None:
    """Prove form/law → 1 as bu → ∞, for n > 1."""
    beyond = {n: 1 + sp.Symbol("c", positive=True)}
    values = {symbol: value.subs(beyond) for symbol, value in where.items()}
    require_ratio_to_one(form.subs(beyond).subs(values), law.subs(beyond).subs(values), raised, sp.oo, what)


def steps() -> tuple[Step, ...]:
    """Return the steps of this part."""
    P_star = named("P*", "P^*")
    share, squared, samples = one_level()
    condition, marginal_law = marginal()
    fading, tail_law = linear_tails()
    D_W, R, cost = both_levels()
    A, B, C = sp.symbols("A B C")
    return (
        Step.of(log_odds, sp.Eq(delta, log_odds()), sp.Eq(D, elasticity())),
        Step.of(relaxed_depth, sp.Eq(C * b * w**2 + (C - B) * w, u * (A * (1 + b * u) - B))),
        Step.of(shallow, sp.Eq(b * w * (1 + b * w), (b * u) ** 2 / L)),
        Step.of(
            one_level,
            sp.Eq(gain, share - 1),
            sp.Eq(squared, gain * L * (1 + L / t)),
            sp.Eq(P_star, samples.subs(share - 1, gain)),
        ),
        Step.of(long_context, sp.Eq(P_star, long_context())),
        Step.of(wide_vocabulary, sp.Eq(P_star, wide_vocabulary())),
        Step.of(scarce_data, sp.Eq(P_star, scarce_data())),
        Step.of(both_levels, sp.Eq(D, D_W), sp.Eq(factor, R), sp.Eq(price, cost)),
        Step.of(wide_vocabulary_pair, sp.Eq(P_star, wide_vocabulary_pair())),
        Step.of(scarce_data_pair, sp.Eq(P_star, scarce_data_pair())),
        Step.of(marginal, condition, sp.Eq(P_star, marginal_law)),
        Step.of(linear_tails, fading, sp.Eq(P_star, tail_law)),
        Step.of(free_mean, sp.Eq(w, u)),
        Step.of(exponential_limit, sp.Eq(D, exponential_limit())),
    )
