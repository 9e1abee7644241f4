"""The verification catches every doctored bound, proves its verdicts, and its adversary finds what chance misses."""

import dataclasses
import math

import numpy as np
import pytest
from mpmath import mp

from phasekit.errors import InputError
from phasekit.saturation import THEOREMS, get_theorem, verify
from phasekit.saturation.adversary import attack
from phasekit.saturation.judge import Verdict, judge
from phasekit.saturation.sampling import draw
from phasekit.saturation.theorem import Point
from phasekit.saturation.theorems import crossover, floor, imbalance, magnification, tail


def at(formula, **changes):
    """The formula with some of its inputs changed: ``at(lower, n=lambda n: n + 0.01)``."""

    def changed(xp, x):
        numbers = {name: changes.get(name, lambda value: value)(x[name]) for name in x.exact}
        return formula(xp, Point(numbers, x.exact))

    return changed


def shifted(formula, by):
    return lambda xp, x: formula(xp, x) + by


def scaled(formula, by):
    return lambda xp, x: formula(xp, x) * by


def doctored(name, **formulas):
    return dataclasses.replace(get_theorem(name), **formulas)


def m_minus_two(xp, x):
    """Theorem 2's upper bound for softmax with m − 2 in place of m − 1 (rows of at least 3 keys)."""
    losers = float(max(x.exact["others"].shape[-1] - 1, 1))
    return imbalance.log_mass(xp, xp.log(xp.lift(np.full((1, 1), losers))) - x["gap"])


def one_winner(xp, x):
    """Theorem 1's upper bound for softmax that forgets ties: m − 1 losers, one winner."""
    losers = float(x.exact["z"].shape[-1] - 1)
    return imbalance.log_mass(xp, magnification._softmax_decay(xp, x) + xp.log(xp.lift(np.full((1, 1), losers))))


def rounded_count(xp, x):
    """Theorem 2's upper bound with ln(m − 1) as a rounded float: off by 1e-17."""
    return imbalance.log_mass(xp, math.log(x.exact["others"].shape[-1]) - x["gap"])


def positive_ratio_only(xp, x):
    """Ratios whose case M < 0 uses |z_j|/|M| upside down."""
    top = x.exact["z"][:, :1]
    right = magnification.closed_ratios(xp, x)
    return xp.where(top < 0, -right, right)


def slower_fall(xp, x):
    """The lower bound of ssa-monotone with exponent 1.9 n in place of 2n."""
    return magnification._ratios(xp, x) - 1.9 * x["n"] * xp.log(x["factor"])


def plus(step):
    return lambda number: number + step


def times(factor):
    return lambda number: number * factor


def formula_of(name, side):
    return get_theorem(name).bound(side)


