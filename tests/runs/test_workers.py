"""How workers are set up and shared out: threads, GPUs (made-up ones), sizes of ensembles, and what progress says."""

import os
import subprocess
import sys

import pytest
import torch

from phasekit import threads as threads_of
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.progress import Bar, duration
from phasekit.runs.procedures import Workplace
from phasekit.runs.procedures.sampled import HMCNetworks, SGLDNetworks
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work import calibrate as module
from phasekit.runs.work.backends import LocalProcesses
from phasekit.runs.work.calibrate import LONGEST, Speed, Trial, calibrate, choose, cost, families
from phasekit.runs.work.processes import take_gpu, visible_gpus, workers_and_threads
from phasekit.runs.work.progress import Shown, watching
from phasekit.runs.work.summary import Summary
from phasekit.runs.work.worker import Job, _run
from phasekit.threads import THREAD_VARIABLES, limit_threads
from tests.runs.conftest import ROOT
from tests.runs.probes import Here, Probe, environment, terminated

# --- GPUs


@pytest.mark.parametrize(
    ("value", "found"), [("0,1", ["0", "1"]), ("GPU-5ab, 3 ", ["GPU-5ab", "3"]), ("", []), ("-1", [])]
)
def test_devices_that_are_named_already_are_respected(monkeypatch, value, found):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert visible_gpus() == found


@pytest.mark.slow
def test_every_process_gets_a_device_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
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


# --- signals


def test_workers_leave_it_to_their_runner_what_a_signal_means(workers):
    """SLURM sends SIGTERM to all processes of a job; workers that died of it had nothing saved."""
    assert len(list(workers.map(terminated, range(4)))) == 4


# --- sizes of ensembles


def test_the_smallest_size_that_is_nearly_fastest_is_chosen():
    assert choose({1: 1.0, 2: 0.6, 4: 0.5, 8: 0.49}).size == 4
    assert choose({1: 1.0, 2: 1.3, 4: 1.5}).size == 1
    assert choose({1: 100.0, 2: 70.0, 4: 20.0}).size == 4
    assert choose({1: LONGEST, 2: 0.51 * LONGEST}).size == 1, "too long to lose"
    assert choose({1: 10 * LONGEST}).size == 1


def task(procedure=None, seed=0):
    return Task(Model(V=4, L=5, P=10.0), seed, procedure or Probe())


@pytest.mark.parametrize(("alone", "size"), [(1.0, 1), (0.0, 64)])
def test_company_is_sought_only_where_it_helps(monkeypatch, alone, size):
    """Tasks cost ``alone`` seconds each, and one second together."""
    monkeypatch.setattr(module, "_run", lambda tasks, length, place: 1.0 + alone * (len(tasks) - 1))
    assert calibrate(Trial((task(),) * 64, "cpu", 1)).size == size


def test_tasks_that_fail_while_they_are_measured_are_left_alone():
    assert calibrate(Trial((task(Failing(failing=(7,)), 7),) * 4, "cpu", 1)) == Speed()


class Failing(Probe):
    """Fails even when it is measured."""

    def shortened(self, length):
        return self


class Steps(Probe):
    """A made-up procedure of so many steps."""

    steps: int = 1000

    @property
    def length(self):
        return self.steps


@pytest.mark.parametrize("steps", [1, 2, 7, 8, 1000, 10**6])
@pytest.mark.parametrize("each", [1e-6, 1e-3, 1.0])
def test_few_steps_are_enough_to_tell_what_all_take(monkeypatch, steps, each):
    """Steps of a microsecond don't drown in noise of a millisecond: the more of them are run."""
    spent, noise = [], iter([0.0, 1e-3, -1e-3] * 20)

    def run(tasks, length, place):
        spent.append(0.05 + each * length)
        return spent[-1] + next(noise)

    monkeypatch.setattr(module, "_run", run)
    found = module.seconds_of([task(Steps(steps=steps))], Workplace())
    assert found == pytest.approx(0.05 + each * steps, abs=2e-3 + 0.03 * each * steps)
    assert sum(spent) < 0.1 * len(spent) + max(1.0, 9 * each)


def test_a_measurement_ends_when_the_run_does(tmp_path):
    (tmp_path / "stop").touch()
    speed = calibrate(Trial((task(),) * 8, "cpu", 1, tmp_path / "stop"))
    assert speed == Speed()


