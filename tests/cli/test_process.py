"""What only a process of its own can show: exit status, silence, pipes and interrupts."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

MINIMA = ["minima", "-V", "8", "-L", "16", "-P", "256"]
PHASEKIT = [sys.executable, "-c", "from phasekit.cli import main; main()"]


@pytest.mark.slow
def test_json_alone_reaches_standard_output(process):
    result = process(*MINIMA, "--json")
    assert result.returncode == 0
    assert result.stderr == ""
    assert json.loads(result.stdout)["global"] == 0


def test_wrong_usage_exits_2_without_a_traceback(process):
    result = process("minima", "-V", "1", "-L", "16", "-P", "256")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: V = '1': ")
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_package_can_be_run_as_a_module(tmp_path):
    (tmp_path / "own_score.py").write_text(
        "from phasekit.scores import Softmax\nclass Own(Softmax):\n    name = 'own'\n"
    )
    command = [sys.executable, "-m", "phasekit", *MINIMA, "--score", "own_score:Own"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
def test_derivations_without_docstrings_say_so():
    command = [sys.executable, "-OO", "-m", "phasekit", "derive", "jump"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: PYTHONOPTIMIZE = 2: removes the words")


def test_warnings_are_one_line_and_those_of_flagged_numbers_none():
    code = """
import warnings
from phasekit import cli
cli._shorten_warnings()
warnings.warn("divide by zero", RuntimeWarning)
warnings.warn("two\\nlines")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stderr == "warning: two lines\n"


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error():
    read, write = os.pipe()
    os.close(read)
    for arguments in ([*MINIMA, "--json"], ["--help"], []):
        with os.fdopen(os.dup(write), "w") as pipe:
            result = subprocess.run([*PHASEKIT, *arguments], stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=60)
        assert result.stderr == ""
        assert result.returncode == 141
    os.close(write)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [MINIMA, [*MINIMA, "--json"], ["minima", "--help"], ["--version"]])
def test_a_full_disk_behind_standard_output_is_one_line(process, arguments):
    with open("/dev/full", "w") as full:
        result = process(*arguments, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (2, "error: [Errno 28] No space left on device\n")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed):
    for arguments, status in ((MINIMA, 0), (MINIMA[:3], 2)):
        command = ["sh", "-c", f'"$@" {closed}', "sh", *PHASEKIT, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert result.returncode == status
        assert "Traceback" not in result.stderr
        if status:
            assert result.stdout == ""  # errors go nowhere else if standard error is closed


@pytest.mark.slow
def test_a_misspelt_backend_of_matplotlib_is_no_error(process, tmp_path):
    task = ["diagram", "-V", "8", "--x", "L=16,32", "--y", "P=100,200", "--out", tmp_path]
    result = process(*task, env={**os.environ, "MPLBACKEND": "nonsense"})
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
def test_characters_that_the_locale_lacks_are_escaped(process, tmp_path):
    task = ["diagram", "-V", "8", "--x", "L=16,32", "--y", "P=100,200", "--out", tmp_path / "größe"]
    settings = {"env": {**os.environ, "PYTHONIOENCODING": "ascii"}}
    table, document = process(*task, **settings), process(*task, "--json", **settings)
    assert (table.returncode, document.returncode) == (0, 0)
    assert r"2 \xd7 2 models" in table.stdout
    assert json.loads(document.stdout)["files"][0] == str(tmp_path / "größe" / "diagram.nc")


def test_an_interrupt_is_quiet_and_leaves_nothing(tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "slow.py").write_text(
        "import time\n\n\ndef main(out, preset):\n    (out / 'started').touch()\n    time.sleep(60)\n    return []\n"
    )
    # A shell starts what runs in its background with interrupts ignored, and children inherit that.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); " + PHASEKIT[2]
    command = [*PHASEKIT[:2], heeding, "figures", "--scripts", scripts, "--out", tmp_path / "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out" / "started").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("score", ["softmax", "temperature", "ssa", "entmax", "sparsemax", "linear"])
def test_one_models_transitions_need_no_slow_library(score):
    """So that the command answers within a second: what it doesn't import is what makes it fast."""
    code = (
        "import sys; from phasekit import cli; "
        f"status = cli.run(['transitions', '--score', '{score}', '-V', '8', '-L', '16']); "
        "slow = {'sympy', 'xarray', 'pandas', 'torch', 'matplotlib', 'arviz_stats'} & set(sys.modules); "
        "sys.exit(f'{status} {slow}' if status or slow else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
