"""The state of a sampling run on disk: whole or not at all, and only resumed by the run that it belongs to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.files import atomic

_FORMAT = "phasekit sampling checkpoint 1"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands.

    Attributes
    ----------
    run : dict
        What was asked for, as plain JSON values; a run resumes only from a checkpoint with the same.
    tensors : dict of str to Tensor
        The sampler's state.
    draws : array, shape (draws, observables, D, M)
        Recorded so far.
    """

    run: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    draws: NDArray[np.float64]

    def save(self, path: str | Path) -> None:
        """Write an .npz file under a temporary name, and move it to ``path``.

        Raises
        ------
        InputError
            If the path can't be written to, or doesn't end in .npz.
        """
        if Path(path).suffix != ".npz":
            raise InputError("checkpoint", str(path), "its name must end in .npz")
        arrays = {f"state {name}": tensor.cpu().numpy() for name, tensor in self.tensors.items()}
        header = json.dumps({"format": _FORMAT, "run": self.run}, sort_keys=True)
        with atomic(path) as temporary:
            np.savez(temporary, header=np.array(header), draws=self.draws, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | Path, run: dict[str, Any]) -> Checkpoint:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is no checkpoint, is damaged, or belongs to another run.
        """
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop("header")))
            draws = arrays.pop("draws")
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise InputError("checkpoint", str(path), f"can't be read ({error})") from None
        if header.get("format") != _FORMAT:
            raise InputError("checkpoint", str(path), f"must be a {_FORMAT!r} file")
        run = json.loads(json.dumps(run))
        other = sorted(name for name in run.keys() | header["run"].keys() if run.get(name) != header["run"].get(name))
        if other:
            raise InputError("checkpoint", str(path), f"belongs to a run with other {', '.join(other)}")
        tensors = {name.removeprefix("state "): torch.from_numpy(array) for name, array in arrays.items()}
        return cls(run, tensors, draws)
