"""Laws of P*: against two minima of equal action found without any derivation, over 4.8 decades of L per regime."""

import functools
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from figures.scores._score_laws import CASES, models_in_regime
from phasekit.derivations.proof import NotProven
from phasekit.derivations.score_laws import entmax, limits, ssa
from phasekit.derivations.symbols import L as L_symbol
from phasekit.derivations.symbols import V as V_symbol
from phasekit.model import Model
from phasekit.scores import SSA, Entmax
from phasekit.theory.action.generated import score_laws
from phasekit.theory.closed_forms import any_regime, price_of, regime_laws
from phasekit.theory.closed_forms.jump import _coordinate
from phasekit.theory.transitions.table import parameters_without_P
from tests.derivations.two_level_jump import entmax_jump, mp, ssa_jump

LENGTHS = 2.0 ** np.arange(8, 25, 4)
JUMPS = [case for case in CASES if isinstance(case.score, SSA | Entmax)]
NAMES = [f"{case.name}, {case.regime}" for case in JUMPS]


def model(score, V, L, inputs="positional", **scales):
    return parameters_without_P(Model(V=V, L=L, score=score, inputs=inputs, **scales)).ravel()


def reference(score, p):
    """P* of one model by Newton's method in 50 digits, and (N + t)/(L(L + t)) at the closed form's upper minimum."""
    price = price_of(score)
    coordinate = _coordinate(price, p)
    x, D, _ = (float(each[0]) for each in price.cheapest(coordinate, p))
    V, L, sigma_w, sigma_g, kappa, lam = (
        float(each)
        for each in (p.V.item(), p.L.item(), p.sigma_w.item(), p.sigma_g.item(), p.kappa.item(), p.pooling_cost.item())
    )
    P = float(any_regime(price)(p)[0])
    scales = {"sigma_w": sigma_w, "sigma_g": sigma_g, "kappa": kappa}
    if isinstance(score, SSA):
        u = np.expm1(coordinate / score.n) / score.b
        start = (P, float(u[0]), -float(score_laws.ssa_depth(u, p.L, p.pooling_cost, score.b)[0]))
        found = ssa_jump(score.n, score.b, V, L, lam, start, **scales)
    else:
        found = entmax_jump(score.alpha - 1, V, L, (P, 1 / (1 + x)), **scales)
    t = P * sigma_w**2 / (kappa * V)
    return found.P, D * x * (1 + x * (1 + t / (L - 1))) / (L * (L + t))


@functools.cache
def followed(index):
    """Models of a case at all lengths, their P*, and the order of what the closed form drops."""
    p = models_in_regime(JUMPS[index], LENGTHS).ravel()
    exact, dropped = zip(*(reference(JUMPS[index].score, p[k : k + 1]) for k in range(LENGTHS.size)), strict=True)
    return p, np.array(exact), np.array(dropped)


@pytest.mark.parametrize("index", range(len(JUMPS)), ids=NAMES)
def test_closed_form_errs_by_what_it_drops(index):
    """Above it, by the gain at the lower minimum: 1/2 (t ≪ 1) to 1 (t ≫ L) times its share, plus higher orders."""
    p, exact, dropped = followed(index)
    error = exact / JUMPS[index].closed(p) - 1
    resolved = error > 1e-12
    assert resolved[:3].all()
    ratio = (error / dropped)[resolved]
    assert np.all((ratio > 0.4) & (ratio < 2.5))
    assert ratio[-1] < 1.05


@pytest.mark.parametrize("index", range(len(JUMPS)), ids=NAMES)
def test_law_is_approached(index):
    p, exact, _ = followed(index)
    off = np.abs(exact / JUMPS[index].leading(p) - 1)
    assert np.all(off[1:] < off[:-1])
    slow = {
        ("SSA n = 4", "long_context"): 0.22,
        ("SSA n = 4", "wide_vocabulary"): 0.06,
        ("SSA n = 1", "wide_vocabulary"): 0.08,
    }
    assert off[-1] < slow.get((JUMPS[index].name, JUMPS[index].regime), 0.035)


@pytest.mark.parametrize(
    ("name", "regime", "power"),
    [
        ("SSA n = 2", "long_context", 1 / 4),
        ("SSA n = 4", "long_context", 1 / 8),
        ("1.5-entmax", "long_context", 1 / 4),
        ("SSA n = 4", "scarce_data", 1 / 4),
        ("1.5-entmax", "wide_vocabulary", 3 / 8),
    ],
)
def test_orders_that_the_laws_drop(name, regime, power):
    """L^(−1/(2n)) and L^(−1/(2m)) for t ≫ L, L^(−1/n) for t ≪ 1, (t/L²)^(1/(2m)) at t = √L."""
    (case,) = (each for each in JUMPS if (each.name, each.regime) == (name, regime))
    L = 2.0 ** np.array([36.0, 40.0])
    p = models_in_regime(case, L)
    off = np.abs(case.closed(p) / case.leading(p) - 1)
    assert np.log(off[0] / off[1]) / np.log(16) == pytest.approx(power, rel=0.1)


