"""Run the command line as a user does, in this process (fast) or in one of its own (honest)."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from phasekit import cli


@dataclass
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def silence(monkeypatch):
    """A loaded machine takes long; what is said then about it on standard error is no part of these tests."""
    monkeypatch.setattr("phasekit.progress.FIRST_WORD", 1e6)


@pytest.fixture
def phasekit(capsys):
    """Run ``phasekit`` in this process; return its exit status and what it printed."""

    def run(*arguments):
        capsys.readouterr()
        status = cli.run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Outcome(status, printed.out, printed.err)

    return run


@pytest.fixture
def refused(phasekit):
    """Run ``phasekit`` with wrong usage; check that it says so in one line, and return the line."""

    def run(*arguments):
        outcome = phasekit(*arguments)
        assert outcome.status == 2, outcome
        assert outcome.out == ""
        assert outcome.err.startswith("error: ")
        assert outcome.err.count("\n") == 1
        assert outcome.err.endswith("\n")
        return outcome.err

    return run


@pytest.fixture
def process():
    """Run ``phasekit`` in a process of its own."""

    def run(*arguments, **settings):
        command = [sys.executable, "-c", "from phasekit.cli import main; main()", *map(str, arguments)]
        return subprocess.run(command, **{"capture_output": True, "text": True, "timeout": 120, **settings})

    return run
