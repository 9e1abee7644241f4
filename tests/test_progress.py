"""Bars of long calls: in a notebook by default, in a script if asked, and never where a caller listens itself."""

import subprocess
import sys

import numpy as np
import pytest

import phasekit
from phasekit.progress import reported

#: A notebook's kernel, without one: IPython's shell with a kernel, and its displays kept.
NOTEBOOK = """
import sys, types
shown = []
class Handle:
    def update(self, what): shown.append(what)
def display(what, display_id):
    shown.append(what)
    return Handle()
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=1))
sys.modules["IPython.display"] = types.SimpleNamespace(HTML=str, display=display)
import phasekit.progress
phasekit.progress._FIRST_LOOK = phasekit.progress._BETWEEN = 0.0
"""
CALLS = {
    "training heads": """
from phasekit.heads import Adam, train
train(phasekit.Model(V=4, L=8, P=20, score="softmax"), settings=Adam(steps=200), members=1 OPTION)
""",
    "sampling": """
from phasekit.samplers import Langevin, sample
sample(phasekit.Model(V=4, L=8, P=20, score="softmax"), Langevin(step=0.1), draws=200, members=1 OPTION)
""",
    "phase diagram": """
phasekit.phase_diagram(phasekit.Model(V=4, L=8, score="linear").grid(P=[10, 20], L=[8, 12]) OPTION)
""",
}


def told(before, call, option=""):
    script = f"{before}\nimport phasekit\n{call.replace(' OPTION', option)}\nprint(globals().get('shown', []))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1], done.stderr


@pytest.mark.slow
def test_a_notebook_shows_bars_that_leave_nothing():
    shown, _ = told(NOTEBOOK, "".join(CALLS.values()))
    assert all(name in shown for name in CALLS)
    assert "<progress value=" in shown
    assert shown.endswith(", '']"), "the last thing that is shown is nothing"


@pytest.mark.slow
def test_a_script_shows_nothing_and_neither_does_a_notebook_that_is_told_so():
    assert told("", "".join(CALLS.values())) == ("[]", "")
    assert told(NOTEBOOK, "".join(CALLS.values()), ", progress=False")[0] == "[]"


def test_whoever_listens_is_told():
    seen = []
    grid = phasekit.Model(V=4, L=8, score="linear").grid(P=[10, 20], L=[8, 12])
    found = phasekit.phase_diagram(grid, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    np.testing.assert_array_equal(found["phase"], phasekit.phase_diagram(grid)["phase"])


def test_a_script_that_asks_gets_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with reported(True, "long work") as report:
        report(1, 4)
    assert "long work: 1 of 4" in capsys.readouterr().err
    with reported(None, "long work") as report:
        assert report is None
