"""First-order transitions and crossovers of softmax attention, against mpmath and a dense line."""

import mpmath
import numpy as np
import pytest

from phasekit.model import Model
from phasekit.scores import Entmax, Sparsemax
from phasekit.theory.action import action_for
from phasekit.theory.closed_forms import closed_forms_of
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions, transition_table
from phasekit.theory.transitions.precision import locate
from phasekit.theory.transitions.table import parameters_without_P


def action(gap, P, V, L):
    """Return S in mpmath, from the averages, at unit variances."""
    t = P / V
    alpha = 1 / (1 + (L - 1) * mpmath.exp(-gap))
    q = alpha**2 + (1 - alpha) ** 2 / (L - 1)
    return P / (2 * V) * (1 - t / (1 + t) + (V - 1) * (1 - t * alpha**2 / (1 + t * q))) + (L - 1) * gap**2 / 2


def numpy_action(gaps, P, V, L):
    t, alpha = P / V, 1 / (1 + (L - 1) * np.exp(-gaps))
    q = alpha**2 + (1 - alpha) ** 2 / (L - 1)
    return P / (2 * V) * (1 - t / (1 + t) + (V - 1) * (1 - t * alpha**2 / (1 + t * q))) + (L - 1) * gaps**2 / 2


def slope(gap, P, V, L, order=1):
    return mpmath.diff(lambda x: action(x, P, V, L), gap, order)


def coexistence(V, L, guess):
    """Solve S'(a) = S'(b) = 0, S(a) = S(b) at 30 digits."""
    with mpmath.workdps(30):
        return mpmath.findroot(
            lambda a, b, P: [slope(a, P, V, L), slope(b, P, V, L), (action(a, P, V, L) - action(b, P, V, L)) / P], guess
        )


@pytest.mark.parametrize(
    ("L", "P_star", "alphas"), [(64, 823.01, (0.0180, 0.1699)), (1024, 27022, None), (32, None, None)]
)
def test_jump_solves_the_coexistence_equations(L, P_star, alphas):
    found = find_transitions(Model(V=8, L=L, score="softmax"))
    assert found.order == "first"
    low, high = (np.array(found.values["jump"]["aG"]) * (1 - 1 / L) + 1 / L).tolist()
    gaps = [float(np.log(a / (1 - a) * (L - 1))) for a in (low, high)]
    a, b, P = coexistence(8, L, (*gaps, found.values["P_star"]))
    assert found.values["P_star"] == pytest.approx(float(P), rel=1e-10)
    assert gaps == pytest.approx([float(a), float(b)], rel=1e-8)
    assert abs(float(b - a)) > 0.1  # two different minima
    if P_star is not None:
        assert found.values["P_star"] == pytest.approx(P_star, abs=0.6 if L == 1024 else 0.006)
    if alphas is not None:
        assert (low, high) == pytest.approx(alphas, abs=6e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("L", "window"), [(64, (698.5, 1269.3)), (16, None), (512, None)])
def test_spinodals_solve_the_fold_equations(L, window):
    found = find_transitions(Model(V=8, L=L, score="softmax"))
    if window:
        assert found.values["spinodals"] == pytest.approx(window, abs=0.06)
    for P in found.values["spinodals"]:
        gaps = np.linspace(0.01, 12, 2000)
        start = min(
            gaps, key=lambda gap, P=P: abs(slope(gap, P, 8, L)) / (L - 1) + abs(slope(gap, P, 8, L, 2)) / (L - 1)
        )
        with mpmath.workdps(25):
            _, exact = mpmath.findroot(
                lambda x, Q: [slope(x, Q, 8, L) / L, slope(x, Q, 8, L, 2) / L], (start, P), tol=1e-18
            )
        assert float(exact) == pytest.approx(P, rel=1e-9)


@pytest.mark.parametrize("L", [14, 64, 4096])
def test_both_minima_are_found_right_up_to_the_spinodals(L):
    """A millionth inside the window there are two minima, a millionth outside there is one."""
    model = Model(V=8, L=L, score="softmax")
    low, high = find_transitions(model).values["spinodals"]
    P = [low * (1 - 1e-6), low * (1 + 1e-6), high * (1 - 1e-6), high * (1 + 1e-6)]
    minima = find_minima(model.grid(P=P))
    assert minima.count.tolist() == [1, 2, 2, 1]
    assert minima.converged.sum(axis=1).tolist() == [1, 2, 2, 1]


def test_barrier_is_the_height_of_the_hill_on_a_dense_line():
    found = find_transitions(Model(V=8, L=64, score="softmax"))
    gaps = np.linspace(0.0, 10.0, 4001)
    values = np.array([float(action(gap, found.values["P_star"], 8, 64)) for gap in gaps])
    low = values[gaps < 1].min()
    high = values[gaps > 1].min()
    top = values[(gaps > gaps[values.tolist().index(low)]) & (gaps < gaps[values.tolist().index(high)])].max()
    assert found.values["barrier"] == pytest.approx(top - low, rel=1e-3)
    assert found.values["barrier"] == pytest.approx(18.05, abs=0.006)
    assert low == pytest.approx(high, abs=1e-2)


