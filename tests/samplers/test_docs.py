"""The examples of docs/samplers.md run."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "samplers.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_examples_run(number, tmp_path, monkeypatch, capsys):
    assert len(EXAMPLES) == 2
    monkeypatch.chdir(tmp_path)
    shorter = EXAMPLES[number].replace("draws=200, thin=2, warmup=200", "draws=10, warmup=10")
    exec(shorter, {})
    assert number == 1 or (tmp_path / "samples.nc").exists()
    assert number == 1 or "ess_bulk" in capsys.readouterr().out


def test_the_number_of_wrong_samplers():
    text = (Path(__file__).parent / "test_wrong_samplers.py").read_text(encoding="utf-8")
    assert len(re.findall(r"^        \((?:sgld|langevin|hmc), ", text, flags=re.MULTILINE)) == 22
    assert "Twenty-two samplers" in PAGE
