"""Trained language models of a store: taken out, examined again; what was found then is kept beside the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from phasekit.errors import InputError
from phasekit.language.corpus import prepare
from phasekit.language.evaluation import Evaluation
from phasekit.language.models import Trained, build
from phasekit.language.subject import LanguageModel
from phasekit.language.tokenizer import wrapped
from phasekit.runs.procedures.language import LanguageTraining
from phasekit.runs.store.plan import latest_plans
from phasekit.runs.store.store import Finished, Store
from phasekit.runs.sweeps.task import Task

_WEIGHTS = "weights "


def language_tasks(store: Store, sweep: str | None = None) -> Iterator[tuple[Task, Finished]]:
    """Yield the language models of a store with their results, in the order in which they were asked for.

    Parameters
    ----------
    store : Store
    sweep : str, optional
        Only its tasks, NAME or NAME:PRESET.
    """
    asked = dict.fromkeys(task for plan in latest_plans(store, sweep) for task in plan.tasks)
    for name in asked:
        if store.has(name):
            result = store.load(name)
            if result.parameters["estimator"]["name"] == LanguageTraining.name:
                yield Task.from_parameters(result.parameters), result


def trained_model(task: Task, result: Finished) -> Trained:
    """Return the model that a task trained, in evaluation mode, and the tokenizer of its text.

    Raises
    ------
    InputError
        If its weights weren't kept (archives don't), or its text, of which the tokenizer is made, can't be read.
    """
    subject = task.model
    assert isinstance(subject, LanguageModel)
    weights = {
        name.removeprefix(_WEIGHTS): torch.from_numpy(array)
        for name, array in result.arrays.items()
        if name.startswith(_WEIGHTS)
    }
    if not weights:
        raise InputError("task", task.id, "its weights weren't kept; train it again (archives hold no weights)")
    text = prepare(subject.corpus)
    model = build(subject.shape, text.vocabulary, subject.score, learned=subject.learned)
    model.load_state_dict(weights)
    return Trained(model.eval(), wrapped(text.tokenizer), subject.kind)  # type: ignore[no-untyped-call]


def evaluation_file(store: Store, task: str) -> Path:
    """Return where later evaluations of a task's model are kept."""
    return store.path / "evaluations" / f"{task}.npz"


def evaluation_of(store: Store, task: str, result: Finished) -> Evaluation:
    """Return all that a task's model was examined on: by the task itself, and later.

    Raises
    ------
    InputError
        If the file with the later ones can't be read.
    """
    found, later = Evaluation.of(result.arrays), evaluation_file(store, task)
    return found.joined(Evaluation.read(later)) if later.exists() else found