def symbolic_laws():
    """Law by score kind and name, and its numbers at the scores of the cases."""
    n, m = ssa.n, entmax.m
    return {
        ("SSA n = 4", "long_context"): (ssa.long_context(), {n: 4}),
        ("SSA n = 2", "long_context"): (ssa.long_context(), {n: 2}),
        ("SSA n = 4", "wide_vocabulary"): (ssa.wide_vocabulary(), {n: 4}),
        ("SSA n = 2", "wide_vocabulary"): (ssa.wide_vocabulary(), {n: 2}),
        ("SSA n = 1", "wide_vocabulary"): (ssa.wide_vocabulary_pair(), {n: 1}),
        ("SSA n = 4", "scarce_data"): (ssa.scarce_data(), {n: 4}),
        ("SSA n = 2", "scarce_data"): (ssa.marginal()[1], {}),
        ("SSA n = 1", "scarce_data"): (ssa.scarce_data_pair(), {n: 1}),
        ("1.5-entmax", "long_context"): (entmax.long_context(), {m: 2}),
        ("1.5-entmax", "wide_vocabulary"): (entmax.wide_vocabulary(), {m: 2}),
        ("1.5-entmax", "scarce_data"): (entmax.full_copy()[1], {m: 2}),
        ("sparsemax", "wide_vocabulary"): (entmax.sparsemax()[1], {}),
        ("sparsemax", "scarce_data"): (entmax.sparsemax()[1], {}),
    }


def test_exponents_in_words_are_those_of_the_laws():
    laws = symbolic_laws()
    assert laws.keys() == {(case.name, case.regime) for case in CASES if case.name != "softmax"}
    for case in CASES:
        if case.name == "softmax":
            continue
        law, numbers = laws[case.name, case.regime]
        law = law.subs(numbers)
        powers = [sp.limit(sp.simplify(z * sp.diff(law, z) / law), z, sp.oo) for z in (L_symbol, V_symbol)]
        assert powers == [sp.Rational(words) for words in case.exponents]


def test_one_level_alone_would_be_wrong_for_small_n():
    """n = 1.5, t ≪ 1: the others' help makes L^(3/4 + 1/(2n)) = L^1.083 of L^(1/2 + 1/n) = L^1.167."""
    score = SSA(n=1.5, b=1)
    P = [reference(score, model(score, 10**9, 2**k, sigma_w=1e-8))[0] for k in (22, 24)]
    slope = np.log(P[1] / P[0]) / np.log(4)
    assert slope == pytest.approx(0.75 + 1 / 3, abs=0.02)
    last = model(score, 10**9, 2**24, sigma_w=1e-8)
    law = regime_laws(score)["scarce_data"](last)
    alone = score_laws.ssa_scarce(last.V, last.L, last.sigma_w, last.sigma_g, last.kappa, 1.5, 1.0)
    assert P[1] / law[0] == pytest.approx(1, abs=0.12)
    assert P[1] < 0.4 * alone[0]


def test_linear_tails_jump_if_data_are_not_plenty():
    """n = 1: (1 + W)⁴ = 1 + L/t and P* = κV/(V−1) L²(1 + 2W)²/(bσ_g)², where t ≪ L^(3/2)."""
    score, L = SSA(n=1, b=1), 2.0**40
    form = any_regime(price_of(score))
    P = form(model(score, 8, 2**40).replace(sigma_w=[1e-6]))[0]
    W = (1 + L / (P * 1e-12 / 8)) ** 0.25 - 1
    assert 0.1 < W < 100
    assert pytest.approx(8 / 7 * L**2 * (1 + 2 * W) ** 2, rel=1e-3) == P
    assert np.isnan(form(model(score, 8, 2**40))).all()  # t ~ L²/8


def test_free_mean_doubles_n_and_halves_b():
    tokens, L = SSA(n=2, b=1), 2**12
    exact, dropped = reference(tokens, model(tokens, 8, L, "token+position"))
    closed = any_regime(price_of(tokens))
    assert exact / closed(model(tokens, 8, L, "token+position"))[0] - 1 == pytest.approx(dropped, rel=0.5)
    far = [
        model(SSA(n=n, b=b), 8, 2**50, inputs) for n, b, inputs in ((2, 1, "token+position"), (4, 0.5, "positional"))
    ]
    assert closed(far[0])[0] / closed(far[1])[0] == pytest.approx(1, abs=1e-3)


