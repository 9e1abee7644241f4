"""Running sweeps with real worker processes: nothing is done twice, and no error stops the others."""

import errno
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import phasekit.runs.work.worker as worker_module
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.provenance import commit
from phasekit.runs.procedures import get_procedure
from phasekit.runs.store.claims import claim
from phasekit.runs.store.collect import collect
from phasekit.runs.store.plan import add_plan, damaged_plans, read_plans
from phasekit.runs.store.status import look
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.backends import WorkersLost
from phasekit.runs.work.worker import work
from tests.runs.probes import Here

PROBES = 20  # 2 lengths, 2 values of P, 5 seeds


def computed(log):
    """Return how often each task was computed to its end."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {line: lines.count(line) for line in lines}


def test_a_finished_sweep_is_not_run_again(run, written, tmp_path):
    description = written(log=str(tmp_path / "log"))
    first, store, _ = run(description)
    assert (first.total, first.already, first.done, first.missing, first.status) == (PROBES, 0, PROBES, 0, 0)
    before = {path: path.stat().st_mtime_ns for path in store.workspace.rglob("*")}
    second, _, _ = run(description)
    assert (second.already, second.done, second.status) == (PROBES, 0, 0)
    assert {path: path.stat().st_mtime_ns for path in store.workspace.rglob("*")} == before
    assert set(computed(tmp_path / "log").values()) == {1}
    assert len(read_plans(store)) == 1
    assert os.listdir(store.claims) == os.listdir(store.staging) == os.listdir(store.failures) == []


def test_a_sweep_that_grows_runs_what_is_new(run, written, tmp_path):
    run(written(log=str(tmp_path / "log"), seeds=3))
    second, store, _ = run(written(log=str(tmp_path / "log"), seeds=5, axes={"L": [16, 32], "P": [100, 200, 300]}))
    assert (second.already, second.done, second.missing) == (12, 18, 0)
    assert set(computed(tmp_path / "log").values()) == {1}
    assert [len(plan.parameters) for plan in read_plans(store)] == [12, 18]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"junk",
        b"\xff\xfe",
        b"{}",
        b"[1]",
        b'{"format": "phasekit plan 1", "groups": [3]}',
        b"[" * 100_000,
        "task",
        "id",
    ],
)
def test_a_damaged_plan_is_named_and_can_be_deleted(run, written, tmp_path, damage):
    description = written(log=str(tmp_path / "log"))
    _, store, _ = run(description)
    (plan,) = store.plans.glob("[0-9]*.json")
    if isinstance(damage, str):
        written_plan = json.loads(plan.read_text())
        first, second, *_ = written_plan["parameters"]
        written_plan["parameters"][first] = written_plan["parameters"][second]
        if damage == "task":
            del written_plan["parameters"][first]
        damage = json.dumps(written_plan).encode()
    plan.write_bytes(damage)
    assert list(damaged_plans(store)) == ["plans/0000.json"]
    for use in (lambda: read_plans(store), lambda: look(store), lambda: run(description)):
        with pytest.raises(InputError, match=r"^plan = '0000\.json': is damaged"):
            use()
    store.set_aside("plans/0000.json")
    again, _, _ = run(description)
    assert (again.already, again.done, again.status) == (PROBES, 0, 0)


def test_plans_may_be_deleted_in_any_order(run, written, tmp_path):
    """The next plan's number is above all that are there, not their count."""
    run(written(seeds=1))
    _, store, _ = run(written(seeds=2))
    (store.plans / "0000.json").unlink()
    (store.plans / "notes.txt").write_text("mine")
    (store.plans / "0002.json").mkdir()
    with pytest.raises(InputError, match=r"0002\.json.*can't be read"):
        run(written(seeds=3))
    (store.plans / "0002.json").rmdir()
    summary, _, _ = run(written(seeds=3))
    assert (summary.already, summary.done, summary.status) == (8, 4, 0)
    assert sorted(path.name for path in store.plans.glob("0*")) == ["0001.json", "0002.json"]


def test_two_runners_do_not_write_the_same_plan(run, written, tmp_path):
    _, store, _ = run(written(seeds=1))
    (plan,) = read_plans(store)
    assert not add_plan(store, plan, []), "somebody has planned since"
    with claim(store.claims / ".plan"):
        assert not add_plan(store, plan, [plan])
    assert add_plan(store, plan, [plan])
    assert [one.number for one in read_plans(store)] == [0, 1]


