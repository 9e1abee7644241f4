"""How workers are set up and shared out: threads, GPUs (made-up ones), sizes of ensembles, and what progress says."""

import subprocess
import sys

import pytest

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work import calibrate as module
from phasekit.runs.work.backends import LocalProcesses
from phasekit.runs.work.calibrate import LONGEST, Trial, calibrate, choose
from phasekit.runs.work.foretell import cost
from phasekit.runs.work.processes import take_gpu, visible_gpus
from phasekit.runs.work.progress import Lines, Pace, duration
from phasekit.runs.work.runner import Summary
from tests.runs.conftest import ROOT
from tests.runs.probes import Probe, environment

# --- GPUs


@pytest.mark.parametrize(
    ("value", "found"), [("0,1", ["0", "1"]), ("GPU-5ab, 3 ", ["GPU-5ab", "3"]), ("", []), ("-1", [])]
)
def test_devices_that_are_named_already_are_respected(monkeypatch, value, found):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert visible_gpus() == found


def test_every_process_gets_a_device_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    backend = LocalProcesses(device="cuda", threads=3)
    try:
        assert (backend.workers, backend.gpus) == (2, ["4", "7"])
        seen = set(backend.map(environment, range(4)))
    finally:
        backend.close()
    assert sorted(gpu for _, gpu, _ in seen) == ["4", "7"], "two processes, two devices"
    assert {threads for _, _, threads in seen} == {"3"}


def test_a_device_comes_free_when_its_process_is_killed(tmp_path):
    code = f"import sys, time; from phasekit.runs.work.processes import take_gpu; from pathlib import Path\n" \
           f"print(take_gpu(['0'], Path({str(tmp_path)!r})), flush=True); time.sleep(60)"  # fmt: skip
    holder = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "0\n"
        with pytest.raises(RuntimeError, match="all of the 1 GPUs are taken"):
            take_gpu(["0"], tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    assert take_gpu(["0"], tmp_path) == "0"


def test_more_processes_than_devices_and_no_device_at_all(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(InputError, match="one process for each GPU"):
        LocalProcesses(2, device="cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(InputError, match="no CUDA device"):
        LocalProcesses(device="cuda")
    backend = LocalProcesses(1, device="auto")
    assert backend.gpus == []
    backend.close()


# --- sizes of ensembles


def test_the_smallest_size_that_is_nearly_fastest_is_chosen():
    assert choose({1: 1.0, 2: 0.6, 4: 0.5, 8: 0.49}).size == 4
    assert choose({1: 1.0, 2: 1.3, 4: 1.5}).size == 1
    assert choose({1: 100.0, 2: 70.0, 4: 20.0}).size == 4
    assert choose({1: LONGEST, 2: 0.51 * LONGEST}).size == 1, "too long to lose"
    assert choose({1: 10 * LONGEST}).size == 1


@pytest.mark.parametrize(("saved", "size"), [(0.0, 1), (1.0, 64)])
def test_company_is_sought_only_where_it_helps(monkeypatch, saved, size):
    monkeypatch.setattr(module, "_seconds", lambda tasks, length, device: 1.0 if saved else 1.0 * len(tasks))
    task = Task(Model(V=4, L=5, P=10.0), 0, Probe())
    speed = calibrate(Trial((task,) * 64, "cpu", 1))
    assert speed.size == (size if not saved else max(speed.measured))
    assert (speed.size == 1) == (not saved)


def test_calibration_survives_tasks_that_fail():
    task = Task(Model(V=4, L=5, P=10.0), 7, Probe(failing=(7,)))
    assert calibrate(Trial((task,), "cpu", 1)).size == 1


def test_the_cost_of_a_sweep_is_in_proportion_to_its_operations(monkeypatch):
    monkeypatch.setattr(module, "_seconds", lambda tasks, length, device: 2.0)
    few = [Task(Model(V=4, L=5, P=10.0), seed, Probe()) for seed in range(3)]
    assert cost(few) == pytest.approx(6.0)
    assert cost([]) == 0.0


# --- progress


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.84, "0.8 s"), (45, "45 s"), (120, "2 min"), (3600 * 3.5, "3.5 h"), (89, "89 s")]
)
def test_durations_as_people_say_them(seconds, words):
    assert duration(seconds) == words


def test_pace_counts_cost_rather_than_tasks(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pace = Pace()
    pace.plan(Summary(total=10, already=2), seconds=40.0)
    assert pace.remaining is None
    now[0] += 5.0
    pace.add(1, 1, 10.0)  # two tasks, but a quarter of the cost
    assert pace.remaining == pytest.approx(15.0)
    assert (pace.finished, pace.rate) == (4, pytest.approx(0.4))
    assert pace.words() == "4 of 10 tasks, 1 failed, 0.4 a second, 15 s to go"
    pace.plan(Summary(total=10, already=0), seconds=0.0)  # nothing was measured: tasks count
    pace.done = pace.failed = 0
    now[0] += 4.0
    pace.add(4, 0, 0.0)
    assert pace.remaining == pytest.approx(6.0)


def test_lines_are_printed_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines = Lines()
    lines.planned(Summary(total=4), 4.0, "two workers")
    lines.progressed(1, 0, 1.0)
    now[0] = 11.0
    lines.progressed(1, 0, 1.0)
    lines.remark("failed: abc")
    assert capsys.readouterr().err.splitlines() == [
        "4 tasks, 0 done before; two workers",
        "2 of 4 tasks, 0.182 a second, 11 s to go",
        "failed: abc",
    ]
