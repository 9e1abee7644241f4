"""How a worker process is set up: its threads, its GPU, and that it ends when its runner does."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from joblib import cpu_count

from phasekit.errors import InputError
from phasekit.threads import allowed_threads, limit_threads

_LOOK_EVERY = 0.5

#: The lock that makes this process the owner of its GPU; held until the process ends.
_slot: int | None = None


def prepare(runner: int, threads: int, gpus: Sequence[str], slots: str) -> None:
    """Set up this worker process; called once, before anything is computed.

    Parameters
    ----------
    runner : int
        Process id of the runner: when it is gone, this process ends too.
    threads : int
        Threads to compute with.
    gpus : sequence of str
        Devices to share out, one for each process; empty on a CPU.
    slots : path
        Folder for the locks that say which process has which device.
    """
    # Ctrl-C reaches all processes of a terminal, and SIGTERM from a batch system all of a job. The runner decides: its
    # workers save what they have, and end when it does.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    limit_threads(threads)
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = take_gpu(gpus, Path(slots))
    threading.Thread(target=_end_with, args=(runner,), daemon=True).start()


def workers_and_threads(workers: int | None, threads: int | None, device: str) -> tuple[int, int]:
    """Return how many processes to work with, and with how many threads each.

    By default there is one process for each core, or for each GPU, and the cores are shared out among their threads;
    there are never more threads than OMP_NUM_THREADS says.

    Raises
    ------
    InputError
        For GPUs that this machine lacks, more processes than GPUs, or more threads than OMP_NUM_THREADS.
    """
    gpus = visible_gpus() if device in ("cuda", "auto") else []
    if device == "cuda" and not gpus:
        raise InputError("device", device, "this machine has no CUDA device")
    if gpus and workers is not None and workers > len(gpus):
        raise InputError("jobs", workers, f"there is one process for each GPU, and {len(gpus)} of them")
    workers = workers or len(gpus) or cpu_count()
    most = allowed_threads()
    if threads is not None and most is not None and threads > most:
        raise InputError("threads", threads, f"OMP_NUM_THREADS allows {most}")
    return workers, threads or min(most or cpu_count(), max(1, cpu_count() // workers))


def take_gpu(gpus: Sequence[str], slots: Path) -> str:
    """Take a device that no other process has, and keep it until this process ends, however it ends.

    Raises
    ------
    RuntimeError
        If all devices are taken.
    """
    global _slot
    for gpu in gpus:
        handle = os.open(slots / gpu.replace("/", "_"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        _slot = handle
        return gpu
    raise RuntimeError(f"all of the {len(gpus)} GPUs are taken by other workers")


def visible_gpus() -> list[str]:
    """Return the names of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES has them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def _end_with(runner: int) -> None:
    while os.getppid() == runner:
        time.sleep(_LOOK_EVERY)
    os._exit(1)
