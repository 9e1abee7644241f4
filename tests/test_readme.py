"""What the README shows and states is what the code does."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from figures._sweeps import networks
from figures.agreement._agreement import adam_rows, sgld_rows, theory
from phasekit.drawing.presets import LARGEST
from phasekit.model import Model
from phasekit.theory.scaling import scaling_law
from phasekit.theory.transitions import find_transitions

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_example_runs_and_prints_what_its_comment_says(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(code, {})
    printed = capsys.readouterr().out
    assert "'P_star': 823.00" in printed or "'P_star': 823.01" in printed
    assert printed.count("[") >= 3
    assert len(code.strip().splitlines()) <= 6


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def test_numbers_of_the_jump():
    found = find_transitions(Model(V=8, L=64, score="softmax")).values
    assert f"{found['P_star']:.2f}" == "823.01"
    low, high = found["jump"]["aG"]
    assert f"`aG` jumps from {low:.4f} to {high:.4f} at `P*` = 823.01" in README
    law = scaling_law(Model(V=8, L=2), "P_star", "L", [62, 63, 64, 65, 66])
    assert f"the local exponent is {float(law['local_exponent'].sel(L=64)):.3f} at `L = 64`" in README


@pytest.mark.parametrize("name", ["reproduce", "test"])
def test_the_two_commands_are_targets(name):
    assert f"make {name}" in README
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.fixture
def compared(tmp_path):
    """The largest relative deviation of the loss from theory in the archived networks of C4, in percent, rounded up."""
    preset = replace(LARGEST, runs=tmp_path)

    def largest(estimator):
        away = []
        for model, rows in networks(preset, "agreement").items():
            adam = rows["procedure"] == "adam"
            found = adam_rows(model, rows[adam]) if estimator == "map" else sgld_rows(rows[~adam])
            side = rows.groupby("P")["ratio"].first()
            sizes = [P for P in found["P"].unique() if estimator == "map" or side[P] > 1]
            loss = found[found["quantity"] == "loss"].set_index("P")["mean"]
            expected = theory(model, tuple(sizes), estimator)
            expected = expected[expected["quantity"] == "loss"].set_index("P")["theory"]
            away += (loss[sizes] / expected[sizes] - 1).abs().dropna().tolist()
        assert len(away) > 10
        return math.ceil(100 * max(away))

    return largest


@pytest.mark.slow
def test_adam_is_as_near_the_theory_as_it_says(compared):
    assert f"for Adam within {compared('map')} % of the loss" in README


@pytest.mark.nightly
def test_sgld_is_as_near_the_theory_as_it_says(compared):
    assert f"for SGLD within {compared('posterior')} % above the thresholds" in README