@pytest.mark.slow
def test_two_runners_at_once_share_the_work_and_count_it_once(run, written, tmp_path):
    description = written(log=str(tmp_path / "log"), group=1, seconds=0.05)
    with ThreadPoolExecutor() as pool:
        first, second = (one.result()[0] for one in [pool.submit(run, description, backend=Here()) for _ in range(2)])
    assert set(computed(tmp_path / "log").values()) == {1}
    for summary in (first, second):
        assert (summary.total, summary.missing, summary.status) == (PROBES, 0, 0)
        assert summary.already + summary.done == PROBES
    here = [summary.done - summary.elsewhere for summary in (first, second)]
    assert sum(here) == PROBES


def test_neither_hard_links_nor_locks_are_needed(run, written, monkeypatch, tmp_path):
    def refuse(number):
        def call(*arguments):
            raise OSError(number, os.strerror(number))

        return call

    monkeypatch.setattr(os, "link", refuse(errno.EPERM))
    monkeypatch.setattr("fcntl.flock", refuse(errno.ENOLCK))
    summary, _, _ = run(written(), backend=Here())
    assert (summary.done, summary.status) == (PROBES, 0)


def test_records_that_hold_something_else_stop_nobody(run, written, tmp_path):
    _, store, _ = run(written(log=str(tmp_path / "log")))
    task = "a" * 32
    (store.failures / f"{task}.json").write_text("[1]")
    (store.claims / "claim").write_text("[1]")
    assert store.failure(task)["type"] == "unknown"
    assert look(store).running == 0


def test_a_failing_task_costs_nobody_else(run, written, tmp_path):
    description = written(failing=[2, 4], log=str(tmp_path / "log"))
    summary, store, notes = run(description)
    assert (summary.done, len(summary.failed), summary.missing, summary.status) == (12, 8, 0, 1)
    assert {kind for kind, _ in summary.failed.values()} == {"ArithmeticError"}
    failure = store.failure(next(iter(summary.failed)))
    assert failure["message"].endswith("is not liked")
    assert "\n" not in failure["message"]
    assert "probes.py" in failure["traceback"]
    assert failure["parameters"]["data_seed"] in (2, 4)
    assert len([text for text in notes.remarks if "is not liked" in text]) == 8

    again, _, _ = run(description)
    assert (again.already, again.done, len(again.failed), again.status) == (12, 0, 8, 1)
    retried, _, _ = run(description, retry_failed=True)
    assert (retried.done, len(retried.failed)) == (0, 8)


def test_failed_tasks_are_run_again_on_request_only(run, written, monkeypatch, tmp_path):
    # A cause that goes away: the probe's module is found in the workers, the directory it logs to at first is not.
    log = tmp_path / "later" / "log"
    description = written(log=str(log))
    assert run(description)[0].failed
    log.parent.mkdir()
    assert run(description)[0].done == 0
    summary, store, _ = run(description, retry_failed=True)
    assert (summary.done, summary.failed, summary.status) == (PROBES, {}, 0)
    assert os.listdir(store.failures) == []


def test_fail_fast_stops_at_the_first_failure(run, written):
    summary, _, _ = run(written(failing=[0], seeds=200, group=1, seconds=0.002), fail_fast=True)
    assert summary.stopped_early
    assert summary.failed
    assert summary.missing > 400
    assert summary.status == 1


@pytest.mark.slow
def test_a_task_that_kills_its_worker_costs_only_itself(run, written, tmp_path):
    """Seed 3 ends its process every time, as when memory runs out."""
    description = written(deadly=[3], axes={"L": [16], "P": [100]}, seeds=6, group=2, log=str(tmp_path / "log"))
    summary, store, notes = run(description)
    assert (summary.done, len(summary.failed), summary.missing) == (5, 1, 0)
    ((task, (kind, message)),) = summary.failed.items()
    assert kind == "WorkerKilled"
    assert "memory" in message
    assert store.failure(task)["parameters"]["data_seed"] == 3
    assert any("a worker died" in text for text in notes.remarks)
    # What the other worker had just computed, and not written yet, when the pool ended with the one that was killed is
    # computed again; a task that is in the store never is.
    assert len(computed(tmp_path / "log")) == 5
    assert sum(computed(tmp_path / "log").values()) <= 5 + 2 * 2 * 3


