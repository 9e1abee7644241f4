"""The two recipes of docs/runs.md for clusters, taken from the page and run on a real SLURM.

Jobs wait in the queue, the cluster grows from one job to all, jobs are cancelled while they work and replaced, give way
to urgent ones and come back, the scheduler dies, everything is cancelled, and taken up again. The collected data are
then those of a run on this machine, to the last bit.
"""

import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from phasekit.runs.store.collect import collect, to_dataset
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from tests.runs.probes import Here
from tests.runs.slurm import PATIENCE, ROOT, eventually, missing, slurm

WHY_NOT = missing()
needs_slurm = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

PAGE = (ROOT / "docs" / "runs.md").read_text("utf-8")
ARRAY, LOGIN = (
    re.search(rf"<!-- executed by tests/runs/test_slurm.py -->\n```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    for kind in ("sh", "python")
)
CPUS = 8
JOBS = 3
GROUP = 2

#: Trained heads, whose last digits depend on their company; two long tasks that save their state; and many short ones
#: that leave a line in a log when they are done.
SWEEP = """
seeds = 2
group = 2
model = {V = 4, L = 8, score = "softmax"}
procedure = {name = "adam", steps = 60}

[[part]]
axes.P = [20, 40]

[[part]]
axes.P = [30]
procedure = {name = "tests.runs.probes:Walk", log = "walk"}

[[part]]
axes.P = "16..4096 in 40"
procedure = {name = "tests.runs.probes:Paced", log = "log"}
"""
TASKS = 2 * (2 + 40 + 1)


class Work:
    """A folder with a sweep, the store that it is computed in, and the logs of what was done; jobs run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sweep.toml").write_text(SWEEP)

    @property
    def store(self) -> Store:
        """Its store, as it is now."""
        return Store(self.folder / "store")

    def done(self) -> int:
        """Return how many tasks are finished."""
        return len(self.store.names()) if self.store.exists() else 0

    def working(self) -> int:
        """Return how many ensembles are claimed, or were when a job died."""
        return len(list(self.store.claims.glob("[!.]*"))) if self.store.exists() else 0

    def began(self) -> list[int]:
        """Return the steps that the long tasks began at, each time."""
        return [int(line) for line in self._lines("walk")]

    def repeated(self) -> int:
        """Return how many short tasks were done more often than once."""
        return sum(count - 1 for count in Counter(self._lines("log")).values())

    def _lines(self, name: str) -> list[str]:
        log = self.folder / name
        return log.read_text().split("\n")[:-1] if log.exists() else []

    def pace(self, seconds: float) -> None:
        """Let short tasks, and each step of long ones, take so long from now on."""
        new = self.folder / "pace.new"
        new.write_text(str(seconds))
        new.rename(self.folder / "pace")

    def is_same_as(self, other: "Work") -> bool:
        """Whether both collected the same, to the last bit."""
        mine, theirs = collect(self.store), collect(other.store)
        return mine.table.equals(theirs.table) and to_dataset(mine).identical(to_dataset(theirs))


@pytest.fixture
def local(tmp_path, monkeypatch):
    """The same sweep, computed in this process."""
    (tmp_path / "local").mkdir()
    work = Work(tmp_path / "local")
    monkeypatch.chdir(work.folder)  # where the logs go
    sweep = load_sweep("sweep.toml")
    run_sweep(sweep, expand(sweep), Store.create("store"), Here(), Silent())
    return work


@pytest.fixture
def cluster(tmp_path):
    """A SLURM with eight processors."""
    (tmp_path / "slurm").mkdir()
    with slurm(tmp_path / "slurm", CPUS) as running:
        yield running


def test_the_notebook_has_the_same_job_array():
    notebook = (ROOT / "docs" / "notebooks" / "cluster.md").read_text("utf-8")
    assert ARRAY.replace("SWEEP.toml", "jump.toml").replace("/shared/runs/NAME", "/shared/store") in notebook


def fill(cluster):
    """Leave no processor free; return the jobs that take one of them, and all others."""
    jobs = cluster.submit("sleep 1000"), cluster.submit("sleep 1000", f"--cpus-per-task={CPUS - 1}")
    eventually("the node is full", lambda: len(cluster.jobs("running")) == 2)
    return jobs


@needs_slurm
@pytest.mark.slow
def test_a_job_array_of_runners(cluster, local):
    work, script = Work(cluster.folder), cluster.folder / "array.sh"
    script.write_text(ARRAY.replace("SWEEP.toml", "sweep.toml").replace("/shared/runs/NAME", "store"))
    one, others = fill(cluster)
    work.pace(2)
    cluster.submit(script, f"--array=1-{JOBS}")
    eventually("the array is in the queue", lambda: len(cluster.jobs("pending")) == JOBS)

    cluster.cancel(one)
    eventually("one job has done something", lambda: work.done() >= GROUP)
    assert len(cluster.jobs("running")) == 2, "the job that fills the node, and one of the array"
    cluster.cancel(others)
    eventually("all jobs work", lambda: work.working() == JOBS)

    victim = cluster.jobs("running")[0]
    cluster.cancel(victim)
    cluster.submit(script, f"--array={JOBS + 1}")
    eventually("it was replaced", lambda: victim not in cluster.jobs() and work.working() == JOBS)
    said = (cluster.folder / f"job-{victim.replace('_', '-')}.log").read_text()
    assert ("stopping" in said, "missing" in said, "died" in said) == (True, True, False), "it saved its state"

    cluster.submit("true", f"--cpus-per-task={CPUS}", "--partition=urgent")
    eventually("all gave way", lambda: len(cluster.jobs("pending")) == JOBS)
    eventually("all are back", lambda: len(cluster.jobs("running")) == JOBS and work.working() == JOBS)

    cluster.kill("slurmctld")
    before = work.done()
    eventually("jobs go on without the scheduler of jobs", lambda: work.done() >= before + 2)
    cluster.start_controller()
    assert len(cluster.jobs("running")) == JOBS

    cluster.cancel(*cluster.jobs())
    eventually("all were cancelled", lambda: not cluster.jobs())
    assert work.done() < TASKS, "the sweep should be long enough for all of this"
    work.pace(0)
    cluster.submit(script, "--array=1")
    eventually("the array has ended", lambda: not cluster.jobs())
    assert work.done() == TASKS
    assert work.is_same_as(local)
    assert list(work.store.problems()) == []
    assert work.began() == sorted(set(work.began())), "the long tasks went on where they were"
    assert work.repeated() <= 2 * GROUP * JOBS, "no more done twice than both cancellations of all had interrupted"


class Login:
    """The second recipe, as it runs on the login node, and a run that takes its workers.

    Parameters
    ----------
    cluster : Cluster
    name : str
        Of this attempt.
    """

    def __init__(self, cluster, name):
        cluster.environment["DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT"] = "1s"  # 15 s unless said
        (cluster.folder / "login.py").write_text(LOGIN)
        self.cluster, self.name = cluster, name
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.node = cluster.start(sys.executable, "login.py", name=name, **pipes)
        address = self.node.stdout.readline().strip()
        command = ["phasekit", "run", "sweep.toml", "--store", "store", "--backend", "dask", "--scheduler", address]
        self.runner = cluster.start(*command, name=f"{name}-run")

    def said(self):
        """Return what the run wrote to standard error."""
        return (self.cluster.folder / f"{self.name}-run.err").read_text()

    def end(self):
        """Press Enter, as the recipe says."""
        self.node.communicate("\n", timeout=PATIENCE)
        eventually("its jobs were cancelled", lambda: not self.cluster.jobs())


@needs_slurm
@pytest.mark.nightly
def test_jobs_of_dask_jobqueue(cluster, local):
    work = Work(cluster.folder)
    one, others = fill(cluster)
    work.pace(2)
    login = Login(cluster, "first")
    eventually("a job is in the queue", lambda: cluster.jobs("pending"))
    eventually("the run has begun", lambda: "no threads yet" in login.said())
    assert (login.runner.poll(), work.done()) == (None, 0), "the run waits for its first job"

    cluster.cancel(one)
    eventually("one job has done something", lambda: work.done() >= GROUP)
    cluster.cancel(others)
    eventually("several work", lambda: work.working() >= 3)
    assert len(cluster.jobs("running")) == CPUS

    cluster.kill("slurmctld")
    before = work.done()
    eventually("jobs go on without the scheduler of jobs", lambda: work.done() >= before + 2)
    cluster.start_controller()
    running = cluster.jobs("running")
    cluster.cancel(running[0])
    eventually("it was replaced", lambda: running[0] not in cluster.jobs() and {*cluster.jobs("running")} - {*running})

    cluster.kill("first")
    assert login.runner.wait(PATIENCE) == 2
    assert "has gone; start it again and run again" in login.said().splitlines()[-1]
    cluster.cancel(*cluster.jobs())
    assert work.done() < TASKS, "the sweep should be long enough for all of this"

    work.pace(0)
    login = Login(cluster, "second")
    assert login.runner.wait(PATIENCE) == 0, login.said()
    login.end()
    assert work.done() == TASKS
    assert work.is_same_as(local)
    assert list(work.store.problems()) == []


@needs_slurm
@pytest.mark.nightly
def test_a_long_task_whose_jobs_are_pre_empted_again_and_again(cluster, local):
    """It goes on from its last checkpoint each time, and isn't taken for one that kills its workers."""
    work = Work(cluster.folder)
    work.pace(2)
    login = Login(cluster, "login")
    for times in range(1, 6):
        eventually("the long task has begun", lambda times=times: len(work.began()) == times)
        time.sleep(1)  # two of its steps
        cluster.submit("true", f"--cpus-per-task={CPUS}", "--partition=urgent")
        eventually("all gave way", lambda: not cluster.jobs("running"))
    work.pace(0)
    assert login.runner.wait(PATIENCE) == 0, login.said()
    login.end()
    began = work.began()
    assert began == sorted(set(began)), "each time further on"
    assert "failed" not in login.said()
    assert work.is_same_as(local)
