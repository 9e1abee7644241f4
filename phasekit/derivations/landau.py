"""Landau expansion of the linear map action around the zero pattern: onset, critical mode, order of the transition."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import evidence, linear, prior
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import L, P, V, X, c1, cG, g, kappa, lam, named, q, s, sigma_g, sigma_w, t, x

#: cG/s of the critical mode.
ratio = sp.Symbol("rho", positive=True)


@cache
def expansion() -> tuple[sp.Expr, sp.Expr]:
    """Expand the action around c1 = cG = 0. Scaling (c1, cG) by √z scales s and g by √z, s₂ = s² and q by z, so the
    data part is a function of z whose Taylor coefficients are the quadratic and the quartic form. s = c1 + cG and
    cG are the natural variables, because the prior is diagonal in them; g = s/L + (1 − 1/L) cG.
    """
    z = sp.Symbol("z", positive=True)
    for average, degree in zip(linear.averages(), (1, 2, 1, 2), strict=True):
        scaled = average.subs({c1: z * c1, cG: z * cG}, simultaneous=True)
        require_equal(scaled, z**degree * average, "the averages are homogeneous")
    ray = evidence.data_action(sp.sqrt(z) * s, z * s**2, sp.sqrt(z) * g, z * q)
    quadratic, quartic = sp.diff(ray, z).subs(z, 0), sp.diff(ray, z, 2).subs(z, 0) / 2
    return quadratic + prior.pattern_cost().subs(c1, s - cG), sp.simplify(quartic)


def unfolded(form: sp.Expr) -> sp.Expr:
    """Return a form of the expansion in s and cG alone."""
    _, _, overlap, norm = (average.subs(c1, s - cG) for average in linear.averages())
    return form.subs({g: overlap, q: norm}, simultaneous=True)


@cache
def quadratic_matrix() -> sp.Matrix:
    """2σ_g² times the quadratic form is a matrix in (s, cG). The data enter it only through x = (P σ_w σ_g/(κV))²."""
    form = 2 * sigma_g**2 * unfolded(expansion()[0])
    matrix = (sp.hessian(form, (s, cG)) / 2).subs(P, x * kappa * V / (t * sigma_g**2))
    return matrix.applyfunc(lambda entry: sp.collect(sp.expand(entry), x, sp.factor))


@cache
def determinant() -> sp.Expr:
    """The zero pattern becomes unstable at the smaller root x of the determinant, which is quadratic in x. It is
    written in x/λ, with the weight ε = (V − 1)/L² of the bulk of vocabulary space in a uniform pattern.
    """
    return sp.factor(quadratic_matrix().det())


@cache
def whitened() -> sp.Matrix:
    """The same as an eigenvalue problem: rescale s and cG by the roots of their prior curvatures, so that the prior
    becomes the identity and the quadratic form is proportional to 1 − (x/λ) K. Its first instability comes when x/λ
    reaches the inverse of the largest eigenvalue of K.
    """
    matrix = quadratic_matrix()
    stiffness = matrix.subs(x, 0)
    scale = sp.diag(1 / sp.sqrt(stiffness[0, 0]), 1 / sp.sqrt(stiffness[1, 1]))
    return (lam * scale * -sp.diff(matrix, x) * scale).applyfunc(lambda entry: sp.factor(sp.simplify(entry)))


@cache
def largest_eigenvalue() -> sp.Expr:
    """The discriminant is a sum of squares, so the closed root has no cancellation; P₁ = κV √(x₁)/(σ_w σ_g)."""
    K = whitened()
    root = (K[0, 0] + K[1, 1] + sp.sqrt((K[0, 0] - K[1, 1]) ** 2 + 4 * K[0, 1] ** 2)) / 2
    require_equal(determinant().subs(x, lam / root), 0, "the largest eigenvalue of K is a root of the determinant")
    return root


def onset() -> sp.Expr:
    """Return P₁."""
    return kappa * V * sp.sqrt(lam) / (sigma_w * sigma_g) / sp.sqrt(largest_eigenvalue())


@cache
def onset_large_L() -> sp.Expr:
    """For L ≫ V all entries of K but the first vanish (with λ = L² the second diagonal entry falls as V/L, with token
    inputs faster), and the eigenvalue tends to 1. So P₁ → κV√λ/(σ_w σ_g): ~ V L for positional inputs, and
    κV²L/(V + L) ~ V² for token+position inputs, where pooling can use the token blocks.
    """
    for cost in (L**2, (V * L / (V + L)) ** 2):
        if sp.limit(largest_eigenvalue().subs(lam, cost), L, sp.oo) != 1:
            raise AssertionError("the largest eigenvalue doesn't tend to 1")
    return kappa * V * sp.sqrt(lam) / (sigma_w * sigma_g)


def mixing_angle() -> sp.Expr:
    """The critical mode is the leading eigenvector of K, (cos θ/2, sin θ/2) with tan θ = 2K₁₂/(K₁₁ − K₂₂)."""
    K = whitened()
    return sp.atan2(2 * K[0, 1], K[0, 0] - K[1, 1])


@cache
def critical_mode() -> tuple[sp.Expr, sp.Expr]:
    """Back in the original variables, cG/s of the critical mode is tan(θ/2) times the ratio of prior scales. For V ≪ L
    it is small: the head first learns to pool. For V comparable to L or larger it is of order one, c1 is the smaller
    part, and "pooling first" doesn't hold.
    """
    stiffness = quadratic_matrix().subs(x, 0)
    mode = sp.sqrt(stiffness[0, 0] / stiffness[1, 1]) * sp.tan(mixing_angle() / 2)
    first_row = quadratic_matrix().subs(x, lam / largest_eigenvalue())[0, :]
    require_equal(first_row[0] + first_row[1] * mode, 0, "the critical mode is in the kernel of the quadratic form")
    return sp.Integer(1), mode


def quartic() -> sp.Expr:
    """The quartic form is positive in every direction (q ≥ g² ≥ 0), for all V and L. Together with a quadratic form
    that changes sign smoothly this makes the onset a second-order transition.
    """
    return expansion()[1]


@cache
def growth() -> sp.Expr:
    """Just above the onset the pattern grows along the critical mode (s, cG) = s (1, ρ), whose overlap and norm are
    g and q times s and s². Minimising a₂ s² + a₄ s⁴, with a₂ proportional to P₁² − P² ≈ −2 P₁ (P − P₁), gives the
    law below: |c| ∝ (P − P₁)^(1/2). Here t is taken at P₁.
    """
    ray = sp.Matrix([1, ratio])
    slope = (ray.T * sp.diff(quadratic_matrix(), x) * ray)[0] / (2 * sigma_g**2)
    compact = -(1 + (V - 1) * g**2) / (2 * sigma_g**2)
    require_equal(slope, compact.subs(g, (1 + (L - 1) * ratio) / L), "slope of the quadratic form in x")
    second_by_distance = compact * sp.diff(X, P) * P
    fourth = quartic().subs(s, 1)
    return sp.factor((-second_by_distance / (2 * fourth)).subs(P, t * kappa * V / sigma_w**2))


def _steps() -> tuple[Step, ...]:
    eps, y, theta = sp.symbols("epsilon y theta", positive=True)
    P1, det, mu = named("P_1", "P_1"), named("det", r"\det M"), named("mu", r"\mu")
    K11, K12, K22 = sp.symbols("K11 K12 K22")
    scaled = sp.simplify((determinant() / (lam * L**2 * (L - 1))).subs({x: lam * y, V: 1 + eps * L**2}))
    closed = (K11 + K22 + sp.sqrt((K11 - K22) ** 2 + 4 * K12**2)) / 2
    return (
        Step.of(expansion, sp.Eq(named("S_2", "S_2"), expansion()[0])),
        Step.of(quadratic_matrix, _matrix("M", quadratic_matrix()), sp.Eq(x, X)),
        Step.of(
            determinant,
            sp.Eq(det / (lam * L**2 * (L - 1)), sp.collect(sp.expand(scaled), y, sp.factor), evaluate=False),
            sp.Eq(y, x / lam, evaluate=False),
            sp.Eq(eps, (V - 1) / L**2),
        ),
        Step.of(whitened, _matrix("K", whitened())),
        Step.of(
            largest_eigenvalue,
            sp.Eq(mu, closed, evaluate=False),
            sp.Eq(P1, kappa * V * sp.sqrt(lam) / (sigma_w * sigma_g * sp.sqrt(mu))),
        ),
        Step.of(onset_large_L, sp.Eq(P1, onset_large_L())),
        Step.of(mixing_angle, sp.Eq(sp.tan(theta), 2 * K12 / (K11 - K22), evaluate=False)),
        Step.of(critical_mode, sp.Eq(cG / s, sp.sqrt(lam) / (L * sp.sqrt(L - 1)) * sp.tan(theta / 2), evaluate=False)),
        Step.of(quartic, sp.Eq(named("S_4", "S_4"), quartic())),
        Step.of(growth, sp.Eq(s**2, (P - P1) / P1 * growth(), evaluate=False)),
    )


def _matrix(name: str, value: sp.Matrix) -> sp.Eq:
    return sp.Eq(sp.MatrixSymbol(name, *value.shape), sp.ImmutableMatrix(value), evaluate=False)


DERIVATION = Derivation("landau", "Linear attention: Landau expansion and onset P₁", "4", _steps)