@pytest.mark.parametrize(("V", "longest_smooth", "shortest_jump"), [(8, 13, 14), (64, 8, 9)])
def test_critical_length(V, longest_smooth, shortest_jump):
    """Two minima on a very dense line from a critical length on, whatever the width of the window."""
    gaps = np.linspace(0, 8, 100_001)

    def most_minima(L, window):
        values = [np.array(numpy_action(gaps, P, V, L)) for P in window]
        return max(int(np.sum((v[1:-1] < v[:-2]) & (v[1:-1] < v[2:]))) for v in values)

    smooth, jump = (find_transitions(Model(V=V, L=L)) for L in (longest_smooth, shortest_jump))
    assert smooth.order == "crossover"
    assert most_minima(longest_smooth, smooth.values["P_x"] * np.linspace(0.8, 1.25, 400)) == 1
    assert jump.order == "first"
    assert most_minima(shortest_jump, [jump.values["P_star"]]) == 2


def test_steepest_point_of_the_crossover():
    """Against the largest slope of ln g over ln P on a dense line of global minima."""
    model = Model(V=8, L=8, score="softmax")
    P = np.geomspace(5, 500, 4001)
    g = find_minima(model.grid(P=P)).averages["g"][:, 0]
    steepest = P[np.gradient(np.log(g), np.log(P)).argmax()]
    assert find_transitions(model).values["P_x"] == pytest.approx(steepest, rel=3e-3)


def test_scaled_variances_only_rescale():
    """With the prior of G widened by c and P/κ fixed the logits scale: P*(σ_g) follows from the exact symmetry in W."""
    base = find_transitions(Model(V=8, L=64)).values["P_star"]
    # (P, σ_w, κ) enter as P/κ and P σ_w²/κ only.
    assert find_transitions(Model(V=8, L=64, kappa=3.0)).values["P_star"] == pytest.approx(3 * base, rel=1e-10)


def test_table_agrees_with_single_models():
    table = transition_table(Model(V=8, L=2, score="softmax").grid(L=[8, 14, 64]))
    for L in (8, 14, 64):
        alone = find_transitions(Model(V=8, L=L, score="softmax"))
        row = table.sel(L=L)
        if alone.order == "first":
            assert float(row["P_star"]) == pytest.approx(alone.values["P_star"], rel=1e-10)
            assert row["spinodals"].to_numpy() == pytest.approx(alone.values["spinodals"], rel=1e-10)
        else:
            assert np.isnan(row["P_star"])
            assert float(row["P_x"]) == pytest.approx(alone.values["P_x"], rel=1e-6)


@pytest.mark.parametrize(
    ("score", "V", "L"),
    [
        ("sparsemax", 10**8, 64),
        ("sparsemax", 10**10, 128),
        (Entmax(alpha=2.0), 10**8, 64),
        (Entmax(alpha=2.5), 10**7, 64),
    ],
    ids=str,
)
def test_a_rise_that_ends_in_the_kink_is_steepest_there(score, V, L):
    """With a wide vocabulary all the weight is on the copy entry from P_x on; before, g falls ever faster."""
    model = Model(V=V, L=L, score=score, sigma_w=0.9, sigma_g=1.2, kappa=1.5)
    found = find_transitions(model)
    P_x = found.values["P_x"]
    assert found.order == "crossover"
    g = find_minima(model.grid(P=[P_x * by for by in (0.996, 0.998, 1 - 1e-5, 1 + 1e-5, 1.1)])).averages["g"][:, 0]
    first, second, *_ = np.diff(np.log(g))
    assert second > first > 0
    assert g[1] < g[2] < 1 - 1e-5
    np.testing.assert_allclose(g[3:], 1, rtol=1e-14)


def test_the_steepest_point_of_sparsemax_moves_into_the_kink_without_a_step():
    P = transition_table(Model(V=8, L=64, score="sparsemax").grid(V=[10**7, 2 * 10**7, 3 * 10**7, 10**8]))["P_x"]
    form = closed_forms_of("P_x", Sparsemax())["any_regime"]
    ratio = P.to_numpy() / form(parameters_without_P(Model(V=8, L=64, score="sparsemax").grid(V=P.V.to_numpy())))
    np.testing.assert_allclose(ratio, 1, atol=2e-3)


@pytest.mark.parametrize("score", ["softmax", "temperature", Entmax(alpha=1.5)], ids=str)
@pytest.mark.parametrize("missing", ["V", "L", "sigma_w", "sigma_g", "kappa"])
def test_a_missing_number_has_no_transition_and_leaves_others_alone(score, missing):
    """The search for the end of the curve must end for it too."""
    model = Model(V=8, L=64, score=score)
    action, p = action_for(model, "map"), parameters_without_P(model).ravel()
    two = p.with_numbers([np.repeat(number, 2) for number in p.numbers])
    found = locate(action, two.replace(**{missing: [np.nan, getattr(p, missing)[0]]}))
    alone = locate(action, p)
    assert found.pop("failed").tolist() == [True, False]
    for name, values in found.items():
        assert np.isnan(values[0]).all(), name
        np.testing.assert_array_equal(values[1], alone[name][0])


@pytest.mark.parametrize("score", ["softmax", "sparsemax", Entmax(alpha=2.5)], ids=str)
def test_the_steepest_point_does_not_hang_on_last_digits(score):
    """Numbers that are shifted by 1e-13 stand for those that another processor rounds differently."""
    shifts = (1 - 1e-13, 1.0, 1 + 1e-13, 1 + 3e-13)
    P = [
        find_transitions(Model(V=8, L=8, score=score, sigma_w=x, sigma_g=1 / x, kappa=x**2)).threshold("P_x")
        for x in shifts
    ]
    np.testing.assert_allclose(P, P[0], rtol=1e-10)
