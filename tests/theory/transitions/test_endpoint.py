"""The endpoint of a first-order line: against the three conditions of a cusp in 40 digits, and known values."""

import mpmath
import numpy as np
import pytest
import sympy as sp

from phasekit import InputError, Model
from phasekit.theory.transitions import Family, critical_endpoint, critical_exponents, find_transitions

SSA = {"name": "ssa", "n": 2.0, "b": 1.0}


def cusp(V, L, start):
    """Solve ∇S = 0, H w = 0, D³S[w, w, w] = 0 for SSA with b = 1, unit variances, in (u, v, P, n) and w = (1, ω)."""
    u, v, P, n, omega = sp.symbols("u v P n omega")
    t, R = P / V, (1 + u) ** n * (1 - v) ** n  # v < 0: f(u)/f(v)
    alpha = R / (R + L - 1)
    q = alpha**2 + (1 - alpha) ** 2 / (L - 1)
    S = P * (V - 1) / (2 * V) * (1 - t * alpha**2 / (1 + t * q)) + sp.Rational(L, 2) * (u**2 + (L - 1) * v**2)

    def along(f):
        return sp.diff(f, u) + omega * sp.diff(f, v)

    conditions = [sp.diff(S, u), sp.diff(S, v), along(sp.diff(S, u)), along(sp.diff(S, v)), along(along(along(S)))]
    with mpmath.workdps(40):
        equations = sp.lambdify((u, v, P, n, omega), conditions, "mpmath", cse=True)
        return mpmath.findroot(equations, start, tol=1e-50)


@pytest.mark.slow
@pytest.mark.parametrize(("L", "known"), [(64, 1.872), pytest.param(128, 1.585, marks=pytest.mark.nightly)])
def test_a_cusp_in_forty_digits(L, known):
    found = critical_endpoint(Model(V=8, L=L, score=SSA), Family("n", (1.1, 4)))
    n, P = float(found["n"]), float(found["P"])
    assert n == pytest.approx(known, abs=1e-3)
    alpha = float(found["aG"]) * (1 - 1 / L) + 1 / L
    ratio = (alpha * (L - 1) / (1 - alpha)) ** (1 / n)
    u = ratio - 1
    exact = cusp(8, L, [u, -u / L, P, n, -1 / L])
    assert n == pytest.approx(float(exact[3]), rel=1e-10)
    assert pytest.approx(float(exact[2]), rel=1e-8) == P
    assert abs(float(found["softest"])) < 1e-10
    assert abs(float(found["tilt"])) < 1e-5


def test_softmax_jumps_from_length_14_on():
    found = critical_endpoint(Model(V=8, L=64), Family("L", (4, 64)))
    assert 13 < float(found["L"]) < 14
    assert find_transitions(Model(V=8, L=13)).order == "crossover"
    assert find_transitions(Model(V=8, L=14)).order == "first"


def test_temperature_moves_the_endpoint_as_a_change_of_the_prior_does():
    hot = critical_endpoint(Model(V=8, L=64, score={"name": "temperature", "T": 2.0}), Family("L", (4, 64)))
    assert float(hot["L"]) == pytest.approx(
        float(critical_endpoint(Model(V=8, L=64, sigma_g=0.5), Family("L", (4, 64)))["L"]), rel=1e-9
    )


@pytest.mark.slow
def test_numbers_that_move_together():
    """b = 1/n, where SSA becomes softmax as n grows: above the endpoint first order, below a crossover."""
    tied = Family("n", (1.2, 40), line=lambda n: {"n": n, "b": 1 / n})
    n = float(critical_endpoint(Model(V=8, L=64, score=SSA), tied)["n"])
    for factor, order in ((0.99, "crossover"), (1.01, "first")):
        score = {"name": "ssa", "n": factor * n, "b": 1 / (factor * n)}
        assert find_transitions(Model(V=8, L=64, score=score)).order == order


def test_no_endpoint_between():
    found = critical_endpoint(Model(V=8, L=64, score=SSA).grid(L=[16, 64]), Family("n", (2.0, 3.0)))
    assert np.isnan(found["n"]).all()


@pytest.mark.parametrize(
    ("model", "family", "what"),
    [
        (Model(V=8, L=64, score="linear"), Family("L", (4, 64)), "no line"),
        (Model(V=8, L=64, score=SSA), Family("T", (0.5, 2)), "must be one of"),
        (Model(V=8, L=64, score=SSA), Family("P", (1, 2)), "must be one of"),
        (Model(V=8, L=64, score=SSA), Family("n", (3, 2)), "increasing"),
        (Model(V=8, L=64, score=SSA), Family("L", (4, np.inf)), "increasing"),
        (Model(V=8, L=64, score=SSA), Family("n", (0.5, 2)), "of at least 1"),
        (Model(V=8, L=64, score=SSA), Family("L", (1, 64)), "at least 2"),
    ],
)
def test_refusals(model, family, what):
    with pytest.raises(InputError, match=what):
        critical_endpoint(model, family)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "family"),
    [(Model(V=8, L=64, score=SSA), Family("n", (1.2, 4))), (Model(V=8, L=64), Family("L", (6, 40)))],
)
def test_exponents_are_those_of_mean_field_theory(model, family):
    along, across = critical_exponents(model, family)
    assert along.exponent == pytest.approx(1 / 2, abs=1e-3)
    assert across.exponent == pytest.approx(1 / 3, abs=1e-3)
    assert max(along.drift, across.drift) < 1e-3
