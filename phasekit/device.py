"""Where networks run, and in which precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from phasekit.errors import InputError

#: Multiplications of a step above which several CPU threads are faster than one.
_WORTH_SHARING = 2e8

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


def resolve_device(name: str = "auto") -> torch.device:
    """Return the device of that name; "auto" is the GPU (CUDA) where there is one, else the CPU.

    Raises
    ------
    InputError
        If the name is none of "auto", "cpu", "cuda", "cuda:N", or this machine lacks the device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise InputError("device", name, "must be auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError("device", name, f"this machine has {torch.cuda.device_count()} CUDA devices")
    return device


def resolve_dtype(name: str) -> torch.dtype:
    """Return the torch dtype called "float32" or "float64".

    Raises
    ------
    InputError
        For any other name.
    """
    if name not in _DTYPES:
        raise InputError("dtype", name, "must be float32 or float64")
    return _DTYPES[name]


def describe_device(device: torch.device) -> str:
    """Return the device's name for records: "cpu", or "cuda:0 (NVIDIA ...)"."""
    if device.type != "cuda":
        return device.type
    return f"cuda:{device.index or 0} ({torch.cuda.get_device_name(device)})"


def wait_for(device: torch.device) -> None:
    """Return when all work queued on the device is done (before reading a clock)."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def suitable_threads(device: torch.device, multiplications: float) -> Iterator[None]:
    """Work on one CPU thread where there is too little to share, else on as many as before; then restore.

    Never on more than OMP_NUM_THREADS, or whatever the caller set: threads that wait for one another at each of many
    short products made ensembles of small heads several times slower than one thread.

    Parameters
    ----------
    device : torch.device
    multiplications : float
        Of one gradient of all networks together.
    """
    before = torch.get_num_threads()
    if device.type == "cpu" and multiplications < _WORTH_SHARING:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
