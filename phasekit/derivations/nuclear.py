"""Factorised heads G = W_Qᵀ W_K: the nuclear norm as the prior of the map estimator, and the jumps that it makes."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import evidence, prior, softmax
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import LATEX, D, L, P, T, V, c1, cG, gap, kappa, lam, named, s, sigma_g, sigma_w, t

#: Key dimension; standard deviation of an entry of W_Q and W_K; a singular value of G, and the norms that share it.
d, tau, x = sp.symbols("d tau x", positive=True)
queries, keys = sp.symbols("alpha beta", positive=True)
#: Number of modes that copy or pool, r = min(d, L); singular value of A in each copying mode; readout t g/(1 + t q).
r = sp.Symbol("r", positive=True)
c = sp.Symbol("c", positive=True)
w = sp.Symbol("w", real=True)
#: A pattern's strength in units of the noise in W: √t s for pooling, √(t q) for copying.
u = sp.Symbol("u", positive=True)
#: Gain parameter of softmax at the upper minimum, and the data's weight P (V − 1)/(κV).
gain, weight = sp.symbols("y p", positive=True)
LATEX.update({tau: r"\tau", queries: r"\alpha", keys: r"\beta"})


def factor_variance() -> sp.Expr:
    """An entry of G = W_Qᵀ W_K is a sum of d products of independent entries, each of variance τ⁴. It has the variance
    σ_g² of a Gaussian G if τ² = σ_g/√d.
    """
    found = sigma_g / sp.sqrt(d)
    require_equal(d * found**2, sigma_g**2, "variance of an entry of G")
    return found


@cache
def singular_cost() -> sp.Expr:
    """Minimise the prior of the factors at fixed G. For any factors ‖W_Q‖² + ‖W_K‖² ≥ 2 ‖G‖_*: with G = U X Vᵀ (U, V
    orthonormal, X the singular values), ‖G‖_* = tr(Uᵀ W_Qᵀ W_K V) ≤ ‖W_Q U‖ ‖W_K V‖. Row k of the factors can be
    made to carry one singular value, x = αβ with the norms α of the query and β of the key vector; α² + β² is smallest
    at α = β = √x, which attains the bound. So every singular value costs √d x/σ_g, linear in x. There are at most d.
    """
    norms = (queries**2 + keys**2) / (2 * factor_variance())
    at_fixed_product = norms.subs(keys, x / queries)
    (balanced,) = sp.solve(sp.diff(at_fixed_product, queries), queries)
    require_equal(balanced**2, x, "query and key vectors of equal norm")
    return sp.simplify(at_fixed_product.subs(queries, balanced))


def linear_cost() -> sp.Expr:
    """Linear attention, G = L A. The shift S is orthogonal and has the constant vector as an eigenvector, so c1 11ᵀ/L +
    cG S has singular values s = c1 + cG (once) and |cG| (L − 1 times). Pooling is one mode, of size √λ s (with
    token+position inputs G is a b^T with ‖a‖² = ‖b‖² = √λ, the cheapest vectors that give every token and position the
    same logit): as dear as under the Frobenius norm. Copying spreads over L − 1 modes, each of size L cG, and pays for
    their sum instead of the root of their squares: √(L − 1) times more in units of its own norm.
    """
    found = sp.sqrt(d) / sigma_g * (sp.sqrt(lam) * sp.Abs(s) + L * (L - 1) * sp.Abs(cG))
    frobenius = prior.pattern_cost().subs(c1, s - cG)
    for length in (3, 4):
        shift = _shift(length)
        pattern = (s - cG) * sp.ones(length) / length + cG * shift
        squared = (pattern.T * pattern - x * sp.eye(length)).det()
        require_equal(squared, (s**2 - x) * (cG**2 - x) ** (length - 1), f"singular values, L = {length}")
        squares = length**2 * (s**2 + (length - 1) * cG**2) / (2 * sigma_g**2)
        require_equal(frobenius.subs({lam: L**2}).subs(L, length), squares, "Frobenius norm from singular values")
    return found


def _shift(length: int) -> sp.Matrix:
    return sp.Matrix(length, length, lambda i, j: int((i - j) % length == 1))


def best_pattern() -> tuple[sp.Expr, sp.Expr]:
    """No other attention matrix of linear attention does better. Split A along and across the constant vector;
    dropping the mixed blocks keeps s and g, and lowers s₂, q and the nuclear norm. The block B across has overlap
    tr(SᵀB) ≤ ‖B‖_* and ‖B‖² ≥ tr(SᵀB)²/(number of its singular values): both bounds are attained by equal singular
    values c along modes of the shift. With at most d singular values, r = min(d, L) modes are used: pooling, and r − 1
    with singular value c. (For d < L, dropping mixed blocks may raise the rank; there free minimisation is the
    evidence.)
    """
    return (s + (r - 1) * c) / L, (s**2 + (r - 1) * c**2) / L


@cache
def data_gradient() -> tuple[sp.Expr, sp.Expr]:
    """In the readout w = t g/(1 + t q) of the bulk the data's pull on both singular values is alike: every mode pulls
    with w (1 − x w), x its own singular value, and the constant direction adds to the pull on s.
    """
    g, q = best_pattern()
    action = evidence.data_action(s, s**2, g, q)
    pull = P * (V - 1) / (kappa * V * L)
    found = (
        -P * t / (kappa * V) * s / (1 + t * s**2) ** 2 - pull * w * (1 - s * w),
        -pull * (r - 1) * w * (1 - c * w),
    )
    for coordinate, slope in zip((s, c), found, strict=True):
        require_equal(sp.diff(action, coordinate), slope.subs(w, t * g / (1 + t * q)), f"dPhi/d{coordinate}")
    return found


def threshold() -> tuple[sp.Expr, sp.Expr]:
    """At s = c = 0 there is no pull at all, while the prior's slope is finite: the origin is a minimum for every P, and
    both transitions are jumps. A copying mode with singular value c is stationary at w − c w² = k. While w < k, copying
    is not just small: it is zero.
    """
    price = sp.sqrt(d) * L * (r - 1) / sigma_g
    (k,) = sp.solve(price + data_gradient()[1].subs(c, 0), w)
    size = (w - k) / w**2
    require_equal(data_gradient()[1].subs(c, size), -price, "stationarity in c")
    if [slope.subs({w: 0, s: 0, c: 0}) for slope in data_gradient()] != [0, 0]:
        raise AssertionError("the data pull at the origin")
    return k, size


@cache
def pooling_jump() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Pooling alone, for L ≫ V: equal action with the origin and stationarity in u = √t s. The quotient of both
    conditions gives u = 1: pooling starts with half of what it can explain, at a P₁ that grows as V L^(2/3) d^(1/3)
    (positional) and V^(5/3) d^(1/3) (token+position, L ≫ V) instead of V L and V². Its lower spinodal, where the
    largest slope of the gain equals the price, is at 2^(4/3)/3 = 0.84 P₁; the origin has none.
    """
    half, price = P / (2 * kappa * V), sp.sqrt(d * lam) / sigma_g / sp.sqrt(t)
    strength, found = _first_pays(half, price)
    slope = sp.diff(u**2 / (1 + u**2), u)
    (steepest,) = sp.solve(sp.diff(slope, u), u)
    ratio = (slope.subs(u, steepest) / sp.Rational(1, 2)) ** sp.Rational(-2, 3)
    law = kappa * V * (4 * sp.sqrt(d * lam) / (sigma_w * sigma_g)) ** sp.Rational(2, 3)
    require_equal(found, law**3, "onset of pooling under the nuclear norm")
    return strength, law, ratio


