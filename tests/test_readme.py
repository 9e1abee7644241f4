"""What the README shows and states is what the code does."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from figures._sweeps import networks
from figures.agreement._agreement import adam_rows, all_comparisons, theory
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


@pytest.mark.slow
def test_adam_is_as_near_the_theory_as_it_says(tmp_path):
    away, sizes = [], set()
    for model, rows in networks(replace(LARGEST, runs=tmp_path), "agreement").items():
        measured = adam_rows(model, rows[rows["procedure"] == "adam"]).set_index(["quantity", "P"])["mean"]["loss"]
        predicted = theory(model, tuple(measured.index), "map").set_index(["quantity", "P"])["theory"]["loss"]
        away += (measured / predicted - 1).abs().tolist()
        sizes.add((model.V, model.L))
    assert {(V, L) for V in (4, 8, 16) for L in (8, 16, 32)} <= sizes
    assert f"Adam's loss is within {math.ceil(100 * max(away))} % of the theory" in README


@pytest.mark.nightly
def test_sgld_is_as_near_the_theory_as_it_says(tmp_path):
    points = all_comparisons(replace(LARGEST, runs=tmp_path))
    above = points[(points["estimator"] == "posterior") & (points["quantity"] == "loss") & (points["ratio"] > 1)]
    known = above.dropna(subset=["sigma"])
    assert f"at {(known['sigma'].abs() <= 3).sum()} of {len(known)} points" in README
    assert f"(median {100 * known['difference'].abs().median():.1f} %)" in README
