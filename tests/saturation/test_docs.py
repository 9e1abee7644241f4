"""docs/saturation.md says what the package does: its theorems, its slopes, its examples, its pictures."""

import re
from pathlib import Path

import pytest

from phasekit.saturation import THEOREMS, fit_slopes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "saturation.md"
TEXT = PAGE.read_text()


def section(number):
    return TEXT.split(f"\n## {number}. ")[1].split("\n## ")[0]


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.name)
def test_each_theorem_is_in_its_section(theorem):
    assert f"`{theorem.name}`" in section(theorem.section)


def test_the_table_has_every_bound_and_the_slopes_of_today():
    table = section(8)
    for theorem in THEOREMS:
        for side in theorem.sides:
            assert re.search(rf"^{theorem.name} +{side} ", table, flags=re.MULTILINE), (theorem.name, side)
    for slope in fit_slopes(THEOREMS):
        row = next(
            line for line in table.splitlines() if line.startswith(f"{slope.theorem} ") and f" {slope.case} " in line
        )
        assert f" {round(slope.fitted, 4) + 0.0:.4f} " in row, row


def test_examples_run(capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL):
        exec(block, names)
    assert capsys.readouterr().out.endswith("True 1000\n")
    assert round(float(names["crossover_gap"](n=1.5, b=0.8)), 4) == 0.5313
    assert names["limit_weights"]([2, 1, -1], n=1.5).round(3).tolist() == [0.739, 0.261, 0]
    assert names["saturation_exponent"]([2, -1, -3], n=1.5) == 3.0
    assert (names["lower"] <= names["value"]).all()
    assert (names["value"] <= names["upper"]).all()


def test_pictures_exist():
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", TEXT)
    assert len(pictures) == 3
    assert all((PAGE.parent / picture).is_file() for picture in pictures)
