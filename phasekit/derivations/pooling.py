"""Linear attention with token+position inputs: pooling is a vector over the vocabulary, all of which the data see."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import posterior
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import LATEX, L, P, T, V, g, kappa, named, q, s, s2, sigma_w, t

#: Squared norm |k⊥|²/V of the pooling vector's part across the constant direction, and the noise along the constant
#: direction and along k⊥; q is that along the V − 2 directions that are left.
k2, n, m = sp.symbols("k2 n m", nonnegative=True)
LATEX.update({k2: r"k_\perp^2"})
#: Strength of the pooling vector in the data's eyes.
u = sp.Symbol("u", nonnegative=True)


@cache
def strength() -> sp.Expr:
    """A query that weights the token v of its keys with k_v collects φ = diag(k) n̂, with the frequencies n̂ of tokens
    in the sequence: E[φφᵀ] = kkᵀ/V² + noise. Let the constant direction have k's component √V s and noise n/V, the
    direction of the rest of k the component √V k⊥ and noise m/V. In the plane of both, 1 + V t E[φφᵀ] is D + t k kᵀ/V
    with D diagonal: all that counts is u.
    """
    found = t * s**2 / (1 + t * n) + t * k2 / (1 + t * m)
    require_equal(_plane().det(), (1 + t * n) * (1 + t * m) * (1 + found), "determinant in the plane")
    return found


@cache
def pooled_share() -> sp.Expr:
    """The source of the constant output is E[φ·1] = k/V: W turns *any* vector k into the constant, not only a
    uniform one. The share of it that the best W explains is u/(1 + u): in the data's eyes all directions are alike, up
    to noise.
    """
    gain = t * (_pooling().T * _plane().inv() * _pooling())[0]
    require_equal(gain, (u / (1 + u)).subs(u, strength()), "share of the constant output that is explained")
    return u / (1 + u)


@cache
def copied_share() -> sp.Expr:
    """Copying has the source g/V in V − 1 directions of vocabulary space. In the one along k⊥ what is pooled disturbs.
    Pooling gives each direction v a little of it too, through the key that is to be copied: k_v/(VL), so that
    g² + k⊥²/L² takes the place of g² (k's mean is in g already).
    """
    along = (1 - t * k2 / ((1 + t * m) * (1 + u))) / (1 + t * m)
    require_equal(_plane().inv()[1, 1], along.subs(u, strength()), "inverse along the pooling vector")
    return t * (g**2 + k2 / L**2) * ((V - 2) / (1 + t * q) + along)


def action_of_strength() -> sp.Expr:
    """Put together as for one direction, with one determinant more."""
    explained = pooled_share() + copied_share()
    width = sp.log(1 + t * n) + sp.log(1 + t * m) + (V - 2) * sp.log(1 + t * q) + sp.log(1 + u)
    return P / (2 * kappa * V) * (V - explained) + V / 2 * width


@cache
def data_action() -> sp.Expr:
    """Without k⊥ this is the posterior's Φ, with s₂ = s² + n and m = q."""
    action = action_of_strength().subs(u, strength())
    scalar = posterior.data_action().subs(s2, s**2 + n)
    here, there = (sp.expand_log(phi.subs(t, T), force=True) for phi in (action.subs({k2: 0, m: q}), scalar))
    require_equal(here, there, "without the transverse part")
    return action


@cache
def loss() -> sp.Expr:
    """⟨loss⟩ = 2 ∂Φ/∂(P/κ) at fixed averages."""
    strength_of_data = sp.Symbol("beta", positive=True)
    action = data_action().subs({P: strength_of_data * kappa, t: strength_of_data * sigma_w**2 / V}, simultaneous=True)
    return sp.diff(2 * action, strength_of_data).subs(strength_of_data, t * V / sigma_w**2)


def measure() -> sp.Expr:
    """The V components of k all fluctuate. Seen as variances they cost the relative entropy of Gaussians like all other
    modes: the longitudinal one, of prior variance σ_g²/λ, once, the V − 1 transverse ones, of V σ_g²(1/V + 1/L)
    together, V − 1 times. So s has no onset: s² is the prior's for weak data and grows with them.
    """
    lam, sigma_g = sp.symbols("lam sigma_g", positive=True)
    ratio, rest = lam * s**2 / sigma_g**2, k2 * V / (V - 1) / (sigma_g**2 * (1 / V + 1 / L))
    return (ratio - 1 - sp.log(ratio)) / 2 + (V - 1) / 2 * (rest - 1 - sp.log(rest))


def _pooling() -> sp.Matrix:
    """k/√V in the plane of the constant direction and its own."""
    return sp.Matrix([s, sp.sqrt(k2)])


def _plane() -> sp.Matrix:
    """1 + V t E[φφᵀ] there."""
    return sp.diag(1 + t * n, 1 + t * m) + t * _pooling() * _pooling().T


def _steps() -> tuple[Step, ...]:
    return (
        Step.of(strength, sp.Eq(u, strength())),
        Step.of(pooled_share, sp.Eq(named("pooled", r"\mathrm{pooled}"), pooled_share())),
        Step.of(copied_share, sp.Eq(named("copied", r"\mathrm{copied}"), copied_share())),
        Step.of(action_of_strength, sp.Eq(named("Phi", r"\Phi"), action_of_strength()), sp.Eq(t, T)),
        Step.of(data_action),
        Step.of(measure, sp.Eq(named("I_k", r"I_k"), measure())),
    )


DERIVATION = Derivation("pooling", "Pooling over tokens: a vector, and what the data see of it", "6", _steps)
