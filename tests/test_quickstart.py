"""The Python examples of the quick start run, and print what their comments say."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "quickstart.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example(code, capsys):
    exec(code, {})
    printed = capsys.readouterr().out
    for shown in re.findall(r"'(P\d)': ([\d.]+)…", code):
        assert f"'{shown[0]}': {shown[1]}" in printed


def test_commands_of_the_page_exist():
    from typer.main import get_command

    from phasekit.cli.app import app

    known = get_command(app).commands
    assert {name for name in re.findall(r"^phasekit (\w+)", PAGE, flags=re.MULTILINE)} <= set(known)


def test_the_package_names_what_it_offers():
    import phasekit

    assert set(phasekit.__all__) <= set(dir(phasekit))
    assert {"Model", "find_minima", "scaling_law"} <= set(phasekit.__all__)
    assert not {"Any", "importlib", "TYPE_CHECKING"} & set(dir(phasekit))
    assert all(hasattr(phasekit, name) for name in phasekit.__all__)