def test_a_wrong_law_is_not_proven():
    x, n = sp.symbols("x n", positive=True)
    form = (1 + x) ** (1 / n) * n
    limits.require_ratio_to_one(form, n * x ** (1 / n), x, sp.oo, "right")
    for wrong in (2 * n * x ** (1 / n), n * x ** (2 / n), x ** (1 / n)):
        with pytest.raises(NotProven, match="wrong"):
            limits.require_ratio_to_one(form, wrong, x, sp.oo, "wrong")
    limits.require_same_product((2 * x) ** n * x**2, 2**n * x ** (n + 2), "right")
    with pytest.raises(NotProven, match="wrong"):
        limits.require_same_product((2 * x) ** n * x**2, 2**n * x ** (2 * n), "wrong")


def test_prices_in_fifty_digits():
    rng = np.random.default_rng(3)
    L, V = 10 ** rng.uniform(0.5, 7, 200), 10 ** rng.uniform(0.5, 9, 200)
    lam = np.where(rng.random(200) < 0.5, L**2, (V * L / (V + L)) ** 2)
    n, b, k = rng.uniform(1, 8, 200), 10 ** rng.uniform(-2, 1, 200), rng.uniform(0.05, 2, 200)
    u, delta = 10 ** rng.uniform(-3, 4, 200), rng.uniform(0.01, 60, 200)
    w = score_laws.ssa_depth(u, L, lam, b)
    ssa_found = (w, *score_laws.ssa_price(u, w, L, lam, 1.0, n, b))
    entmax_found = score_laws.entmax_price(delta, L, 1.0, k)
    for i in range(L.size):
        ell, cost, N, B, U, K, odds = (mp.mpf(float(z[i])) for z in (L, lam, n, b, u, k, delta))

        def force(depth, ell=ell, cost=cost, B=B, U=U):
            """∂C/∂u δ_w − ∂C/∂w δ_u of the prior cost in gap and mean."""
            gap, mean = U + depth, (U - (ell - 1) * depth) / ell
            on_u, on_w = (ell - 1) * gap + cost * mean / ell, (ell - 1) * gap - cost * mean * (ell - 1) / ell
            return on_u * (1 + B * U) - on_w * (1 + B * depth)

        depth = mp.findroot(force, (mp.mpf(float(w[i])), mp.mpf(float(w[i])) * (1 + mp.mpf(10) ** -9)))
        gap, mean = U + depth, (U - (ell - 1) * depth) / ell
        log_odds = N * (mp.log(1 + B * U) + mp.log(1 + B * depth))
        elastic = N * (B * U / (1 + B * U) + B * depth / (1 + B * depth))
        wanted = (depth, log_odds, elastic, (ell - 1) * gap**2 + cost * mean**2)

        def needed(odds, ell=ell, K=K):
            """The gap from both weights."""
            copy = 1 / (1 + (ell - 1) * mp.exp(-odds))
            return (copy**K - ((1 - copy) / (ell - 1)) ** K) / K

        wanted += (needed(odds) / mp.diff(needed, odds), (ell - 1) * needed(odds) ** 2)
        found = [each[i] for each in (*ssa_found, *entmax_found)]
        for value, want in zip(found, wanted, strict=True):
            assert abs(mp.mpf(float(value)) / want - 1) < 1e-11


def test_exponents_on_the_page_are_those_of_the_laws():
    page = (Path(__file__).parents[2] / "docs" / "score_theories.md").read_text("utf-8")
    section = page.split("\n## What it costs in samples")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "$ | `" in line]
    found = {(score, regime): [sp.sympify(cell.split("`")[1]) for cell in (L, V)] for score, regime, L, V, *_ in rows}
    n, m = sp.symbols("n m")
    laws = {
        ("SSA, n > 1", r"$t \gg L$"): ssa.long_context(),
        ("SSA, n > 1", r"$1, L^{2-n} \ll t \ll L$"): ssa.wide_vocabulary(),
        ("SSA, n < 2", r"$1 \ll t \ll L^{2-n}$"): ssa.wide_vocabulary_pair(),
        ("SSA, n > 2", r"$t \ll 1$"): ssa.scarce_data(),
        ("SSA, n < 2", r"$t \ll 1$"): ssa.scarce_data_pair(),
        ("α-entmax, m > 1", r"$t \gg L$"): entmax.long_context(),
        ("α-entmax, m > 1", r"$m - 1 < t \ll L$"): entmax.wide_vocabulary(),
        ("α-entmax, m > 1", r"$t \ll 1$"): entmax.full_copy()[1],
        (r"sparsemax ($P_\times$)", r"$t \ll L$"): entmax.sparsemax()[1],
    }
    assert laws.keys() == {row for row in found if row[0] != "softmax"}
    for row, law in laws.items():
        powers = [sp.limit(sp.simplify(z * sp.diff(law, z) / law), z, sp.oo) for z in (L_symbol, V_symbol)]
        bare = [power.subs({ssa.n: n, entmax.m: m}) for power in powers]
        assert [sp.simplify(power - words) for power, words in zip(bare, found[row], strict=True)] == [0, 0], row