def test_broken_results_are_reported_and_run_again_after_repair(run, written, tmp_path):
    description = written(log=str(tmp_path / "log"))
    _, store, _ = run(description)
    whole = collect(store, theory=False).table
    victims = sorted(store.names())[:3]
    for name in victims:
        path = store.workspace / name / "result.npz"
        path.write_bytes(path.read_bytes()[:-1])
    summary, _, _ = run(description)
    assert summary.broken.keys() == set(victims)
    assert (summary.already, summary.done, summary.missing, summary.status) == (PROBES - 3, 0, 0, 1)
    for name, _ in list(store.problems()):
        store.set_aside(name)
    repaired, _, _ = run(description)
    assert (repaired.already, repaired.done, repaired.status) == (PROBES - 3, 3, 0)
    assert collect(store, theory=False).table.equals(whole)


@pytest.mark.slow
def test_a_lost_task_is_computed_in_the_ensemble_that_it_was_in(run, written, tmp_path):
    """The last digits of networks depend on who shares their ensemble: it is kept, even to replace one result."""
    description = {
        **written(axes={"L": [13], "P": [40]}, seeds=3, group=3),
        "model": {"V": 5},
        "procedure": {"name": "adam", "steps": 40},
    }
    _, store, _ = run(description)
    found = {name: (store.workspace / name / "result.npz").read_bytes() for name in store.names()}
    arrays = {name: store.load(name).values for name in store.names()}
    victim = sorted(store.names())[1]
    shutil.rmtree(store.workspace / victim)
    summary, _, _ = run(description)
    assert (summary.already, summary.done) == (2, 1)
    for name in arrays:
        again = store.load(name).values
        assert all(np.array_equal(again[key], arrays[name][key]) for key in again), name
        if name != victim:
            assert (store.workspace / name / "result.npz").read_bytes() == found[name]


@pytest.mark.slow
def test_results_do_not_depend_on_the_order_or_the_workers(run, written, tmp_path):
    tables = []
    for k, group in enumerate((1, 4, 20)):
        _, store, _ = run(written(group=group), store=tmp_path / f"store{k}")
        tables.append(collect(store).table)
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


def test_how_a_result_was_made_is_recorded(run, written):
    _, store, _ = run(written())
    record = store.load(min(store.names())).record
    assert record["threads"] == 1
    assert record["asked_device"] == "cpu"
    assert record["tasks_in_ensemble"] in (2, 3)
    assert record["commit"] == commit()
    assert record["pid"] != os.getpid(), "workers write their results themselves"
    assert {"ensemble", "seconds", "finished", "host", "phasekit", "python", "dtype"} <= record.keys()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_stops_the_run_with_the_systems_words(run, written, monkeypatch, number, tmp_path):
    commit, calls = Store.commit, []

    def full(self, *arguments, **settings):
        calls.append(1)
        if len(calls) > 2:
            raise OSError(number, os.strerror(number))
        return commit(self, *arguments, **settings)

    monkeypatch.setattr(Store, "commit", full)
    summary, store, _ = run(written(), backend=Here())
    assert os.strerror(number) in summary.disk
    assert (summary.status, summary.failed) == (1, {})
    assert 0 < summary.done < PROBES
    assert len(calls) == 3, "the run stops instead of computing what it can't keep"
    assert list(store.problems()) == []
    monkeypatch.undo()
    resumed, _, _ = run(written(), backend=Here())
    assert (resumed.already + resumed.done, resumed.status) == (PROBES, 0)


def test_other_errors_of_the_system_are_not_taken_for_a_full_disk(run, written, monkeypatch, tmp_path):
    from phasekit.runs.work.worker import Job

    store = Store.create(tmp_path / "store")

    def broken(*arguments):
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(worker_module, "_compute", broken)
    task = Task(Model(V=8, L=16, P=9), 0, get_procedure({"name": "theory"}))
    with pytest.raises(PermissionError):
        work(Job(str(store.path), "0" * 32, (task,), "cpu", 1, str(tmp_path / "stop")))


