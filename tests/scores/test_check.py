"""What ``check_score`` says of scores that keep the contract, and of ones that break a part of it."""

import json
from typing import ClassVar

import pytest
import sympy
import torch

from phasekit import cli
from phasekit.errors import InputError
from phasekit.model import Induction, Model
from phasekit.scores import ElementwiseSoftmax, Mixture, Softmax, check_score, get_score, names
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions


@pytest.mark.parametrize("name", names())
def test_scores_of_the_package_keep_the_contract(name):
    check_score(get_score(name))


class Doubled(ElementwiseSoftmax):
    """softmax(2h): a score of one's own, known by its module only."""

    name: ClassVar[str] = "doubled"

    def transform(self, z, **values):
        return 2 * z

    def symbolic_transform(self, x, **values):
        return 2 * x


class WithoutName(Softmax):
    name: ClassVar[str] = ""


class NotNormalised(Softmax):
    name: ClassVar[str] = "a"

    def attention_weights(self, query, key, **options):
        return 2 * super().attention_weights(query, key, **options)

    def rows(self, logits, mask=None, parameters=None):
        return 2 * super().rows(logits, mask, parameters)


class LeaksThroughMasks(Softmax):
    name: ClassVar[str] = "b"

    def attention_weights(self, query, key, **options):
        return super().attention_weights(query, key)

    def rows(self, logits, mask=None, parameters=None):
        return super().rows(logits, None, parameters)


class OnlyRows(Softmax):
    name: ClassVar[str] = "f"

    def rows(self, logits, mask=None, parameters=None):
        return super().rows(2 * logits, mask, parameters)


class WrongGradient(Softmax):
    name: ClassVar[str] = "c"

    def pull_back(self, logits, weights, upstream, mask=None, parameters=None):
        return 2 * super().pull_back(logits, weights, upstream, mask, parameters)


class OtherTheory(Doubled):
    name: ClassVar[str] = "d"

    def symbolic_transform(self, x, **values):
        return 3 * x


class ClippedInTheory(Doubled):
    """Agrees with its formula at small logits only."""

    name: ClassVar[str] = "g"

    def symbolic_transform(self, x, **values):
        return sympy.Piecewise((2 * x, x < 5), (10, True))


class Falling(ElementwiseSoftmax):
    name: ClassVar[str] = "h"

    def transform(self, z, **values):
        return -z

    def symbolic_transform(self, x, **values):
        return -x


class Crashes(Doubled):
    name: ClassVar[str] = "i"

    def transform(self, z, **values):
        return z * values["c"]


class Shaped(Softmax):
    name: ClassVar[str] = "e"

    def rows(self, logits, mask=None, parameters=None):
        return super().rows(logits, mask, parameters).to(torch.float32)

    def attention_weights(self, query, key, **options):
        return super().attention_weights(query, key, **options).to(torch.float32)


@pytest.mark.parametrize(
    ("score", "promise"),
    [
        (WithoutName, "needs a name"),
        (NotNormalised, "rows sum to 1"),
        (LeaksThroughMasks, "weights of exactly 0"),
        (OnlyRows, "rows of q·k"),
        (WrongGradient, "pull_back is the gradient"),
        (OtherTheory, "symbolic_two_level"),
        (ClippedInTheory, "symbolic_two_level .* one logit 15 and 11 of -1 rows gives"),
        (Falling, "of nearly equal logits a larger one doesn't weigh less"),
        (Shaped, "dtype"),
    ],
)
def test_a_broken_promise_is_named(score, promise):
    with pytest.raises(InputError, match=f"breaks the contract: .*{promise}"):
        check_score(score())


@pytest.mark.parametrize("estimator", ["map", "posterior"])
@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (OtherTheory(), "symbolic_two_level"),
        (ClippedInTheory(), "symbolic_two_level"),
        (Falling(), "doesn't weigh less"),
        (Crashes(), "its rows fails: KeyError: 'c'"),
        (Mixture(scores=("softmax", OtherTheory())), "symbolic_two_level"),
    ],
)
def test_no_theory_of_a_score_whose_numbers_are_not_its_formulas(score, reason, estimator):
    model = Model(V=8, L=64, P=100, score=score)
    for answer in (find_transitions, find_minima):
        with pytest.raises(InputError, match=reason):
            answer(model, estimator)
    if isinstance(score, ElementwiseSoftmax):
        with pytest.raises(InputError, match=reason):
            find_minima(Model(V=8, L=8, P=100, task=Induction(first=score)))


class Formula(ElementwiseSoftmax):
    """A score for the theory alone."""

    name: ClassVar[str] = "formula"

    def symbolic_transform(self, x, **values):
        return 2 * x


def test_a_formula_alone_has_a_theory():
    found, expected = (find_transitions(Model(V=8, L=64, score=score)) for score in (Formula(), Doubled()))
    assert found.values == expected.values


def test_only_scores_can_be_checked():
    for wrong in (Softmax, "softmax", None):
        with pytest.raises(InputError, match="must be an object of a class derived"):
            check_score(wrong)


@pytest.mark.slow
def test_a_score_of_one_s_own_goes_wherever_a_name_goes(capsys, monkeypatch, tmp_path):
    check_score(Doubled())
    name = f"{__name__}:Doubled"
    assert Doubled().describe() == {"name": name}
    assert Model(V=8, L=64, score=name) == Model(V=8, L=64, score=Doubled())
    expected = find_transitions(Model(V=8, L=64, sigma_g=2)).values["P_star"]
    (tmp_path / "own_scores.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="import own_scores first"):  # a name in data imports nothing
        Model(V=8, L=64, score={"name": "own_scores:Scaled"})
    assert cli.run(["transitions", "--score", "own_scores:Scaled:c=2", "-V", "8", "-L", "64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["P_star"] == pytest.approx(expected, rel=1e-9)
    assert found["model"]["score"] == {"name": "own_scores:Scaled", "c": 2.0}
    listed = ["--scores", "softmax,own_scores:Scaled:c=2,mixture:scores=softmax+ssa:shares=0.3+0.7"]
    assert cli.run(["compare", *listed, "-V", "4", "-L", "8", "-o", str(tmp_path)]) == 0
    assert "own_scores:Scaled:c=2" in capsys.readouterr().out


OWN = """
from typing import ClassVar
from pydantic import Field
from phasekit.scores import ElementwiseSoftmax

class Scaled(ElementwiseSoftmax):
    name: ClassVar[str] = "scaled"
    c: float = Field(default=1.0, gt=0)

    def transform(self, z, **values):
        return self.c * z

    def symbolic_transform(self, x, **values):
        return values["c"] * x
"""
