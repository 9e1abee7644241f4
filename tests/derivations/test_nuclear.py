"""Closed forms of the jumps under the nuclear norm, against the numeric theory."""

import numpy as np
import pytest
import sympy as sp

from phasekit.derivations import nuclear
from phasekit.derivations.symbols import D, L, T, V, kappa, lam, sigma_g, sigma_w, t
from phasekit.model import Model
from phasekit.theory.transitions import find_transitions
from phasekit.theory.transitions.table import parameters_without_P

SCALES = {"sigma_w": 1.3, "sigma_g": 0.7, "kappa": 0.6}


def jumps(**fields):
    return find_transitions(Model(**SCALES, **fields)).values


def formula(expression, model):
    p = parameters_without_P(model)
    r = min(model.key_dim, model.L)
    numbers = {V: model.V, L: model.L, lam: float(p.pooling_cost), nuclear.d: model.key_dim, nuclear.r: r}
    numbers |= {sigma_w: model.sigma_w, sigma_g: model.sigma_g, kappa: model.kappa}
    return float(expression.subs(numbers))


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_pooling_jump_at_large_context(inputs):
    """Corrections are (V − 1)/L², from what pooling gains in the bulk."""
    model = Model(V=2, L=400, score="linear", inputs=inputs, key_dim=400, **SCALES)
    assert jumps(V=2, L=400, score="linear", inputs=inputs, key_dim=400)["P1"] == pytest.approx(
        formula(nuclear.pooling_jump()[1], model), rel=2e-3
    )


@pytest.mark.slow
def test_pooling_jump_is_at_half_of_the_gain_and_its_spinodal_below():
    found = jumps(V=2, L=400, score="linear", key_dim=16)
    strength, _, ratio = nuclear.pooling_jump()
    pooling = found["jumps"][0]
    t_there = pooling["P"] * 1.3**2 / (0.6 * 2)
    assert np.sqrt(t_there) * pooling["jump"]["c1"][1] == pytest.approx(float(strength), rel=2e-3)
    assert pooling["spinodals"][0] / pooling["P"] == pytest.approx(float(ratio), rel=1e-3)


@pytest.mark.slow
def test_copying_jump():
    """What pooling had gained corrects it by about 2/(3V)."""
    for key_dim in (32, 200):
        model = Model(V=60, L=64, score="linear", key_dim=key_dim, **SCALES)
        found = jumps(V=60, L=64, score="linear", key_dim=key_dim)
        last = found["jumps"][-1]
        assert last["to"] == "copying"
        assert last["P"] == pytest.approx(formula(nuclear.copying_jump()[1], model), rel=0.03)


@pytest.mark.slow
def test_copying_within_few_dimensions_needs_the_same_data():
    few, more = (jumps(V=8, L=64, score="linear", key_dim=d)["P2"] for d in (16, 64))
    assert few == pytest.approx(more, rel=0.06)
    assert jumps(V=8, L=64, score="linear", key_dim=256)["P2"] == pytest.approx(more * 4 ** (1 / 3), rel=1e-6)


@pytest.mark.slow
def test_softmax_jump():
    for length, error in ((64, 0.02), (1024, 0.002)):
        fields = {"V": 8, "L": length, "key_dim": length}
        model = Model(**fields, **SCALES)
        explicit, log = nuclear.softmax_jump()
        gap, P = 4.0, 1.0
        for _ in range(500):
            P = formula(explicit.subs(D, gap), model)
            strength = P * 1.3**2 / (0.6 * 8)
            gap = formula(log.subs({D: gap, t: strength}), model)
        assert jumps(**fields)["P_star"] == pytest.approx(P, rel=error)


def test_uniform_attention_is_pinned_up_to_its_spinodal():
    fields = {"V": 8, "L": 40, "key_dim": 64}
    (jump,) = jumps(**fields)["jumps"]
    pull = nuclear.softmax_pinning().subs(t, T)
    P = sp.Symbol("P", positive=True)
    force = formula(pull.subs(P, jump["spinodals"][1]), Model(**fields, **SCALES))
    assert force == pytest.approx(np.sqrt(64) / 0.7 * 39, rel=1e-6)


def test_correction_of_one_entry():
    """H for n = 1: the law of a sum of d products, by quadrature over its characteristic function."""
    d, sigma = 400, 1.0
    J = np.linspace(-12, 12, 20001)
    G = np.linspace(-4, 4, 41)
    density = np.trapezoid((1 + sigma**2 * J**2 / d) ** (-d / 2) * np.cos(np.outer(G, J)), J, axis=1) / (2 * np.pi)
    gaussian = np.exp(-(G**2) / 2) / np.sqrt(2 * np.pi)
    H = sp.lambdify(sp.Symbol("G", real=True), nuclear.finite_dimension().subs(sigma_g, 1))(G)
    np.testing.assert_allclose(4 * d * (density / gaussian - 1), H, atol=0.02 * np.abs(H).max())
