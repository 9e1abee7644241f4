"""The example of docs/evidence.md runs, and the commands that it names exist."""

import re
from pathlib import Path

from phasekit import cli

PAGE = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text(encoding="utf-8")


def test_the_first_example_runs(capsys):
    example = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    exec(example.replace("draws=60, thin=8, warmup=120, members=6", "draws=16, warmup=10, members=2"), {})
    assert re.search(r"^(True|False)$", capsys.readouterr().out, flags=re.MULTILINE)


def test_the_second_example_names_what_exists():
    example = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    exec(example[: example.index("model =")], {})
    compile(example, "evidence.md", "exec")


def test_commands_exist(capsys):
    commands = re.findall(r"^phasekit evidence (\w+)", PAGE, flags=re.MULTILINE)
    assert sorted(commands) == ["barrier", "hysteresis", "susceptibility", "warning"]
    for command in commands:
        assert cli.run(["evidence", command, "--help"]) == 0
        assert "--json" in capsys.readouterr().out
