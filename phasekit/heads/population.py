"""Which heads an ensemble holds: every data set times every start times every number, and where each of them begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasekit.checks import distinct, whole_number
from phasekit.heads.energy import common_model
from phasekit.heads.starts import draw_starts, pattern_of
from phasekit.model import Model, Task, given_list
from phasekit.tasks import draw
from phasekit.tasks.copy import Dataset


@dataclass(frozen=True, eq=False)
class Population:
    """D data sets times M members.

    Attributes
    ----------
    model : Model
        The data sets' models differ from it in P only.
    datasets : list of Dataset
    members : list of (start, number)
    seed : int
        Of the members' starts; a start belongs to (seed, start, number) alone.
    """

    model: Model
    datasets: list[Dataset]
    members: list[tuple[str, int]]
    seed: int

    @classmethod
    def of(
        cls,
        datasets: Sequence[Dataset],
        starts: Sequence[str],
        members: int | Sequence[int],
        seed: int,
        *tasks: type[Task],
    ) -> Population:
        """Combine every start with every number, or with 0 … ``members`` - 1; of the copy task, or of those named.

        Raises
        ------
        InputError
            For unknown starts, an empty or repeating list, no whole numbers, or data sets that don't belong together.
        """
        listed = list(range(whole_number("members", members, 1))) if np.ndim(members) == 0 else members
        numbers = [whole_number("members", number, 0) for number in distinct("members", listed)]
        words = [word for word in distinct("starts", starts) if pattern_of(word) or word]
        model = common_model([d.model for d in datasets], *tasks)
        return cls(model, list(datasets), list(product(words, numbers)), whole_number("seed", seed, 0))

    def draw(self, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
        """Return where the members begin: W and G, led by (D, M)."""
        return draw_starts([d.model for d in self.datasets], self.members, self.seed, dtype, device)

    def dataset_labels(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return P and seed of each data set."""
        return {
            "P": np.array([len(d.tokens) for d in self.datasets]),
            "data_seed": np.array([d.seed for d in self.datasets]),
        }

    def member_labels(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return start and number of each member."""
        starts, numbers = zip(*self.members, strict=True)
        return {"start": np.array(starts), "number": np.array(numbers)}

    def describe(self) -> dict[str, Any]:
        """Return everything as plain JSON values; a checkpoint of another population isn't this one's."""
        return {
            "model": self.model.at(P=None).describe(),
            "datasets": [[len(d.tokens), int(d.seed)] for d in self.datasets],
            "chains": [list(member) for member in self.members],
            "seed": self.seed,
        }


def draw_datasets(
    models: Model | Sequence[Model] | Sequence[Dataset], data_seeds: Sequence[int], *tasks: type[Task]
) -> list[Dataset]:
    """Draw a data set for every model and data seed; data sets are returned as they are.

    Raises
    ------
    InputError
        For models that differ in more than P, and whatever :func:`phasekit.tasks.copy.draw_dataset` refuses.
    """
    if isinstance(models, list | tuple) and all(isinstance(each, Dataset) for each in models) and models:
        return list(models)
    asked = given_list(models)
    common_model(asked, *tasks)
    return [draw(model, seed) for model, seed in product(asked, distinct("data_seeds", data_seeds))]
