"""The state of long work on disk, as named tensors: whole or not at all, and resumed only by the work it belongs to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.files import atomic

if TYPE_CHECKING:
    from torch import Tensor

#: Tensors by name: the parameters of a network, where chains stand, momenta, gradients …
Tensors = Mapping[str, "Tensor"]

#: Called now and then by long work, with a function that saves its state: to save by the clock, or to stop by raising.
Pause = Callable[[Callable[[], None]], None]

_FORMAT = "phasekit checkpoint 2"
#: Chains of earlier versions: positions were numbered, and names begin with "state ".
_FORMER = "phasekit sampling checkpoint 1"


def save_checkpoint(path: str | Path, run: Mapping[str, Any], tensors: Mapping[str, Tensor | NDArray[Any]]) -> None:
    """Write an .npz file under a temporary name, and move it to ``path``.

    Parameters
    ----------
    path : path
    run : mapping
        What was asked for, as plain JSON values; only a run with the same may resume.
    tensors : mapping of str to Tensor or array
        Everything that determines how the work goes on.

    Raises
    ------
    InputError
        If the path can't be written to, or doesn't end in .npz.
    """
    if Path(path).suffix != ".npz":
        raise InputError("checkpoint", str(path), "its name must end in .npz")
    arrays = {name: np.asarray(x) if isinstance(x, np.ndarray) else x.cpu().numpy() for name, x in tensors.items()}
    header = json.dumps({"format": _FORMAT, "run": run}, sort_keys=True)
    with atomic(path) as temporary:
        np.savez(temporary, allow_pickle=False, header=np.array(header), **arrays)


def load_checkpoint(path: str | Path, run: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read what :func:`save_checkpoint`, or an earlier version, wrote for this run.

    Training of earlier versions wrote no description of its run: whoever resumes finds out by the shapes.

    Raises
    ------
    InputError
        If the file is no checkpoint, is damaged, or belongs to another run.
    """
    import torch

    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header: dict[str, Any] = {"format": None, "run": run}
        if "header" in arrays:
            header = json.loads(str(arrays.pop("header")))
        known, found = header.get("format", "another"), dict(header.get("run", {}))
    except (OSError, ValueError, AttributeError, TypeError, EOFError, BadZipFile) as error:
        raise InputError("checkpoint", str(path), f"can't be read ({error})") from None
    if known not in (_FORMAT, _FORMER, None):
        raise InputError("checkpoint", str(path), f"must be a {_FORMAT!r} file")
    wanted = json.loads(json.dumps(run))
    other = sorted(name for name in wanted.keys() | found.keys() if known and wanted.get(name) != found.get(name))
    if other:
        raise InputError("checkpoint", str(path), f"belongs to a run with other {', '.join(other)}")
    return {name.removeprefix("state "): torch.from_numpy(array) for name, array in arrays.items()}
