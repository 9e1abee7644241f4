"""Procedures for tests: quick, and able to misbehave on request. Every run leaves a line in a log."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from phasekit.checkpoint import load_checkpoint, save_checkpoint
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures import Case, Outcome, Procedure, Stopped, Workplace
from phasekit.runs.work.backends import Backend


class Probe(Procedure):
    """Return random numbers that belong to the model and the seed; take a while.

    ``log`` names a file to which every task is added when its computation is complete.
    Data seeds in ``failing`` raise, those in ``deadly`` kill their process.
    """

    name: ClassVar[str] = "tests.runs.probes:Probe"

    seconds: float = 0.0
    log: str = ""
    failing: tuple[int, ...] = ()
    deadly: tuple[int, ...] = ()
    size: int = 2

    def check(self, model: Model) -> None:
        if model.V == 99:
            raise InputError("V", 99, "probes don't like it")

    def operations(self, model: Model) -> float:
        return 1.0

    @property
    def length(self) -> int:
        return 1

    def shortened(self, length: int) -> Procedure:
        return self.model_copy(update={"seconds": 0.0, "log": "", "failing": (), "deadly": ()})

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        outcomes = []
        for model, seed in cases:
            if place.must_stop():
                raise Stopped
            if seed in self.failing:
                raise ArithmeticError(f"seed {seed}\nis not liked")
            if seed in self.deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(self.seconds)
            random = np.random.default_rng([seed, model.V, model.L, int(model.P or 0)])
            outcomes.append(
                Outcome(
                    {"number": np.arange(self.size), "U": random.standard_normal(self.size)},
                    {"A": random.standard_normal((self.size, 3, 3)).astype(np.float32)},
                    {"dtype": "float64"},
                )
            )
        if self.log:
            with Path(self.log).open("a") as log:
                log.write("".join(f"{model.L} {model.P:g} {seed}\n" for model, seed in cases))
        return outcomes


class SlowCount(Probe):
    """Count to a hundred, with checkpoints; the result tells where the count began."""

    name: ClassVar[str] = "tests.runs.probes:SlowCount"

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        import torch

        assert place.checkpoint is not None
        begin = int(load_checkpoint(place.checkpoint, {})["count"]) if place.checkpoint.exists() else 0
        for count in range(begin, 100):
            time.sleep(self.seconds)
            stop = place.must_stop()
            if stop or place.must_save():
                save_checkpoint(place.checkpoint, {}, {"count": torch.tensor(count)})
            if stop:
                raise Stopped
        return [Outcome({"began": np.array([begin]), "ended": np.array([100])}) for _ in cases]


class Paced(Probe):
    """Take so many seconds as the file ``pace`` in the working folder says: settings are part of a task's id."""

    name: ClassVar[str] = "tests.runs.probes:Paced"

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        outcomes = super().run(cases, place)
        self.wait(1)
        return outcomes

    def wait(self, share: float) -> None:
        pace = Path("pace")
        time.sleep(share * float(pace.read_text()) if pace.exists() else 0.0)


class Walk(Paced):
    """Walk forty steps, saving after each; the end depends on every step, and the log says where it began."""

    name: ClassVar[str] = "tests.runs.probes:Walk"

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        import torch

        assert place.checkpoint is not None
        way, begin = [0.0] * len(cases), 0
        if place.checkpoint.exists():
            saved = load_checkpoint(place.checkpoint, {})
            begin, way = int(saved["count"]), saved["way"].tolist()
        with Path(self.log).open("a") as log:
            log.write(f"{begin}\n")
        for count in range(begin, 40):
            self.wait(1 / 4)
            way = [float(np.sin(x + seed + count)) for x, (_, seed) in zip(way, cases, strict=True)]
            state = {"count": torch.tensor(count + 1), "way": torch.tensor(way, dtype=torch.float64)}
            save_checkpoint(place.checkpoint, {}, state)
            if place.must_stop():
                raise Stopped
        return [Outcome({"way": np.array([x])}) for x in way]


class Here(Backend):
    """Do the work in this process."""

    workers, threads, description = 1, 1, "this process"

    def map(self, function, jobs):
        return map(function, jobs)


def environment(_: int) -> tuple[int, str | None, str]:
    """Return what a worker was given; take long enough for every worker to get one."""
    time.sleep(0.3)
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ["OMP_NUM_THREADS"]


def terminated(_: int) -> int:
    """Send this process what a batch system sends all processes of a job that it ends."""
    os.kill(os.getpid(), signal.SIGTERM)
    return os.getpid()