@cache
def copying_jump() -> tuple[sp.Expr, sp.Expr]:
    """Copying with r equal modes against nothing (what pooling had gained is smaller by 1/V): in u = √(t q) the bracket
    of the bulk gains (r/L) u²/(1 + u²) and the price is √d L √(r L) u/√t/σ_g. Again u = 1. With room for all modes P₂
    grows as V^(1/3) L^(4/3) d^(1/3) instead of L^(3/2) V^(1/2). With fewer, r = d, it doesn't depend on d at all; the
    head then copies within d dimensions and its loss stays above 1 − d/L.
    """
    half = P * (V - 1) / (2 * kappa * V) * r / L
    price = sp.sqrt(d) / sigma_g * L * sp.sqrt(r * L) / sp.sqrt(t)
    strength, found = _first_pays(half, price)
    law = kappa * V * (4 * L**2 * sp.sqrt(d * L / r) / ((V - 1) * sigma_w * sigma_g)) ** sp.Rational(2, 3)
    require_equal(found, law**3, "jump to copying under the nuclear norm")
    return strength, law


def _first_pays(weight: sp.Expr, price: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Return u and P³ where weight · u²/(1 + u²) = price · u with equal slopes."""
    gained = u**2 / (1 + u**2)
    (strength,) = sp.solve(u * sp.diff(gained, u) - gained, u)
    squared = ((price * strength / (weight * gained.subs(u, strength))) ** 2).subs(t, T)  # 1 there; falls as P⁻³
    cube = sp.simplify(squared * P**3)
    if cube.has(P):
        raise AssertionError("price over gain is a pure power of P")
    return strength, cube


def softmax_cost() -> sp.Expr:
    """Softmax attention: shifting rows is free, and the cheapest shift makes them zero on average. Subtracting row
    means is multiplying by the projector 1 − 11ᵀ/L, which lowers every singular value. What is left of the copying
    pattern, Δ (S − 11ᵀ/L), has L − 1 singular values Δ. For any logits with row gaps Δ_i to the mean of the others,
    ‖G‖_* ≥ tr(SᵀG) = (1 − 1/L) Σ_i Δ_i, and at given gap the copy weight is largest where the others are equal, by
    convexity of the exponential: no other pattern of equal rows does better, however smooth or low its rank.
    """
    for length in (3, 4):
        shift = _shift(length)
        logits = gap * (shift - sp.ones(length) / length)
        squared = (logits.T * logits - x * sp.eye(length)).det()
        require_equal(squared, -x * (gap**2 - x) ** (length - 1), f"singular values of copying logits, L = {length}")
    return sp.sqrt(d) / sigma_g * (L - 1) * gap


@cache
def softmax_pinning() -> sp.Expr:
    """The data pull on the gap even at Δ = 0, but the prior resists with a finite slope: uniform attention is exactly
    uniform, a_G = 0, up to the P of its spinodal (t ≫ L: P → √d κ V/((V − 1) σ_g) · L²).
    """
    slope = sp.diff(softmax.action() - prior.gap_cost(), gap).subs(gap, 0)
    pull = P * (V - 1) / (kappa * V) * t / (L + t) * (L - 1) / L**2
    require_equal(slope, -pull, "pull on the gap of uniform attention")
    return pull


@cache
def softmax_jump() -> tuple[sp.Expr, sp.Expr]:
    """Equal action and stationarity at the upper minimum, for a small copy weight (as in ``phasekit derive jump``, with
    gain y/(1 + y), y = e^(2Δ)/(L (1 + L/t))): the price √d L Δ/σ_g in place of L Δ²/(2σ_g²) gives 1 + y = 2D.
    """
    cost = sp.sqrt(d) * L * D / sigma_g
    gained = weight / 2 * gain / (1 + gain)
    equal, stationary = gained - cost, 2 * gain * sp.diff(gained, gain) - sp.diff(cost, D)
    ((y, p),) = sp.solve([equal, stationary], [gain, weight])
    require_equal(y, 2 * D - 1, "gain at the jump")
    explicit = kappa * V / (V - 1) * sp.factor(p)
    require_equal(
        explicit, kappa * V / (V - 1) * sp.sqrt(d) * L / sigma_g * 4 * D**2 / (2 * D - 1), "P* under the nuclear norm"
    )
    return explicit, sp.log(L * (1 + L / t) * (2 * D - 1)) / 2


def softmax_long_context() -> sp.Expr:
    """At fixed V and d, D → ½ ln L: P* grows as L ln L, with a prefactor √d, instead of L ln²L/4. The factorised map
    needs more data than the map over G while ln L < 4 √d, and less beyond. As d → ∞ it never comes to copy, although
    the posterior of factorised heads tends to that over Gaussian G: a minimum depends on the coordinates, a law
    doesn't.
    """
    law = kappa * V / (V - 1) * sp.sqrt(d) / sigma_g * L * sp.log(L)
    length = sp.exp(2 * D) / (2 * D - 1)
    ratio = sp.expand_log((softmax_jump()[0] / law).subs(L, length), force=True)
    if sp.limit(ratio, D, sp.oo) != 1:
        raise AssertionError("long-context limit of P* under the nuclear norm")
    return law


@cache
def finite_dimension() -> sp.Expr:
    """The posterior instead keeps the whole law of G. One entry has the characteristic function E e^(iJG) = (1 + σ_g²
    J²/d)^(−d/2), all of them det(1 + σ_g² JᵀJ/d)^(−d/2) = exp(−σ_g² ‖J‖²/2 + σ_g⁴ tr(JᵀJ)²/(4d) + O(1/d²)). So the law
    of G is the Gaussian one times 1 + H/(4d), where for n×n logits H = tr(GGᵀ)²/σ_g⁴ − (4n + 2) ‖G‖²/σ_g² + 2n³ + n²
    (tr(GGᵀ)² without its Gaussian contractions). Every average over the posterior is ⟨O⟩_d = ⟨O⟩ + Cov(O, H)/(4d) +
    O(1/d²), with the covariance over the posterior of Gaussian G. For n = 1, H is the fourth Hermite polynomial:
    """
    J, q, e = sp.symbols("J q e", positive=True)
    G, variance = sp.Symbol("G", real=True), factor_variance()
    over_keys = sp.exp(-(J**2) * q**2 * variance / 2)  # a key entry is Gaussian, at given query entry q
    density = sp.exp(-(q**2) / (2 * variance)) / sp.sqrt(2 * sp.pi * variance)
    product = sp.integrate(over_keys * density, (q, -sp.oo, sp.oo), conds="none")
    require_equal(product**-2, 1 + sigma_g**2 * J**2 / d, "characteristic function of one product")
    exponent = sp.series(sp.log(1 + sigma_g**2 * J**2 * e) / (-2 * e), e, 0, 2).removeO()  # e = 1/d
    correction = sp.expand(exponent).coeff(e, 1)
    require_equal(correction, sigma_g**4 * J**4 / 4, "first order in 1/d")
    gaussian = sp.exp(-(G**2) / (2 * sigma_g**2))
    found = sp.expand(sp.simplify(sigma_g**4 * sp.diff(gaussian, G, 4) / gaussian))
    require_equal(found, G**4 / sigma_g**4 - 6 * G**2 / sigma_g**2 + 3, "H for one entry")
    return found


def _steps() -> tuple[Step, ...]:
    cost, P1, P2 = named("S_prior", r"S_{\mathrm{prior}}"), named("P1", "P_1"), named("P2", "P_2")
    P_star, force = named("P*", "P^*"), named("-Φ'(0)", r"-\Phi'(0)")
    g, q = best_pattern()
    slopes = (named("Φ_s", r"\partial_s\Phi"), named("Φ_c", r"\partial_c\Phi"))
    k = named("k", "k")
    return (
        Step.of(factor_variance, sp.Eq(tau**2, factor_variance())),
        Step.of(singular_cost, sp.Eq(cost, singular_cost())),
        Step.of(linear_cost, sp.Eq(cost, linear_cost())),
        Step.of(best_pattern, sp.Eq(sp.Symbol("g"), g), sp.Eq(sp.Symbol("q"), q)),
        Step.of(data_gradient, *(sp.Eq(n, v) for n, v in zip(slopes, data_gradient(), strict=True))),
        Step.of(threshold, sp.Eq(k, threshold()[0]), sp.Eq(c, (w - k) / w**2)),
        Step.of(pooling_jump, sp.Eq(sp.sqrt(t) * s, pooling_jump()[0], evaluate=False), sp.Eq(P1, pooling_jump()[1])),
        Step.of(copying_jump, sp.Eq(P2, copying_jump()[1])),
        Step.of(softmax_cost, sp.Eq(cost, softmax_cost())),
        Step.of(softmax_pinning, sp.Eq(force, softmax_pinning())),
        Step.of(softmax_jump, sp.Eq(P_star, softmax_jump()[0]), sp.Eq(D, softmax_jump()[1])),
        Step.of(softmax_long_context, sp.Eq(P_star, softmax_long_context())),
        Step.of(finite_dimension, sp.Eq(named("H", "H"), finite_dimension())),
    )


DERIVATION = Derivation("nuclear", "Factorised heads: the nuclear norm and its jumps", "9", _steps)
