"""A real Dask cluster: scheduler and workers are processes of their own on loopback."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from benchmarks._cluster import ROOT, dask_cluster
from phasekit.errors import InputError
from phasekit.runs.store.collect import collect, to_dataset
from phasekit.runs.work.backends import DaskCluster

KILLS = int(os.environ.get("PHASEKIT_KILLS", "1"))
GROUP = 2
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    with dask_cluster(2) as address:
        backend = DaskCluster(address)
        yield backend
        backend.close()


def same(a, b):
    mine, theirs = collect(a), collect(b)
    return mine.table.equals(theirs.table) and to_dataset(mine).identical(to_dataset(theirs))


def test_networks_are_the_same_to_the_last_bit(run, cluster, tmp_path):
    description = {
        "seeds": 2,
        "group": 3,
        "model": {"V": 5, "score": "softmax"},
        "axes": {"L": [9, 13], "P": [40, 60]},
        "procedure": {"name": "adam", "steps": 60, "attention": True},
    }
    there, remote, _ = run(description, store=tmp_path / "remote", backend=cluster)
    here, local, _ = run(description, store=tmp_path / "local")
    assert there.done == here.done == 8
    assert same(remote, local)


def test_killed_workers(run, written, cluster, tmp_path):
    log = tmp_path / "log"
    description = written(seeds=max(40, 20 * KILLS), group=GROUP, seconds=0.02, log=str(log))
    chance, killed, finished = random.Random(3), [], threading.Event()

    def kill():
        while len(killed) < KILLS and not finished.is_set():
            time.sleep(chance.uniform(0.05, 0.4))
            pids = list(cluster._client.run(os.getpid).values())
            if pids:
                os.kill(chance.choice(pids), signal.SIGKILL)
                killed.append(1)
                cluster._client.wait_for_workers(1, timeout=60)

    killer = threading.Thread(target=kill)
    killer.start()
    summary, store, _ = run(description, store=tmp_path / "remote", backend=cluster)
    finished.set()
    killer.join()
    assert len(killed) == KILLS, "the sweep should be long enough for all kills"
    assert (summary.failed, summary.missing) == ({}, 0)
    lines = log.read_text().splitlines()
    assert len(set(lines)) == summary.total
    assert len(lines) - summary.total <= KILLS * GROUP, "no more done twice than the kills had interrupted"
    _, reference, _ = run(description, store=tmp_path / "local")
    assert same(store, reference)
    assert list(store.problems()) == []


def test_a_result_that_died_with_its_worker_is_computed_again(cluster):
    """It was finished, but nobody had fetched it yet: the scheduler reports it lost, and computes it again."""
    results = cluster.map(abs, [-1, -2, -3, -4])
    first = next(results)
    time.sleep(0.5)  # the others are in the workers' memory by now
    for pid in cluster._client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)  # and the scheduler has noticed
    assert sorted([first, *results]) == [1, 2, 3, 4]


def test_a_task_that_kills_its_worker_is_recorded(run, written, cluster):
    """Dask gives up on it after a few workers; so do we, and the others finish."""
    summary, _, notes = run(written(deadly=[1], axes={"L": [16], "P": [100]}, seeds=3, group=1), backend=cluster)
    assert (summary.done, len(summary.failed), summary.missing) == (2, 1, 0)
    assert {kind for kind, _ in summary.failed.values()} == {"WorkerKilled"}
    assert any("a worker died" in text for text in notes.remarks)


def test_a_scheduler_that_is_not_there():
    with pytest.raises(InputError, match="no cluster answers"):
        DaskCluster("tcp://127.0.0.1:1", wait=0.5)


@pytest.mark.parametrize("address", ["nowhere", "tcp://nowhere", "tcp://127.0.0.1:port", "what://127.0.0.1:1", ""])
def test_a_word_that_is_no_address_is_refused_before_a_client_is_made(address, monkeypatch):
    """A client of Dask's with such an address waits a minute when it is deleted, then complains on standard error."""
    monkeypatch.setattr("distributed.Client", None)
    with pytest.raises(InputError, match="no cluster answers"):
        DaskCluster(address)


def test_arrays_come_back_whole(run, written, cluster, tmp_path):
    _, store, _ = run(written(seeds=1), store=tmp_path / "remote", backend=cluster)
    for name in store.names():
        assert store.load(name).arrays["A"].dtype == np.float32


def test_a_scheduler_that_goes_while_tasks_run(capfd):
    with dask_cluster(1) as address:
        backend = DaskCluster(address)
        results = backend.map(time.sleep, [0, 60])
        next(results)
    with pytest.raises(InputError, match="has gone"):
        list(results)
    backend.close()
    assert capfd.readouterr().err == "", "one line says it; Dask's tracebacks would hide it"


@pytest.mark.parametrize("lives", [True, False])
def test_a_connection_that_is_lost_while_a_result_is_fetched(cluster, monkeypatch, lives):
    """If the scheduler lives, it is asked again; else that is said, rather than what the socket said."""
    from distributed import Future
    from distributed.comm.core import CommClosedError

    lost, fetch = [], Future.result

    def result(future, *arguments):
        if not lost:
            lost.append(future)
            raise CommClosedError("Connection reset by peer")
        return fetch(future, *arguments)

    def count():
        if lost and not lives:
            raise InputError("scheduler", "there", "has gone")
        return 2

    monkeypatch.setattr(Future, "result", result)
    monkeypatch.setattr(cluster, "_count", count)
    results = cluster.map(abs, [-1, -2, -3])
    if lives:
        assert sorted(results) == [1, 2, 3]
    else:
        with pytest.raises(InputError, match="has gone"):
            list(results)


def test_work_waits_for_a_worker_as_long_as_the_scheduler_lives():
    """A job may stand in a queue for hours before there is the first worker; later ones are counted too."""
    with dask_cluster(0) as address:
        backend = DaskCluster(address, wait=5)
        assert "no threads yet" in backend.description
        found: list[int] = []
        waiting = threading.Thread(target=lambda: found.extend(backend.map(abs, [-1, -2, -3])))
        waiting.start()
        time.sleep(0.5)
        assert (waiting.is_alive(), found) == (True, [])
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard", "--nthreads", "3"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        worker = subprocess.Popen(command, cwd=ROOT, **quiet)
        try:
            waiting.join(60)
            assert sorted(found) == [1, 2, 3]
            assert backend._count() == 3
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            backend.close()


@pytest.mark.nightly
def test_a_cluster_that_grows_gets_more_work(cluster, monkeypatch):
    """Workers are counted anew: two tasks each are with the scheduler, one of them in reserve."""
    handed_out, counts = [], iter([1, 20, 20, 20, *[60] * 200])

    def jobs():
        for number in range(200):
            handed_out.append(number)
            yield number

    monkeypatch.setattr(cluster, "_count", lambda: next(counts))
    monkeypatch.setattr("phasekit.runs.work.backends._COUNT_EVERY", -1.0)
    results = cluster.map(abs, jobs())
    seen = []
    for _ in range(4):
        next(results)
        seen.append(len(handed_out))
    assert seen[0] == 32, "what a cluster of 16 would need, so that one that adapts grows at once"
    assert seen[1:] == [41, 42, 43]
    next(results)
    assert len(handed_out) == 4 + 120
    assert len(list(results)) == 195