#: Theorem, what is wrong, and the wrong bounds.
DOCTORED = [
    ("softmax-magnification", "ties forgotten", {"lower": one_winner}),
    ("softmax-magnification", "λ (1 + 1e-6)", {"upper": at(magnification.softmax_upper, lam=times(1 + 1e-6))}),
    ("ssa-ratios", "n + 1e-12", dict.fromkeys(["lower", "upper"], at(magnification.closed_ratios, n=plus(1e-12)))),
    ("ssa-ratios", "case M < 0 upside down", dict.fromkeys(["lower", "upper"], positive_ratio_only)),
    ("ssa-monotone", "exponent 1.9 n", {"lower": slower_fall}),
    ("ssa-limit", "n + 0.01", {"upper": at(magnification.limit_upper, n=plus(0.01))}),
    ("ssa-limit", "n - 0.01", {"lower": at(magnification.limit_lower, n=plus(-0.01))}),
    ("ssa-limit", "2b in the error", {"upper": at(magnification.limit_upper, b=times(2.0))}),
    ("ssa-magnification", "n + 0.01", {"upper": at(magnification.mass_upper, n=plus(0.01))}),
    ("ssa-magnification", "n - 0.01", {"lower": at(magnification.mass_lower, n=plus(-0.01))}),
    ("softmax-floor", "0.999 λ", {"lower": at(floor.softmax_floor, lam=times(0.999))}),
    ("ssa-floor", "factor 2 missing", {"lower": at(floor.ssa_floor, n=times(0.5))}),
    ("softmax-imbalance", "flipped", {"lower": imbalance.softmax_upper, "upper": imbalance.softmax_lower}),
    ("softmax-imbalance", "m - 2", {"upper": m_minus_two}),
    ("softmax-imbalance", "ln(m - 1) rounded", {"upper": rounded_count}),
    ("ssa-imbalance", "n + 0.01", {"upper": at(imbalance.ssa_upper, n=plus(0.01))}),
    ("ssa-imbalance", "n - 0.01", {"lower": at(imbalance.ssa_lower, n=plus(-0.01))}),
    ("ssa-imbalance-uniform", "n in place of 2n", {"upper": at(imbalance.largest_G, n=times(0.5))}),
    ("ssa-tail", "n - 0.01", {"lower": at(formula_of("ssa-tail", "lower"), n=plus(-0.01))}),
    ("ssa-tail", "n + 0.01", {"upper": at(formula_of("ssa-tail", "upper"), n=plus(0.01))}),
    ("ssa-gradient", "n in place of n + 1", {"lower": formula_of("ssa-gradient-others", "lower")}),
    ("ssa-gradient-others", "n + 0.01", {"upper": at(formula_of("ssa-gradient-others", "upper"), n=plus(0.01))}),
    ("softmax-gradient", "a percent", {"lower": shifted(tail.softmax_gradient_lower, 0.01)}),
    ("crossover", "root off by 1e-6", {"upper": at(crossover.advantage_upper, ratio=times(1 + 1e-6))}),
    ("exponential-limit", "1.9 ε", {"upper": scaled(formula_of("exponential-limit", "upper"), 0.95)}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mistake", "wrong"), DOCTORED, ids=[f"{name}: {what}" for name, what, _ in DOCTORED])
def test_a_doctored_bound_is_caught(name, mistake, wrong):
    theorem = doctored(name, **wrong)
    found = verify([theorem], 3000, starts=0)
    broken = [side for side in found if not side.kept]
    if not broken:  # too narrow for chance
        found = verify([theorem], 16, starts=24, steps=60)
        broken = [side for side in found if not side.kept]
    assert {side.side for side in broken} == (wrong.keys() if theorem.sides != ("identity",) else {"identity"})
    verdict = broken[0].worst
    assert verdict.violated
    assert verdict.worst < 0
    slack, inputs = verdict.examples[0]
    assert slack < 0
    assert inputs.keys() == theorem.domain.variables.keys()


@pytest.mark.slow
@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.name)
def test_the_true_bounds_are_kept(theorem):
    for side in verify([theorem], 1500, seed=11, starts=3, steps=15):
        assert side.kept, side
        assert side.random.rows == 1500
        assert side.adversary.rows > 9
        assert side.worst.worst >= 0
        assert 0 <= side.random.typical <= side.worst.tightness <= 1


def test_the_same_seed_finds_the_same_and_another_seed_other_rows():
    def worst(seed, names):
        found = verify([get_theorem(name) for name in names], 500 * len(names), seed, starts=4, steps=5)
        return {side.theorem.name: (side.random.worst, side.adversary.worst) for side in found}

    both = worst(1, ["ssa-tail", "ssa-imbalance-uniform"])
    assert worst(1, ["ssa-imbalance-uniform"])["ssa-imbalance-uniform"] == both["ssa-imbalance-uniform"]
    assert worst(2, ["ssa-imbalance-uniform"])["ssa-imbalance-uniform"] != both["ssa-imbalance-uniform"]


@pytest.mark.slow
def test_the_adversary_finds_what_chance_misses():
    # violated only where c = −Δ/2 to several digits
    narrow = doctored("ssa-imbalance-uniform", upper=at(imbalance.largest_G, n=lambda n: n * (1 - 1e-11)))
    blind = verify([narrow], 4000, seed=3, starts=0)
    assert all(side.kept for side in blind)
    armed = verify([narrow], 100, seed=3, starts=32, steps=80)
    assert [side.side for side in armed if not side.kept] == ["upper"]
    assert armed[1].random.kept
    assert armed[1].adversary.violated


def test_descent_lowers_the_slack():
    theorem, rng = get_theorem("ssa-imbalance-uniform"), np.random.default_rng(0)
    first = attack(theorem, "upper", np.random.default_rng(0), 20, 0)[0]
    last = attack(theorem, "upper", rng, 20, 60)[0]

    def slack(inputs):
        given = {name: values[:, 0] for name, values in inputs.items()}
        return (theorem.bounds(**given)[1] - theorem.evaluate(**given))[:, 0]

    assert np.median(slack(last) / slack(first)) < 1e-3


def test_what_float64_leaves_open_intervals_decide():
    theorem = get_theorem("ssa-imbalance")
    rows = draw(theorem, np.random.default_rng(5), 60, 2)  # two keys: bounds are equalities
    for shift, kept, equal, violated in ((0.0, True, 60, 0), (-1e-25, True, 0, 0), (1e-25, False, 0, 60)):
        lower = theorem.lower if shift == 0 else shifted(theorem.lower, shift)
        verdict = Verdict(dataclasses.replace(theorem, lower=lower), "lower")
        judge(verdict, rows)
        assert (verdict.kept, verdict.equal, verdict.violated) == (kept, equal, violated), shift
        assert verdict.by_intervals == 60
        assert verdict.worst == pytest.approx(-shift, rel=1e-6, abs=1e-60)


def test_an_undecided_point_is_no_pass():
    def of_few_digits(xp, x):
        """The quantity itself, known to 1e-10 only: 80 digits next to 1e200."""
        return imbalance._log_G_by_definition(xp, x) + ((x["c"] + 1e200) - 1e200) * 1e-130

    theorem = doctored("ssa-imbalance-uniform", lower=of_few_digits)
    verdict = Verdict(theorem, "lower")
    judge(verdict, draw(theorem, np.random.default_rng(6), 5, 2))
    assert (verdict.undecided, verdict.equal, verdict.violated) == (5, 0, 0)
    assert not verdict.kept


INFINITE = [("lower", -np.inf, True), ("lower", np.inf, False), ("upper", -np.inf, False), ("upper", np.inf, True)]


@pytest.mark.parametrize(("side", "bound", "kept"), INFINITE)
def test_infinite_bounds_hold_on_their_own_side_only(side, bound, kept):
    theorem = doctored("ssa-floor", **{side: lambda xp, x: xp.lift(np.full((len(x.exact["n"]), 1), bound))})
    verdict = Verdict(theorem, side)
    judge(verdict, draw(theorem, np.random.default_rng(8), 6, 3))
    assert (verdict.kept, verdict.violated) == (kept, 0 if kept else 6)


def test_worst_slack_is_the_smallest_in_exact_arithmetic():
    theorem = get_theorem("ssa-floor")
    rows = draw(theorem, np.random.default_rng(7), 40, 4)
    verdict = Verdict(theorem, "lower")
    judge(verdict, rows)
    with mp.workdps(40):
        from tests.saturation.brute import exact, ssa_floor

        slacks = []
        for row in range(40):
            value, lower, _ = ssa_floor(**exact({name: values[row] for name, values in rows.items()}))
            slacks.append(min(mp.log(v / w) for v, w in zip(value, lower, strict=True)))
    assert verdict.worst == pytest.approx(float(min(slacks)), rel=1e-10)
    assert verdict.typical == pytest.approx(float(np.exp(-np.median([float(s) for s in slacks]))), rel=1e-10)


@pytest.mark.parametrize(
    ("theorems", "trials", "seed", "field"),
    [
        (THEOREMS, 3, 0, "trials"),
        ([], 10, 0, "trials"),
        (THEOREMS[:1], 10, -1, "seed"),
        (THEOREMS, 10**30, 0, "trials"),
    ],
)
def test_wrong_requests_are_refused(theorems, trials, seed, field):
    with pytest.raises(InputError) as refusal:
        verify(theorems, trials, seed)
    assert refusal.value.field == field


def test_impossible_hypotheses_are_reported():
    nowhere = dataclasses.replace(
        get_theorem("ssa-floor"),
        hypotheses=(dataclasses.replace(get_theorem("ssa-floor").hypotheses[0], holds=lambda x: x["lam"] < 0),),
    )
    with pytest.raises(InputError, match="hold almost nowhere"):
        verify([nowhere], 10)
