"""Integrate the readout W out, or minimise over it: the data part Φ of the effective action."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import vocabulary
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import LATEX, P, T, V, g, kappa, named, q, s, s2, sigma_w, t

#: One mode of W, its source m (V times an eigenvalue of E[φyᵀ]) and its curvature C (V times one of E[φφᵀ]).
mode, source = sp.symbols("w m", real=True)
curvature = sp.Symbol("C", positive=True)
#: 1 for the posterior over G (W integrated out), 0 for the joint minimum over W and G.
delta_post = sp.Symbol("delta_post", nonnegative=True)
LATEX[delta_post] = r"\delta_{\mathrm{post}}"


def mode_energy() -> sp.Expr:
    """The energy holds Σ_μi ‖y − Wᵀφ‖²/(2κL), a sum of P L terms; replace it by its expectation,
    P/(2κ) [E|y|² − 2 tr(Wᵀ E[φyᵀ]) + tr(Wᵀ E[φφᵀ] W)]. Both moments are diagonal in the eigenbasis of Π, so W falls
    into V² independent modes w, each with the curvature C of its row's direction (C = q or s₂); those on the diagonal
    also have a source m (m = g or s).
    """
    return P / (2 * kappa * V) * (curvature * mode**2 - 2 * source * mode) + mode**2 / (2 * sigma_w**2)


@cache
def best_mode() -> sp.Expr:
    """The minimum over a mode, with t = P σ_w²/(κV) the strength of the data against the prior of W."""
    (minimum,) = sp.solve(sp.diff(mode_energy(), mode), mode)
    return _in_t(minimum)


@cache
def mode_minimum() -> sp.Expr:
    """The energy of a mode at its minimum."""
    return P / (2 * kappa * V) * _in_t(mode_energy().subs(mode, best_mode().subs(t, T)) * 2 * kappa * V / P)


@cache
def mode_evidence() -> sp.Expr:
    """Integrating a mode over its prior N(0, σ_w²) instead gives the same energy (a Gaussian's integral is its maximum
    times its width) and in addition ½ ln(1 + t C), the cost of the prior volume that the data rule out.
    """
    a, b = sp.symbols("a b", positive=True)
    gaussian = sp.integrate(sp.exp(-a * mode**2 / 2 + b * mode), (mode, -sp.oo, sp.oo))
    second, first = sp.diff(mode_energy(), mode, 2), -sp.diff(mode_energy(), mode).subs(mode, 0)
    integral = gaussian.subs({a: second, b: first}, simultaneous=True) / sp.sqrt(2 * sp.pi * sigma_w**2)
    energy = -sp.expand_log(sp.log(integral), force=True)
    width = sp.log(1 + t * curvature) / 2
    require_equal(energy, (mode_minimum() + width).subs(t, T), "the Gaussian integral is minimum plus width")
    return mode_minimum() + width


def data_action(s: sp.Expr = s, s2: sp.Expr = s2, g: sp.Expr = g, q: sp.Expr = q, delta: sp.Expr | int = 0) -> sp.Expr:
    """Add the modes up. Rows along the constant direction: one mode with source s, V in all, curvature s₂. Rows in the
    bulk: V − 1 modes with source g, V(V − 1) in all, curvature q. The target adds P/(2κ) E|y|² = P/(2κV) [1 + (V − 1)].
    """
    bracket = 1 + mode_minimum() * 2 * kappa * V / P
    constant = bracket.subs({source: s, curvature: s2}, simultaneous=True)
    bulk = bracket.subs({source: g, curvature: q}, simultaneous=True)
    data = P / (2 * kappa * V) * (constant + (V - 1) * bulk)
    if delta == 0:
        return data
    width = mode_evidence() - mode_minimum()
    return data + delta * (V * width.subs(curvature, s2) + V * (V - 1) * width.subs(curvature, q))


def loss(s: sp.Expr = s, s2: sp.Expr = s2, g: sp.Expr = g, q: sp.Expr = q) -> sp.Expr:
    """The loss per position at the best W is the bracket of the energy without the prior of W."""

    def share(overlap: sp.Expr, norm: sp.Expr) -> sp.Expr:
        amplitude = best_mode().subs({source: overlap, curvature: norm}, simultaneous=True)
        return 1 - 2 * amplitude * overlap + amplitude**2 * norm

    return (share(s, s2) + (V - 1) * share(g, q)) / V


def _in_t(expression: sp.Expr) -> sp.Expr:
    return sp.factor(sp.simplify(expression.subs(P, t * kappa * V / sigma_w**2)))


def _steps() -> tuple[Step, ...]:
    collected, target = vocabulary.collected_moment(), vocabulary.target_moment()
    if (V * collected.bulk, V * collected.constant, V * target.bulk, V * target.constant) != (q, s2, g, s):
        raise AssertionError("curvatures and sources aren't V times the moments")
    energy, best = named("U_w", "U_w"), named("w*", "w^*")
    return (
        Step.of(mode_energy, sp.Eq(energy, mode_energy())),
        Step.of(best_mode, sp.Eq(best, best_mode()), sp.Eq(t, T)),
        Step.of(mode_minimum, sp.Eq(named("min U_w", r"\min_w U_w"), mode_minimum())),
        Step.of(mode_evidence, sp.Eq(named("-ln Z_w", r"-\ln Z_w"), mode_evidence())),
        Step.of(data_action, sp.Eq(named("Phi", r"\Phi"), data_action(delta=delta_post))),
        Step.of(loss, sp.Eq(named("loss", r"\mathrm{loss}"), loss())),
    )


DERIVATION = Derivation("evidence", "Integrate the readout out: the data part of the action", "2", _steps)
