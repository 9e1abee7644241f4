"""The posterior over attention matrices: forces of the data on the four averages, and what they do to noise."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import evidence
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import LATEX, P, T, V, g, kappa, named, q, s, s2, sigma_g, sigma_w, t

#: A variance of the logits, the number of modes that have it, and what each unit of it adds to q and to s₂.
rho, count, in_q, in_s2 = sp.symbols("rho n a b", positive=True)
#: The forces that squeeze the noise: derivatives of Φ.
force_q, force_s2 = sp.symbols("Phi_q Phi_s2", real=True)
LATEX.update({rho: r"\rho", force_q: r"\Phi_q", force_s2: r"\Phi_{s_2}"})


def data_action() -> sp.Expr:
    """Each of the V² modes of W leaves the logarithm of its width behind when it is integrated out. It rises with s₂
    and q: attention noise costs, because the readout would have to be fitted more sharply.
    """
    return evidence.data_action(delta=1)


@cache
def forces() -> dict[sp.Symbol, sp.Expr]:
    """The data act on an attention matrix through four numbers, the derivatives of Φ. The signs are those of a head
    that helps: Φ_s ≤ 0 and Φ_g ≤ 0 (for s, g ≥ 0) pull, Φ_s₂ > 0 and Φ_q > 0 squeeze.
    """
    data = t / (sigma_w**2 * V) * V  # P/κ = t V/σ_w², and the bulk has V − 1 directions
    compact = {
        s: -data * t * s / (1 + t * s2),
        s2: data / 2 * (t * s / (1 + t * s2)) ** 2 + V * t / (2 * (1 + t * s2)),
        g: -data * (V - 1) * t * g / (1 + t * q),
        q: data * (V - 1) / 2 * (t * g / (1 + t * q)) ** 2 + V * (V - 1) * t / (2 * (1 + t * q)),
    }
    for average, found in compact.items():
        require_equal(sp.diff(data_action(), average).subs(t, T), found.subs(t, T), f"dΦ/d{average}")
    return compact


def stiffness() -> dict[tuple[sp.Symbol, sp.Symbol], sp.Expr]:
    """Differentiate once more; (s, s₂) and (g, q) don't mix."""
    pairs = ((s, s), (s, s2), (s2, s2), (g, g), (g, q), (q, q))
    return {pair: sp.diff(forces()[pair[0]], pair[1]) for pair in pairs}


@cache
def loss() -> sp.Expr:
    """The loss is the mean of what P/(2κ) multiplies in the energy: ⟨loss⟩ = 2 ∂F/∂(P/κ). F is stationary in the order
    parameters, so only the explicit dependence counts. Beyond the loss at the best W it holds the noise of W: each mode
    fluctuates by σ_w²/(1 + tC).
    """
    strength = sp.Symbol("beta", positive=True)  # P/κ
    action = data_action().subs({P: strength * kappa, t: strength * sigma_w**2 / V}, simultaneous=True)
    found = 2 * sp.diff(action, strength)
    noise = sigma_w**2 * (s2 / (1 + t * s2) + (V - 1) * q / (1 + t * q))
    compact = evidence.loss() + noise
    require_equal(found, compact.subs(t, strength * sigma_w**2 / V), "2 ∂Φ/∂(P/κ)")
    return compact


@cache
def noise_cost() -> sp.Expr:
    """Logits that fluctuate with another variance than the prior's cost the relative entropy of two Gaussians, for each
    of n modes.
    """
    x = sp.Symbol("x", real=True)
    density = sp.exp(-(x**2) / (2 * rho)) / sp.sqrt(2 * sp.pi * rho)
    prior = sp.exp(-(x**2) / (2 * sigma_g**2)) / sp.sqrt(2 * sp.pi * sigma_g**2)
    log_ratio = sp.expand_log(sp.log(density) - sp.log(prior), force=True)
    entropy = sp.integrate(sp.expand(density * log_ratio), (x, -sp.oo, sp.oo))
    cost = count / 2 * (rho / sigma_g**2 - 1 - sp.log(rho / sigma_g**2))
    require_equal(sp.simplify(count * entropy), cost, "relative entropy of two Gaussians")
    return cost


@cache
def best_variance() -> sp.Expr:
    """A mode that adds a ρ to q and b ρ to s₂ is squeezed by both forces, until the entropy holds against them."""
    total = noise_cost() + force_q * in_q * rho + force_s2 * in_s2 * rho
    (best,) = sp.solve(sp.diff(total, rho), rho)
    compact = sigma_g**2 / (1 + 2 * sigma_g**2 * (in_q * force_q + in_s2 * force_s2) / count)
    require_equal(best, compact, "stationary variance")
    return compact


def golden_onset() -> sp.Expr:
    """Positional inputs, L → ∞ at fixed V and unit variances: noise adds 1/L to s₂ and q, so with t = τ L both bulk
    terms 1 + tq stay of order 1 + τ. The constant direction pulls with P t s²/(2κV)/(1 + τ) against L² s²/2: the
    origin becomes unstable where τ² = 1 + τ, so at the golden ratio times the map's onset P₁ = κ V L (τ = 1).
    """
    tau = sp.Symbol("tau", positive=True)
    positive = [root for root in sp.solve(tau**2 - tau - 1, tau) if root.is_positive]
    return positive[0]


def _steps() -> tuple[Step, ...]:
    Phi = named("Phi", r"\Phi")
    names = {s: "Phi_s", s2: "Phi_s2", g: "Phi_g", q: "Phi_q"}
    latex = {s: r"\Phi_s", s2: r"\Phi_{s_2}", g: r"\Phi_g", q: r"\Phi_q"}
    tau = named("tau_1", r"\tau_1")
    return (
        Step.of(data_action, sp.Eq(Phi, data_action())),
        Step.of(forces, *(sp.Eq(named(names[x], latex[x]), force) for x, force in forces().items()), sp.Eq(t, T)),
        Step.of(loss, sp.Eq(named("<loss>", r"\langle\mathrm{loss}\rangle"), loss())),
        Step.of(noise_cost, sp.Eq(named("I_rho", r"I_\rho"), noise_cost())),
        Step.of(best_variance, sp.Eq(rho, best_variance())),
        Step.of(golden_onset, sp.Eq(tau, golden_onset())),
    )


DERIVATION = Derivation("posterior", "The posterior: forces of the data, and the noise that they squeeze", "6", _steps)
