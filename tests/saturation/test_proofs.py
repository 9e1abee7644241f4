"""Proofs: one for each theorem, carried out by SymPy, refusing what is false, about the formulas that are computed."""

import numpy as np
import pytest
import sympy as sp

from phasekit.derivations.catalogue import DERIVATIONS
from phasekit.derivations.proof import NotProven
from phasekit.derivations.saturation import crossover, imbalance, magnification
from phasekit.derivations.saturation.common import Delta, M, at_most, b, d, n, proved, require_sign, ssa, z
from phasekit.derivations.saturation.proofs import PROOFS
from phasekit.derivations.symbols import lam
from phasekit.errors import InputError
from phasekit.saturation import THEOREMS, crossover_gap, get_theorem


def test_every_theorem_has_a_proof_under_its_name():
    assert list(PROOFS) == [theorem.name for theorem in THEOREMS]
    assert PROOFS.items() <= DERIVATIONS.items()


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.name)
def test_a_proof_is_carried_out_and_readable(theorem):
    proof = theorem.proof
    text, latex = proof.text(), proof.latex()
    assert f"\n{len(proof.steps)}. " in text
    assert f"docs/saturation.md, section {theorem.section}" in text
    assert latex.count("$$") == 2 * sum(len(step.equations) for step in proof.steps)
    for step in proof.steps:
        assert step.words
        for equation in step.equations:
            assert isinstance(equation, sp.core.relational.Relational), equation  # not collapsed to True or False


def test_what_is_false_is_not_proven():
    with pytest.raises(NotProven):
        proved((1 + z) ** 2, 1 + z**2, "false identity")
    with pytest.raises(NotProven):
        at_most(1 + b * Delta, 1 + b * Delta / 2, "false inequality")
    with pytest.raises(NotProven):
        require_sign(z - M, True, "undecided sign")


def test_a_theorem_without_a_proof_says_so():
    import dataclasses

    with pytest.raises(InputError, match="has no proof"):
        _ = dataclasses.replace(get_theorem("ssa-floor"), name="conjecture").proof


NUMBERS = {n: 1.7, b: 0.6, lam: 2.5, z: 0.9, d: 1.3, M: 0.4}


@pytest.mark.parametrize("case", magnification.CASES)
def test_the_proven_ratios_are_the_computed_ones(case):
    top, key = (float(sp.sympify(logit).subs(NUMBERS)) for logit in magnification.CASES[case])
    ratio, root = magnification.ratios()[case]
    theorem = get_theorem("ssa-ratios")
    inputs = {"z": [top, key], "lam": NUMBERS[lam], "n": NUMBERS[n], "b": NUMBERS[b]}
    computed = float(theorem.bounds(**inputs)[0][0, 0])
    assert computed == pytest.approx(float(sp.log(ratio.subs(NUMBERS))), rel=1e-12)
    assert computed == pytest.approx(NUMBERS[n] * float(sp.log(root.subs(NUMBERS))), rel=1e-12)


@pytest.mark.parametrize("case", imbalance.CASES)
def test_the_proven_growth_is_the_computed_one(case):
    at, gap, root = imbalance.CASES[case]
    numbers = {**NUMBERS, Delta: 2.2, imbalance.c_positive: 0.7}
    c, gap = (float(sp.sympify(value).subs(numbers)) for value in (at, gap))
    lower = get_theorem("ssa-imbalance").bounds(others=[c], gap=gap, n=NUMBERS[n], b=NUMBERS[b])[0][0, 0]
    growth = float(root.subs(numbers)) ** NUMBERS[n]
    assert np.exp(lower) == pytest.approx(1 / (1 + growth), rel=1e-12)


def test_the_proven_crossover_gap_is_the_computed_one():
    (equation,) = crossover.root().equations
    for sharpness, scale in ((1.5, 0.8), (2.0, 0.8), (3.0, 5.0)):
        proven = float(equation.rhs.subs({n: sp.Rational(str(sharpness)), b: sp.Rational(str(scale))}).evalf(20))
        assert float(crossover_gap(sharpness, scale)) == pytest.approx(proven, rel=1e-12)


def test_weights_come_from_the_score_objects():
    assert sp.simplify(ssa(-z) * ssa(z)) == 1
    assert sp.simplify(ssa(z) - (1 + b * z) ** n) == 0