def test_a_crowded_machine_doesnt_end_the_search_for_a_size(monkeypatch):
    """Others had the cores for seconds: the clock went on, but this process has hardly worked yet."""
    clock, own = [0.0], [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.process_time", lambda: own[0])

    def run(self, cases, place):
        clock[0] += 2.5 + 0.5
        own[0] += 0.5
        return []

    monkeypatch.setattr(Probe, "run", run)
    assert calibrate(Trial(tuple(task(seed=seed) for seed in range(64)), "cpu", 1)).size == 64


def test_the_cost_of_a_sweep_is_in_proportion_to_its_operations(monkeypatch):
    monkeypatch.setattr(module, "_run", lambda tasks, length, place: 2.0 * len(tasks))
    assert cost([task(seed=seed) for seed in range(30)]) == (pytest.approx(60.0), [])
    assert cost([]) == (0.0, [])


@pytest.mark.parametrize(
    ("alone", "together", "options", "expected"),
    [
        (1.0, 0.5, {}, 50.0),  # company helps
        (1.0, 2.0, {}, 100.0),  # it doesn't, so the run leaves them alone
        (1.0, 2.0, {"group": 4}, 200.0),  # but if the sweep says so …
        (1.0, 0.5, {"workers": 50}, 100.0),  # and there is none where every worker needs a task
    ],
)
def test_the_cost_is_that_of_the_ensembles_that_a_run_would_choose(monkeypatch, alone, together, options, expected):
    monkeypatch.setattr(module, "_run", lambda tasks, *_: alone if len(tasks) == 1 else together * len(tasks))
    assert cost([task(Steps(steps=2), seed) for seed in range(100)], **options) == (pytest.approx(expected), [])


def test_a_long_task_without_steps_is_run_once_to_tell_its_cost(monkeypatch):
    runs = []
    monkeypatch.setattr(module, "_run", lambda tasks, *_: runs.append(len(tasks)) or 3.0 * len(tasks))
    assert cost([task(seed=seed) for seed in range(10)]) == (30.0, [])
    assert runs == [1]


def test_a_cost_that_cannot_be_told_is_no_cost_of_zero():
    seconds, unknown = cost([task(Failing(failing=(0, 1, 2)), seed) for seed in range(3)])
    assert seconds == 0.0
    assert len(unknown) == 1
    assert "ArithmeticError: seed 1 is not liked" in unknown[0]


# --- threads


@pytest.mark.parametrize(
    ("told", "jobs", "threads", "expected"),
    [
        (None, 1, None, (1, 8)),
        (None, 4, None, (4, 2)),
        (None, None, None, (8, 1)),
        (None, 16, None, (16, 1)),
        ("1", 1, None, (1, 1)),
        ("3", 2, None, (2, 3)),
        ("64", 2, None, (2, 4)),
        ("4", 2, 3, (2, 3)),
        ("4", 2, 4, (2, 4)),
        (None, 2, 16, (2, 16)),
        ("", 1, None, (1, 8)),
        ("all", 1, None, (1, 8)),
        ("0", 1, None, (1, 8)),
    ],
)
def test_threads_are_never_more_than_the_user_set(monkeypatch, told, jobs, threads, expected):
    monkeypatch.setattr("phasekit.runs.work.processes.cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if told is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert workers_and_threads(jobs, threads, "cpu") == expected


def test_more_threads_than_the_user_set_are_refused(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(InputError, match="OMP_NUM_THREADS allows 1"):
        workers_and_threads(2, 4, "cpu")


@pytest.fixture
def fresh(monkeypatch):
    """Let this process think that it has set no threads yet; give back what it has."""
    before = torch.get_num_threads()
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, "2")
    threads_of._told.cache_clear()
    yield
    threads_of._told.cache_clear()
    torch.set_num_threads(before)


def test_a_worker_has_no_more_threads_than_its_own_machine_says(fresh):
    """Whoever sends it work, as through a cluster, doesn't know what its environment says."""
    for asked, got in ((1, 1), (8, 2), (2, 2)):
        limit_threads(asked)
        assert (os.environ["OMP_NUM_THREADS"], torch.get_num_threads()) == (str(got), got)


@pytest.mark.parametrize(("gain", "chosen"), [(0.5, 4), (0.9, 4), (0.97, 1), (3.0, 1)])
def test_threads_are_chosen_by_measurement(monkeypatch, gain, chosen):
    """An ensemble takes a second a task on one thread, and ``gain`` seconds on four."""
    threads = [4]
    monkeypatch.setattr(module, "limit_threads", lambda count: threads.append(count))
    monkeypatch.setattr(module, "_run", lambda tasks, *_: len(tasks) * (gain if threads[-1] == 4 else 1.0))
    speed = calibrate(Trial((task(),) * 2, "cpu", 4))
    assert (speed.threads, speed.seconds) == (chosen, pytest.approx(min(1.0, gain) if chosen == 4 else 1.0))
    assert cost([task()] * 10, threads=4) == (pytest.approx(10 * speed.seconds), [])
    assert threads[-2:] == [1, 4]
    assert calibrate(Trial((task(),) * 2, "cpu", 1)).threads == 1, "there is nothing to choose"


@pytest.mark.parametrize(("measured", "given"), [(1, 1), (2, 2), (4, 4), (8, 4), (None, 4)])
def test_an_ensemble_is_computed_with_the_threads_that_were_chosen_for_it(run, written, monkeypatch, measured, given):
    """But with no more than this run has: another one may have planned it."""
    jobs = []

    class Recorder(Here):
        threads = 4

        def map(self, function, work):
            return map(function, (jobs.append(job) or job for job in work))

    monkeypatch.setattr("phasekit.runs.work.planning.calibrate", lambda trial: Speed(2, 1.0, {1: 1.0}, measured))
    monkeypatch.setattr("phasekit.runs.work.worker.limit_threads", lambda count: None)
    run({**written(), "group": None}, backend=Recorder())
    assert {job.threads for job in jobs if isinstance(job, Job)} == {given}


# --- progress


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.84, "0.8 s"), (45, "45 s"), (120, "2 min"), (3600 * 3.5, "3.5 h"), (89, "89 s")]
)
def test_durations_as_people_say_them(seconds, words):
    assert duration(seconds) == words


