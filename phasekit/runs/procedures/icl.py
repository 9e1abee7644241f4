"""A transformer trained on an in-context task and tested under shift."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from phasekit.describe import Description
from phasekit.runs.procedures.base import Case, Outcome, Procedure, Workplace
from phasekit.tasks.in_context import Task
from phasekit.transformers.in_context import Curriculum, InContext, retune, train_in_context
from phasekit.transformers.interventions import Intervention
from phasekit.transformers.training import Training

if TYPE_CHECKING:
    from phasekit.transformers.decoder import Decoder
    from phasekit.transformers.training import History

#: Losses of so many steps are averaged into one number that is kept.
_KEPT_EVERY = 10


class InContextLearning(Procedure, Training):
    """Train, then test; a member is a test. The data seed is that of weights and batches.

    Parameters
    ----------
    steps, batch, rate, …
        See :class:`phasekit.transformers.training.Training`.
    curriculum : Curriculum
    tests : "none", "few", "scales", "deviants" or "all"
        Which shifts; see :func:`phasekit.transformers.evaluation.grid`.
    interventions : tuple of Intervention
        Changes of the trained network under which the few shifts are tested again (column ``intervention``).
    retune_steps : int
        Steps that retuned ones are trained on, at a tenth of the rate.
    probe : bool
        Whether to measure the attention rows under the few shifts (arrays ``saturation`` and ``mass``).
    prompts : int
        In each test; the same ones for every network.
    watch_every : int
        Steps between two measurements of the error along the way; 0: none.
    keep_weights : bool
        Whether the trained weights are kept, as arrays ``weights NAME``.
    """

    name: ClassVar[str] = "icl"
    takes: ClassVar[type[Description]] = InContext
    #: Training amplifies last digits, which differ between processors, so that only what no network is part of agrees.
    residues: ClassVar[tuple[str, ...]] = ("error", "answer_error", "error_at_deviant", "error_behind_deviant")

    curriculum: Curriculum = Curriculum()
    tests: Literal["none", "few", "scales", "deviants", "all"] = "all"
    interventions: tuple[Intervention, ...] = ()
    retune_steps: int = Field(default=200, ge=1)
    probe: bool = False
    prompts: int = Field(default=256, ge=1)
    watch_every: int = Field(default=50, ge=0)
    keep_weights: bool = True

    @property
    def length(self) -> int:
        return self.steps

    def shortened(self, length: int) -> Procedure:
        changes = {
            "steps": length,
            "tests": "none",
            "watch_every": 0,
            "prompts": 1,
            "interventions": (),
            "probe": False,
        }
        return self.model_copy(update=changes)

    def check(self, model: InContext) -> None:
        from phasekit.transformers.evaluation import check_grid, grid

        model.build()
        model.check_points(max(model.task.points, self.curriculum.first or 1))
        check_grid(model, grid(model.task, self.tests))

    def operations(self, model: InContext) -> float:
        tokens, width = model.task.tokens_in(model.task.points), model.architecture.width
        layer = 4 * width**2 + 2 * model.architecture.hidden * width**2 + 2 * tokens * width
        return 3.0 * self.steps * self.batch * tokens * model.architecture.layers * layer

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        # one file holds one network: with several, only whole networks are saved, by the store
        checkpoint = place.checkpoint if len(cases) == 1 else None

        def trained(subject: InContext, seed: int) -> tuple[Decoder, History]:
            return train_in_context(
                subject,
                self,
                seed=seed,
                curriculum=self.curriculum,
                device=place.device,
                watch_every=self.watch_every,
                checkpoint=checkpoint,
                pause=place.pause,
            )

        return [
            self._outcome(subject, seed, *place.resuming(partial(trained, subject, seed))) for subject, seed in cases
        ]

    def _outcome(self, subject: InContext, seed: int, model: Decoder, history: History) -> Outcome:
        from phasekit.scores import learned_values
        from phasekit.transformers.decoder import parameter_count
        from phasekit.transformers.evaluation import evaluate, grid

        task, none = subject.task, Intervention()
        tested = [(none, evaluate(model, task, shift, prompts=self.prompts)) for shift in grid(task, self.tests)]
        for change in self.interventions:
            changed = change.apply(model)
            if change.retuned:
                retune(changed, subject, self, seed=seed, steps=self.retune_steps)
            tested += [(change, evaluate(changed, task, shift, prompts=self.prompts)) for shift in grid(task, "few")]
        rows = [{"intervention": change.words, **evaluation.row()} for change, evaluation in tested]
        learned = learned_values(model)
        arrays: dict[str, Any] = {
            "errors": np.stack([evaluation.errors["network"] for _, evaluation in tested]).astype(np.float32),
            "loss": averaged(history.loss),
            "gradient_norm": averaged(history.gradient_norm),
            "watched_at": history.watched_at,
            **{f"watched_{name}": values for name, values in history.watched.items()},
            **{
                f"learned {key} {name}": v.cpu().numpy()
                for key, values in learned.items()
                for name, v in values.items()
            },
        }
        if self.probe and model.attentions:
            arrays |= self._probed(task, model)
        if self.keep_weights:
            arrays |= {f"weights {name}": value.cpu().numpy() for name, value in model.state_dict().items()}
        about = {
            "precision": self.precision,
            "parameters": parameter_count(model),
            "loss_kept_every": _KEPT_EVERY,
        }
        return Outcome({name: np.array([row[name] for row in rows]) for name in rows[0]}, arrays, about)

    def _probed(self, task: Task, model: Decoder) -> dict[str, Any]:
        """Return means over rows (shifts, layers, heads, measures), and masses (shifts, prompts, layers, heads)."""
        from phasekit.transformers.evaluation import grid
        from phasekit.transformers.probes import probe

        found = [probe(model, task.draw("test", 0, 0, self.prompts, shift)) for shift in grid(task, "few")]
        return {
            "saturation": np.stack([rows.means() for rows in found]),
            "mass": np.stack([rows.mass_of_prompts for rows in found]).astype(np.float32),
            "beyond_bounds": np.array([rows.beyond for rows in found]),
        }


def averaged(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return means of consecutive numbers; the last group may be smaller."""
    starts = np.arange(0, len(values), _KEPT_EVERY)
    sums = np.add.reduceat(values.astype(float), starts)
    return np.asarray(sums / np.diff([*starts, len(values)]), dtype=np.float32)
