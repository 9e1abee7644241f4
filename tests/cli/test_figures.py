"""``phasekit figures`` finds scripts by their file names, runs them and says what they wrote."""

import os

import pytest

GOOD = '''"""A picture of nothing."""


def main(out, preset):
    path = out / "{name}.csv"
    path.write_text(preset.name)
    return [path]
'''


@pytest.fixture
def scripts(tmp_path):
    folder = tmp_path / "some_figures"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "_shared.py").write_text("raise RuntimeError('a helper is no figure')")
    for name in ("first", "second"):
        (folder / f"{name}.py").write_text(GOOD.format(name=name))
    return folder


def test_all_scripts_run_if_none_is_named(phasekit, scripts, tmp_path):
    out = tmp_path / "out"
    outcome = phasekit("figures", "--scripts", scripts, "--out", out)
    assert outcome.status == 0, outcome
    assert {path.name: path.read_text() for path in out.iterdir()} == {"first.csv": "quick", "second.csv": "quick"}
    assert str(out / "first.csv") in outcome.out
    assert str(out / "second.csv") in outcome.out


def test_named_scripts_run_with_the_preset(phasekit, scripts, tmp_path):
    outcome = phasekit("figures", "second", "--scripts", scripts, "--out", tmp_path / "out", "--preset", "full")
    assert outcome.status == 0
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["full"]


def test_a_list_shows_what_each_figure_is(phasekit, scripts):
    outcome = phasekit("figures", "--scripts", scripts, "--list")
    assert outcome.out == "first: A picture of nothing.\nsecond: A picture of nothing.\n"


def test_an_unknown_name_is_refused_before_anything_runs(refused, scripts, tmp_path):
    line = refused("figures", "first", "secon", "--scripts", scripts, "--out", tmp_path / "out")
    assert "did you mean second?" in line
    assert "first, second" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [["--preset", "slow"], ["--out", "/dev/null/figures"], ["--scripts", "nowhere"]])
def test_wrong_usage_is_refused(refused, scripts, arguments):
    assert arguments[1] in refused("figures", "--scripts", scripts, *arguments)


def test_a_broken_script_fails_alone(phasekit, scripts, tmp_path):
    (scripts / "broken.py").write_text("def main(out, preset):\n    raise RuntimeError('no ink')\n")
    outcome = phasekit("figures", "--scripts", scripts, "--out", tmp_path / "out")
    assert outcome.status == 1
    assert "no ink" in outcome.err
    assert outcome.err.endswith("failed: broken\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["first.csv", "second.csv"]


def test_what_is_cheap_comes_first_and_each_line_says_what_is_left(phasekit, scripts, tmp_path):
    (scripts / "seconds.toml").write_text("first = 50\nsecond = 1\n")
    lines = phasekit("figures", "--scripts", scripts, "--out", tmp_path / "out").out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["second", "first"]
    assert "; 1 left, about" in lines[0]
    assert "left" not in lines[1]


def test_only_what_changed_is_drawn_again(phasekit, scripts, tmp_path):
    arguments = ("figures", "--scripts", scripts, "--out", tmp_path / "out", "--changed")
    assert phasekit(*arguments).out.count("\n") == 2
    assert phasekit(*arguments).out == ""
    assert phasekit(*arguments, "--preset", "full").out.count("\n") == 2
    (tmp_path / "out" / ".first.quick").unlink()
    assert phasekit(*arguments).out.startswith("first (")
    later = (tmp_path / "out" / ".first.quick").stat().st_mtime + 5
    os.utime(scripts / "second.py", (later, later))
    assert phasekit(*arguments).out.count("\n") == 2, "what lies beside a script may be imported by it"


def test_what_a_user_can_mend_is_said_in_a_line(phasekit, scripts, tmp_path):
    (scripts / "textless.py").write_text(
        "from phasekit.errors import InputError\n\n\n"
        "def main(out, preset):\n    raise InputError('text', 'a.txt', 'can\\'t be read')\n"
    )
    outcome = phasekit("figures", "textless", "--scripts", scripts, "--out", tmp_path / "o")
    assert outcome.status == 1
    assert outcome.err == "textless: text = 'a.txt': can't be read\nfailed: textless\n"


@pytest.mark.slow
def test_several_are_drawn_at_once_and_a_broken_one_fails_alone(phasekit, scripts, tmp_path):
    (scripts / "broken.py").write_text("def main(out, preset):\n    print('much')\n    raise RuntimeError('no ink')\n")
    outcome = phasekit("figures", "--scripts", scripts, "--out", tmp_path / "out", "--jobs", 2)
    assert outcome.status == 1
    assert "no ink" in outcome.err
    assert "much" not in outcome.out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["first.csv", "second.csv"]
