"""Closed forms of every score's threshold: which there are, where they hold, and how they hang together."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.scores import SSA, Entmax, Linear, Mixture, Softmax, Sparsemax, TemperatureSoftmax
from phasekit.theory.closed_forms import closed_forms_of, regime_laws
from phasekit.theory.scaling import compare_laws, scaling_law
from phasekit.theory.transitions import transition_table
from phasekit.theory.transitions.table import parameters_without_P

LENGTHS = 2.0 ** np.arange(6, 21, 7)


def numbers(score, V=8, L=LENGTHS, **scales):
    return parameters_without_P(Model(V=V, L=2, score=score, **scales).grid(L=L))


def form(score, name="any_regime", quantity="P_star"):
    return closed_forms_of(quantity, score)[name]


def test_forms_belong_to_scores():
    assert set(closed_forms_of("P1", Linear())) == {"exact", "large_L"}
    assert closed_forms_of("P_star", Linear()) == {}
    assert closed_forms_of("P1", Softmax()) == {}
    assert set(closed_forms_of("P_star", Softmax())) == {"self_consistent", "any_regime", "L_ln2_L"}
    assert set(closed_forms_of("P_star", SSA())) == {"any_regime", *regime_laws(SSA())}
    assert set(closed_forms_of("P_x", Sparsemax())) == {"any_regime", "leading"}
    assert closed_forms_of("P_star", Sparsemax()) == closed_forms_of("P_x", Softmax()) == {}
    assert closed_forms_of("P_star", Mixture(scores=(Softmax(), SSA()))) == {}
    with pytest.raises(InputError, match="P1, P2, P_star, P_x"):
        closed_forms_of("P3", Softmax())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("score", "V", "errors"),
    [
        (SSA(n=2, b=1), 8, (np.nan, 3e-4, 2e-6)),
        (SSA(n=4, b=0.25), 8, (4e-2, 2e-4, 2e-6)),
        (Entmax(alpha=1.5), 8, (8e-3, 1e-5, 2e-8)),
        (Softmax(), 10**8, (2e-4, 1e-7, 1e-9)),
        (Entmax(alpha=1.5), 10**8, (2e-4, 1e-6, 1e-9)),
        (SSA(n=1, b=1), 10**8, (4e-3, 2e-6, 4e-7)),
    ],
    ids=str,
)
def test_jump_of_the_action(score, V, errors):
    """P* from a search along the stationary points of the action, which shares nothing with the closed form."""
    P = transition_table(Model(V=V, L=2, score=score).grid(L=LENGTHS))["P_star"].to_numpy()
    found = P / form(score)(numbers(score, V)) - 1
    assert np.isfinite(P).all()
    for error, bound in zip(found, errors, strict=True):
        assert np.isnan(error) if np.isnan(bound) else -1e-9 < error < bound


def test_no_jump_no_closed_form():
    """SSA with n = 1 jumps only where data are scarce; α-entmax with α ≥ 2 never."""
    assert np.isnan(form(SSA(n=1, b=1))(numbers(SSA(n=1, b=1)))).all()
    for alpha in (2.0, 2.5):
        for each in closed_forms_of("P_star", Entmax(alpha=alpha)).values():
            assert np.isnan(each(numbers(Entmax(alpha=alpha)))).all()


def test_the_form_of_a_jump_ends_before_the_jump_does():
    """Softmax at V = 8 jumps from L = 14 on; the closed form, which drops the lower minimum, from L = 26."""
    lengths = np.array([13, 14, 25, 26])
    jumps = transition_table(Model(V=8, L=2).grid(L=lengths))["P_star"].to_numpy()
    np.testing.assert_array_equal(np.isfinite(jumps), lengths > 13)
    closed = form(Softmax())(numbers(Softmax(), L=lengths.astype(float)))
    np.testing.assert_array_equal(np.isfinite(closed), lengths > 25)
    assert 0.9 < closed[-1] / jumps[-1] < 1


def test_laws_are_missing_where_the_sharpness_excludes_them():
    known = {
        n: {name for name, law in regime_laws(SSA(n=n)).items() if np.isfinite(law(numbers(SSA(n=n)))).all()}
        for n in (1, 1.5, 2, 4)
    }
    assert known == {
        1: {"wide_vocabulary_pair", "scarce_data"},
        1.5: {"long_context", "wide_vocabulary", "wide_vocabulary_pair", "scarce_data"},
        2: {"long_context", "wide_vocabulary", "scarce_data"},
        4: {"long_context", "wide_vocabulary", "scarce_data"},
    }


def test_temperature_divides_the_prior():
    warm, cold = TemperatureSoftmax(T=2.5), Softmax()
    for name, each in closed_forms_of("P_star", warm).items():
        same = form(cold, name)(numbers(cold, sigma_g=0.4))
        np.testing.assert_allclose(each(numbers(warm)), same, rtol=1e-12)


def test_ssa_becomes_softmax_and_entmax_too():
    softmax = form(Softmax())(numbers(Softmax()))
    for n in (300, 3000):
        near = form(SSA(n=n, b=1 / n))(numbers(SSA(n=n, b=1 / n)))
        np.testing.assert_allclose(near, softmax, rtol=30 / n)
    near = form(Entmax(alpha=1.001))(numbers(Entmax(alpha=1.001)))
    np.testing.assert_allclose(near, softmax, rtol=0.02)


@pytest.mark.parametrize("score", [Softmax(), SSA(n=3, b=0.7), Entmax(alpha=1.4)], ids=str)
def test_scales_enter_as_the_model_says(score):
    """κ is a factor of P*."""
    each = form(score)
    base = each(numbers(score, sigma_w=0.7, sigma_g=1.3))
    np.testing.assert_allclose(each(numbers(score, sigma_w=0.7, sigma_g=1.3, kappa=2.5)), 2.5 * base, rtol=1e-10)


@pytest.mark.slow
def test_scaling_of_other_scores():
    law = scaling_law(Model(V=8, L=2, score=SSA(n=4, b=1)), "P_star", "L", 2.0 ** np.arange(8, 21, 3))
    assert compare_laws(law)[0].law == "any_regime"
    steep = scaling_law(Model(V=8, L=2, score="sparsemax"), "P_x", "L", [256, 512, 1024, 2048, 4096])
    np.testing.assert_allclose(steep["P_x"] / steep["closed_leading"], 1, atol=0.02)
    mixed = Mixture(scores=(Softmax(), SSA(n=4, b=1)))
    plain = scaling_law(Model(V=8, L=2, score=mixed), "P_star", "L", [256, 512, 1024, 2048, 4096])
    assert [fit.law for fit in compare_laws(plain)] == ["power law"]
