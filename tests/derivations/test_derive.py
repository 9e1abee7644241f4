"""``phasekit derive``."""

import re

import pytest
import sympy as sp
from sympy.core.relational import Relational

from phasekit.cli.derive import derive
from phasekit.derivations.catalogue import DERIVATIONS
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import gap, lam, sigma_g
from phasekit.derivations.typeset import latex, unicode
from phasekit.errors import InputError


def test_names_and_titles_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    derive(None, latex=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(DERIVATIONS)
    assert all(derivation.title in line for derivation, line in zip(DERIVATIONS.values(), lines, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVATIONS)
def test_every_derivation_prints_its_steps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    derive(name, latex=False)
    text = capsys.readouterr().out
    derivation = DERIVATIONS[name]
    assert text.startswith(derivation.title)
    assert all(f"\n{number}. " in text for number in range(1, len(derivation.steps) + 1))
    assert all(step.words for step in derivation.steps)
    assert not re.search(r"\b(False|True)\b", text)  # an equation that SymPy evaluated away
    assert all(isinstance(equation, Relational) for step in derivation.steps for equation in step.equations)

    derive(name, latex=True)
    markdown = capsys.readouterr().out
    formulas = re.findall(r"\$\$\n(.*?)\n\$\$", markdown, flags=re.DOTALL)
    assert len(formulas) == sum(len(step.equations) for step in derivation.steps)
    assert all(formula.count("{") == formula.count("}") for formula in formulas)
    assert not re.search(r"[^\x00-\x7f]", "".join(formulas))  # LaTeX commands, not Unicode letters


def test_all_derivations_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    derive(None, latex=True)
    markdown = capsys.readouterr().out
    assert [f"`phasekit derive {name}`" in markdown for name in DERIVATIONS] == [True] * len(DERIVATIONS)


def test_unknown_name() -> None:
    with pytest.raises(InputError, match="derivation = 'lindar': unknown; choose from moments, evidence"):
        derive("lindar", latex=False)


def test_words_are_the_docstring() -> None:
    def step() -> None:
        """First line,
        second line.
        """

    assert Step.of(step).words == "First line, second line."


def test_symbols_look_as_in_the_papers() -> None:
    equation = sp.Eq(lam / sigma_g**2, 1 - gap)
    assert latex(equation) == r"\frac{\lambda}{\sigma_g^{2}} = 1 - \Delta"
    assert "Δ" in unicode(equation)
    assert "λ" in unicode(equation)
