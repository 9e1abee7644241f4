"""A Dask cluster of real processes on loopback, for benchmarks and tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PATIENCE = 60.0


@contextmanager
def dask_cluster(workers: int) -> Iterator[str]:
    """Start a scheduler and workers of one thread each, and yield the scheduler's address.

    Every worker has a nanny, which starts it again when it dies, as on a real cluster.
    """
    folder = Path(tempfile.mkdtemp(prefix="phasekit-dask-"))
    contact = folder / "scheduler.json"
    shared = ["--scheduler-file", str(contact), "--host", "127.0.0.1", "--no-dashboard"]
    settings: dict[str, Any] = {
        "cwd": folder,
        "env": {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        "start_new_session": True,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }

    def start(command: str, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", f"distributed.cli.{command}", *shared, *options], **settings)

    processes = [start("dask_scheduler", "--port", "0")]
    try:
        processes += [start("dask_worker", "--nthreads", "1", "--memory-limit", "0") for _ in range(workers)]
        deadline = time.monotonic() + _PATIENCE
        while not contact.exists():
            if time.monotonic() > deadline or processes[0].poll() is not None:
                raise TimeoutError("the Dask scheduler did not start")
            time.sleep(0.05)
        yield json.loads(contact.read_text())["address"]
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)  # with the children that it started
            process.wait(timeout=_PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)
