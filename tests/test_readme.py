"""What the README shows and states is what the code does."""

import re
from pathlib import Path

import pytest

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
