"""What only a process of its own can show: exit status, silence, pipes and interrupts."""

import json
import os
import signal
import subprocess
import sys
import time

MINIMA = ["minima", "-V", "8", "-L", "16", "-P", "256"]
PHASEKIT = [sys.executable, "-c", "from phasekit.cli import main; main()"]


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


def test_a_reader_that_leaves_early_is_no_error():
    read, write = os.pipe()
    os.close(read)
    for arguments in ([*MINIMA, "--json"], ["--help"], []):
        with os.fdopen(os.dup(write), "w") as pipe:
            result = subprocess.run([*PHASEKIT, *arguments], stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=60)
        assert result.stderr == ""
        assert result.returncode == 141
    os.close(write)


def test_an_interrupt_is_quiet_and_leaves_nothing(tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "slow.py").write_text(
        "import time\n\n\ndef main(out, preset):\n    (out / 'started').touch()\n    time.sleep(60)\n    return []\n"
    )
    command = [*PHASEKIT, "figures", "--scripts", scripts, "--out", tmp_path / "out"]
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