@pytest.mark.slow
def test_a_long_task_saves_its_state_and_goes_on_from_it(run, written, tmp_path):
    import threading
    import time

    description = written(axes={"L": [16], "P": [100]}, seeds=1, group=1, seconds=0.02)
    description["procedure"]["name"] = "tests.runs.probes:SlowCount"

    def stop_after_a_while():
        store = tmp_path / "store"
        while not list(store.glob("checkpoints/*.npz")):
            time.sleep(0.02)
        for path in store.glob("claims/*"):
            if not path.name.startswith("."):
                break
        # What the runner does on Ctrl-C: the file that the workers look for appears.
        (stopper,) = [run_.stop.file for run_ in running]
        stopper.touch()

    import phasekit.runs.work.runner as module

    running = []
    original = module._Run.__init__

    def remember(self, *arguments):
        original(self, *arguments)
        running.append(self)

    module._Run.__init__ = remember
    try:
        thread = threading.Thread(target=stop_after_a_while)
        thread.start()
        stopped, store, _ = run(description, save_every=0.1)
        thread.join()
    finally:
        module._Run.__init__ = original
    assert (stopped.done, stopped.missing) == (0, 1)
    assert len(os.listdir(store.checkpoints)) == 1
    resumed, _, _ = run(description)
    assert resumed.done == 1
    values = store.load(min(store.names())).values
    assert 0 < values["began"][0] < 100
    assert values["ended"][0] == 100
    assert os.listdir(store.checkpoints) == []


class LosesMeasurements(Here):
    """Loses its worker while it measures some kinds of tasks, so many times each."""

    def __init__(self, losses):
        self.losses, self.measured = losses, []

    def map(self, function, jobs):
        for job in jobs:
            if isinstance(job, tuple):  # a measurement
                self.measured.append(job[0])
                if self.losses.get(job[0], 0) > 0:
                    self.losses[job[0]] -= 1
                    raise WorkersLost("killed")
            yield function(job)


def test_a_worker_killed_while_measuring_costs_only_what_it_measured(run, written):
    """Everything else is measured once more; a kind that kills its worker again gets ensembles of one task."""
    description = written(axes={"L": [8, 16, 32], "P": [100]}, seeds=60)
    del description["group"]
    summary, store, _ = run(description, backend=(backend := LosesMeasurements({1: 1})))
    assert backend.measured == [0, 1, 2, 1]
    assert (summary.done, summary.status) == (180, 0)
    (plan,) = read_plans(store)
    assert [bool(entry["seconds"]) for entry in plan.about.calibration] == [True] * 3


def test_a_kind_of_task_that_kills_every_worker_that_measures_it(run, written, tmp_path):
    description = written(axes={"L": [8, 16], "P": [100]}, seeds=30)
    del description["group"]
    summary, store, _ = run(description, backend=(backend := LosesMeasurements({0: 9})))
    assert backend.measured == [0, 1, 0]
    assert summary.done == 60
    (plan,) = read_plans(store)
    assert [len(entry["seconds"]) > 0 for entry in plan.about.calibration] == [False, True]
    assert plan.about.calibration[0]["size"] == 1


class PreEmpted(Here):
    """Takes the worker of a job away so many times, each time after a checkpoint was written, or not."""

    def __init__(self, times, saves):
        self.left, self.saves, self.lost = times, saves, 0

    def map(self, function, jobs):
        for job in jobs:
            if self.left > 0:
                self.left -= 1
                self.lost += 1
                if self.saves:
                    path = Store(job.store).checkpoint(job.group)
                    path.write_bytes(b"")
                    os.utime(path, ns=(self.lost * 10**9, self.lost * 10**9))
                raise WorkersLost("Dask gave up on them", [job])
            yield function(job)


def test_pre_emptions_of_a_task_that_gets_further_each_time_are_no_failure(run, written):
    description = written(axes={"L": [16], "P": [100]}, seeds=1, group=1)
    summary, _, _ = run(description, backend=(backend := PreEmpted(9, saves=True)))
    assert (backend.lost, summary.done, summary.failed) == (9, 1, {})


def test_a_task_that_kills_its_workers_without_getting_anywhere_is_a_failure(run, written):
    description = written(axes={"L": [16], "P": [100]}, seeds=1, group=1)
    summary, _, _ = run(description, backend=PreEmpted(9, saves=False))
    assert [kind for kind, _ in summary.failed.values()] == ["WorkerKilled"]


def test_an_interrupt_while_speeds_are_measured_plans_nothing(run, written, tmp_path):
    """What was measured until then would be the plan for good."""

    class Interrupted(Here):
        def map(self, function, jobs):
            for job in jobs:
                (stop,) = [job[1].stop_file]
                stop.touch()
                yield function(job)

    description = written(axes={"L": [8, 16], "P": [100]}, seeds=3)
    del description["group"]
    summary, store, _ = run(description, backend=Interrupted())
    assert (summary.done, summary.missing) == (0, 6)
    assert read_plans(store) == []
    summary, store, _ = run(description)
    assert summary.done == 6
