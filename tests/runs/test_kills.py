"""kill -9, at random points and again and again: nothing is lost, nothing is done twice, nothing differs.

``PHASEKIT_KILLS`` says how often each kind of process (runners, workers, Dask workers) is killed: once by default, 20
times each in the nightly job.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from phasekit.runs.store.collect import collect, to_dataset
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.sweeps.expand import expand

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("PHASEKIT_KILLS", "1"))
GROUP = 2
pytestmark = pytest.mark.slow
SWEEP = """
about = "probes to kill"
seeds = {seeds}
group = {group}
[model]
V = 8
score = "softmax"
[axes]
L = [16, 32]
P = [100, 200]
[procedure]
name = "tests.runs.probes:Probe"
seconds = 0.02
log = "{log}"
"""


class Sweep:
    """A sweep of probes in files, and runners of it in processes of their own."""

    def __init__(self, folder, tasks):
        self.file, self.log, self.store = folder / "probes.toml", folder / "log", Store(folder / "store")
        self.file.write_text(SWEEP.format(log=self.log, seeds=-(-tasks // 4), group=GROUP))
        self.total = len(expand(load_sweep(self.file)))
        self.seen = {}

    def start(self, *options):
        command = [sys.executable, "-c", "from phasekit.cli import main; main()", "run", str(self.file)]
        command += ["--store", str(self.store.path), *options]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, *options):
        with self.start(*options) as running:
            out, err = running.communicate(timeout=120)
        assert running.returncode == 0, (out, err)

    def look(self):
        """Remember the results that are there; those seen before must not have been touched."""
        now = {}
        for name in self.store.names() if self.store.exists() else ():
            found = (self.store.workspace / name / "result.npz").stat()
            now[name] = (found.st_ino, found.st_mtime_ns)
        assert self.seen.items() <= now.items(), "a finished result was lost or replaced"
        self.seen = now
        return len(now)

    def wait_for(self, count, running):
        """Wait until so many tasks are finished, or the runner has ended."""
        deadline = time.monotonic() + 120
        while self.look() < count and running.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def check(self, reference, kills, in_flight):
        """Nothing lost, broken or different, and no more computed twice than the kills had interrupted."""
        assert self.look() == self.total
        assert list(self.store.problems()) == []
        assert os.listdir(self.store.failures) == []
        assert os.listdir(self.store.staging) == []
        lines = self.log.read_text().splitlines()
        assert len(set(lines)) == self.total
        assert len(lines) - self.total <= kills * in_flight * GROUP
        mine, theirs = collect(self.store), collect(reference)
        assert mine.table.equals(theirs.table)
        assert to_dataset(mine).identical(to_dataset(theirs))
        for name, arrays in theirs.arrays.items():
            np.testing.assert_array_equal(mine.arrays[name]["A"], arrays["A"])


@pytest.fixture
def sweep(tmp_path):
    return Sweep(tmp_path, tasks=20 * KILLS)


@pytest.fixture
def reference(run, sweep):
    """The same sweep, uninterrupted, in another store."""
    import tomllib

    description = tomllib.loads(sweep.file.read_text())
    description["procedure"]["log"] = str(sweep.log)
    summary, store, _ = run(description, store=sweep.store.path.with_name("reference"))
    assert summary.done == sweep.total
    sweep.log.unlink()
    return store


def children(pid):
    """Return the processes that a process has started."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in path.read_text().split()]
    return found


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except FileNotFoundError:
        return ""


def test_killed_runners(sweep, reference):
    chance = random.Random(1)
    for _ in range(KILLS):
        running = sweep.start()
        sweep.wait_for(sweep.look() + chance.randint(0, 12), running)
        time.sleep(chance.uniform(0, 0.05))
        running.kill()
        running.communicate()
    sweep.finish()
    sweep.check(reference, KILLS, in_flight=2)


def test_killed_workers(sweep, reference):
    chance = random.Random(2)
    killed = 0
    with sweep.start() as running:
        while killed < KILLS:
            sweep.wait_for(sweep.look() + chance.randint(1, 10), running)
            assert running.poll() is None, "the sweep should be long enough for all kills"
            time.sleep(chance.uniform(0, 0.05))
            workers = [pid for pid in children(running.pid) if "loky" in command(pid) and "popen" in command(pid)]
            if workers:
                os.kill(chance.choice(workers), signal.SIGKILL)
                killed += 1
        out, err = running.communicate(timeout=120)
    assert running.returncode == 0, (out, err)
    assert "a worker died" in err
    sweep.check(reference, KILLS, in_flight=2)


def test_two_runners_on_one_store(sweep, reference):
    with sweep.start() as one, sweep.start() as other:
        outputs = [running.communicate(timeout=120) for running in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), outputs
    sweep.check(reference, kills=0, in_flight=0)


def test_an_interrupt_ends_the_run_and_a_second_one_at_once(tmp_path):
    sweep = Sweep(tmp_path, tasks=400)
    with sweep.start() as running:
        sweep.wait_for(4, running)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopping" in err
    assert "Traceback" not in err
    assert "missing" in out
    assert list(sweep.store.problems()) == []

    with sweep.start() as running:
        sweep.wait_for(sweep.look() + 4, running)
        begun = time.monotonic()
        running.send_signal(signal.SIGINT)
        time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
        assert time.monotonic() - begun < 5
    assert running.returncode == 130
    assert list(sweep.store.problems()) == []


def test_workers_end_with_their_runner(tmp_path):
    sweep = Sweep(tmp_path, tasks=400)
    with sweep.start() as running:
        sweep.wait_for(4, running)
        orphans = [pid for pid in children(running.pid) if "loky" in command(pid) and "popen" in command(pid)]
        assert orphans
        running.kill()
        running.communicate()
    deadline = time.monotonic() + 20
    while any("loky" in command(pid) for pid in orphans):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_disk_that_is_really_full(tmp_path):
    """A file system of a few hundred kilobytes; needs the right to mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("not allowed to mount a small file system")
    try:
        sweep = Sweep(tmp_path, tasks=80)
        sweep.store = Store(disk / "store")
        with sweep.start() as running:
            out, err = running.communicate(timeout=120)
        assert running.returncode == 1, (out, err)
        assert "error: results can't be written: No space left on device" in err
        assert "Traceback" not in err
        done = sweep.look()
        assert 0 < done < sweep.total
        assert list(sweep.store.problems()) == []
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        sweep.finish()
        assert sweep.look() == sweep.total
        assert list(sweep.store.problems()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
