"""Landau expansion of the linear map action around the zero pattern: onset, critical mode, order of the transition."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derivations import linear
from derivations.symbols import P, V, c1, cG, kappa, lam, s, sigma_g, sigma_w, t, x


@cache
def expansion() -> tuple[sp.Expr, sp.Expr]:
    """Return the quadratic and the quartic form of the action in (s, cG).

    The action is even in (c1, cG), so along a ray it is a function of the squared distance z; its Taylor
    coefficients in z are the forms. s = c1 + cG is the natural partner of cG because the prior is diagonal in them.
    """
    z = sp.Symbol("z", positive=True)
    ray = linear.action().subs({c1: sp.sqrt(z) * (s - cG), cG: sp.sqrt(z) * cG}, simultaneous=True)
    ray = sp.expand(ray) if ray.is_polynomial(z) else sp.simplify(ray)
    quadratic = sp.diff(ray, z).subs(z, 0)
    quartic = (sp.diff(ray, z, 2) / 2).subs(z, 0)
    return sp.factor(quadratic), sp.factor(quartic)


def quadratic_matrix() -> sp.Matrix:
    """Return 2σ_g² times the quadratic form's matrix in (s, cG), with the data in x = t P σ_g²/(κV)."""
    form = 2 * sigma_g**2 * expansion()[0]
    matrix = sp.hessian(form, (s, cG)) / 2
    return matrix.subs(P, x * kappa * V / (t * sigma_g**2)).applyfunc(lambda entry: sp.collect(sp.expand(entry), x))


def determinant() -> sp.Expr:
    """Return the determinant whose smaller root in x is the onset."""
    return sp.collect(sp.expand(quadratic_matrix().det()), x, sp.factor)


def whitened() -> sp.Matrix:
    """Return K with quadratic form ∝ 1 − (x/λ) K, in coordinates where the prior is the identity.

    Rescaling s and cG by the roots of their prior curvatures turns the onset into an eigenvalue problem: the zero
    pattern is unstable once x/λ exceeds 1/(largest eigenvalue of K).
    """
    matrix = quadratic_matrix()
    prior = matrix.subs(x, 0)
    scale = sp.diag(1 / sp.sqrt(prior[0, 0]), 1 / sp.sqrt(prior[1, 1]))
    data = -sp.diff(matrix, x)
    return (lam * scale * data * scale).applyfunc(sp.simplify)


def largest_eigenvalue() -> sp.Expr:
    """Return the largest eigenvalue of the whitened matrix; its discriminant is a sum of squares."""
    K = whitened()
    return (K[0, 0] + K[1, 1] + sp.sqrt((K[0, 0] - K[1, 1]) ** 2 + 4 * K[0, 1] ** 2)) / 2


def onset() -> sp.Expr:
    """Return P₁."""
    return kappa * V * sp.sqrt(lam) / (sigma_w * sigma_g) / sp.sqrt(largest_eigenvalue())


def onset_large_L() -> sp.Expr:
    """Return the limit of P₁ for L ≫ V: the leading eigenvalue of K tends to 1."""
    return kappa * V * sp.sqrt(lam) / (sigma_w * sigma_g)


def mixing_angle() -> sp.Expr:
    """Return θ with tan θ = 2 K₀₁/(K₀₀ − K₁₁): the whitened critical mode is (cos θ/2, sin θ/2)."""
    K = whitened()
    return sp.atan2(2 * K[0, 1], K[0, 0] - K[1, 1])


def critical_mode() -> tuple[sp.Expr, sp.Expr]:
    """Return (s, cG) of the first instability, normalised to s = 1."""
    prior = quadratic_matrix().subs(x, 0)
    return sp.Integer(1), sp.sqrt(prior[0, 0] / prior[1, 1]) * sp.tan(mixing_angle() / 2)