def test_the_share_that_is_done_is_one_of_the_cost_rather_than_of_tasks():
    shown = Shown(Bar(None, "", 1.0), lines=False)
    shown.planned(Summary(total=10, already=2), 40.0, "two workers")
    assert (shown.share, shown.words()) == (0.0, "2 of 10 tasks")
    shown.progressed(1, 1, 10.0)  # two tasks, but a quarter of the cost
    assert (shown.share, shown.words()) == (0.25, "4 of 10 tasks, 1 failed")
    shown = Shown(Bar(None, "", 1.0), lines=False)
    shown.planned(Summary(total=10, already=2), 0.0, "two workers")  # nothing was measured: tasks count
    shown.progressed(1, 1, 0.0)
    assert shown.share == 0.25


def test_lines_are_printed_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with watching() as lines:
        lines.planned(Summary(total=4), 4.0, "two workers")
        lines.progressed(1, 0, 1.0)
        now[0] = 11.0
        lines.progressed(1, 0, 1.0)
        lines.remark("failed: abc")
    assert capsys.readouterr().err.splitlines() == [
        "4 tasks, 0 done before; two workers",
        "2 of 4 tasks, 11 s to go",
        "failed: abc",
    ]


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with watching() as shown:
        shown.planned(Summary(total=4), 4.0, "two workers")
        shown.progressed(1, 1, 1.0)
        shown.remark("failed: [abc]")
    said = capsys.readouterr().err
    assert "failed: [abc]" in said
    assert "2 of 4 tasks, 1 failed" in said


# --- what is computed together


def test_only_tasks_of_one_procedure_are_computed_together(tmp_path):
    """Steps of SGLD, or Adam and a sampler, may agree on the models: their ids say what each was computed with."""
    model = Model(V=3, L=4, P=20, score="linear")
    settings = [SGLDNetworks(step=0.01), SGLDNetworks(step=0.02), HMCNetworks(step=0.02)]
    tasks = [Task(model, seed, procedure) for seed in (0, 1) for procedure in settings]
    assert [{task.procedure for task in family} for family in families(tasks)] == [{one} for one in settings]
    with pytest.raises(ValueError, match="different procedures"):
        _run(tasks[:2], Workplace())
