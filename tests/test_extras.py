"""A package that isn't installed is named in one line, with the extra that brings it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from phasekit import InputError
from phasekit.cli import WRONG_USAGE
from phasekit.extras import EXTRA_OF, require

WITHOUT_TORCH = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name="torch")
sys.meta_path.insert(0, Missing())
"""
PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def test_every_package_is_in_its_extra():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for module, extra in EXTRA_OF.items():
        assert module.replace("_", "-") in [Requirement(text).name for text in extras[extra]]


@pytest.mark.parametrize("module", EXTRA_OF)
def test_a_missing_package_is_one_line(module, monkeypatch):
    monkeypatch.setattr("phasekit.extras.find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"package = '{module}': not installed; pip install 'phasekit\["):
        require(module)


@pytest.mark.slow
def test_the_command_line_names_the_extra():
    words = ["evidence", "hysteresis", "--score", "softmax", "-V", "8", "-L", "16", "-P", "100,200", "--draws", "8"]
    code = WITHOUT_TORCH + f"from phasekit import cli\nsys.exit(cli.run({words}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == WRONG_USAGE
    assert result.stderr == "error: package = 'torch': not installed; pip install 'phasekit[networks]' brings it\n"
