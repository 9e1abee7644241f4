"""The state of a long task on disk, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from phasekit.files import atomic

if TYPE_CHECKING:
    from torch import Tensor


def save_state(path: Path | None, state: Mapping[str, Tensor]) -> None:
    """Write tensors to an .npz file; nothing without a path."""
    if path is None:
        return
    with atomic(path) as temporary:
        np.savez(temporary, allow_pickle=False, **{name: tensor.cpu().numpy() for name, tensor in state.items()})


def load_state(path: Path | None) -> dict[str, Tensor] | None:
    """Read what :func:`save_state` wrote; None if there is nothing, or nothing whole (the task then begins anew)."""
    import torch

    if path is None:
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: torch.from_numpy(file[name]) for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
