"""Chains on their way: updated, looked at, written down, saved and resumed. Every sampling run goes through here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phasekit.checkpoint import Pause, Tensors, load_checkpoint, save_checkpoint
from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.progress import Report
from phasekit.samplers.target import Kernel, State, Target, flat

# Updates between two looks at whether all chains are finite, while nothing is recorded.
_LOOK_EVERY = 100


class NotFinite(ArithmeticError):
    """A chain's numbers are no longer finite.

    Attributes
    ----------
    chain : int
        Its number: members of the first data set come first.
    draw : int or None
        The first draw that isn't finite, counted from 0; None in warm-up.
    step : int
        Updates done.
    """

    def __init__(self, chain: int, draw: int | None, step: int) -> None:
        super().__init__(f"chain {chain} is not finite at step {step}; a shorter step may help")
        self.chain, self.draw, self.step = chain, draw, step


def check_draws(draws: int, chains: int) -> None:
    """Refuse more draws than memory holds, before any work.

    Raises
    ------
    InputError
    """
    try:
        np.empty((draws, chains, 9))  # is promised, not touched
    except (MemoryError, ValueError):
        raise InputError("draws", draws, f"those of {chains} chains don't fit into memory") from None


class Chains:
    """Chains, and what they recorded.

    Parameters
    ----------
    target : Target
    kernel : Kernel
        Built for this target.
    position : mapping of str to Tensor
        Where they begin.
    observe : callable
        From a position to the numbers to record: a tensor of shape (observables, chains) or (observables, D, M).
    thin, warmup : int
        A draw is recorded every ``thin`` updates after ``warmup`` updates.
    description : mapping, optional
        What determines all chains, as plain JSON values; a checkpoint with another description isn't theirs.
    sums : mapping of str to Tensor, optional
        Tensors that ``observe`` adds to; they are part of the state.

    Attributes
    ----------
    state : State
    recorded : list of array
        One a draw, shaped as ``observe`` returns them.
    """

    def __init__(
        self,
        target: Target,
        kernel: Kernel,
        position: Tensors,
        observe: Callable[[Tensors], Tensor],
        *,
        thin: int = 1,
        warmup: int = 0,
        description: Mapping[str, Any] | None = None,
        sums: Tensors | None = None,
    ) -> None:
        self.thin, self.warmup = whole_number("thin", thin, 1), whole_number("warmup", warmup, 0)
        self._target, self._kernel, self._observe = target, kernel, observe
        self._description, self._sums = dict(description or {}), dict(sums or {})
        self.state: State = kernel.init(position)
        self.recorded: list[NDArray[np.float64]] = []

    def draws(self) -> NDArray[np.float64]:
        """Return what was recorded, shape (draws, observables, ...)."""
        return np.stack(self.recorded)

    def run(
        self,
        draws: int,
        *,
        checkpoint: str | Path | None = None,
        save_every: int | None = None,
        progress: Report | None = None,
        pause: Pause | None = None,
    ) -> None:
        """Go on until so many draws are recorded.

        Parameters
        ----------
        draws : int
        checkpoint : path, optional
            A file (.npz) to resume from if it exists, bit for bit, and to save to.
        save_every : int, optional
            Updates between saves; the end is saved too. Without it only ``pause`` saves.
        progress : callable, optional
            Called every 100 updates with (updates done, updates in all).
        pause : callable, optional
            Called every 100 updates with a function that saves the checkpoint.

        Raises
        ------
        InputError
            For a checkpoint of other chains, or one that holds more draws.
        NotFinite
        """
        last = self.warmup + whole_number("draws", draws, 1) * self.thin
        check_draws(draws, self._target.chains)
        if checkpoint is not None and Path(checkpoint).exists():
            self._resume(load_checkpoint(checkpoint, self._description))
            if len(self.recorded) > draws:
                raise InputError("draws", draws, f"the checkpoint holds {len(self.recorded)} already")

        def save() -> None:
            if checkpoint is not None:
                save_checkpoint(checkpoint, self._description, self._everything())

        saved = self.state.step
        while self.state.step < last:
            self._advance()
            step = self.state.step
            if save_every is not None and (step == last or step - saved >= save_every):
                save()
                saved = step
            if progress is not None and (step == last or step % _LOOK_EVERY == 0):
                progress(step, last)
            if pause is not None and step < last and step % _LOOK_EVERY == 0:
                pause(save)

    def _advance(self) -> None:
        self.state = state = self._kernel.update(self.state, inplace=True)
        since = state.step - self.warmup
        if since > 0 and since % self.thin == 0:
            observables = self._observe(state.position)
            self._look(observables)
            self.recorded.append(observables.double().cpu().numpy())
        elif state.step % _LOOK_EVERY == 0:
            self._look(torch.stack([flat(x, self._target.chains).sum(1) for x in state.position.values()]))

    def _look(self, numbers: Tensor) -> None:
        """Stop if any number of shape (observables, ...) isn't finite."""
        bad = (~torch.isfinite(numbers)).any(0).flatten().nonzero()
        if len(bad):
            draw = None if self.state.step <= self.warmup else (self.state.step - self.warmup - 1) // self.thin
            raise NotFinite(int(bad[0]), draw, self.state.step)

    def _everything(self) -> dict[str, Any]:
        draws = self.draws() if self.recorded else np.empty(0)
        return {**self.state.tensors(), **self._sums, "draws": draws}

    def _resume(self, tensors: dict[str, Tensor]) -> None:
        try:
            self.recorded = list(tensors.pop("draws").numpy())
            for name, total in self._sums.items():
                total.copy_(tensors.pop(name))
            self.state.restore(tensors)
        except (KeyError, RuntimeError) as error:  # a name is missing, or its shape is another
            raise InputError("checkpoint", str(error), "is not the state of these chains") from None
