"""Tasks of lm-evaluation-harness on a model that carries its score: no ``--model hf`` by name, which would run softmax.

The harness takes the model as it was built or loaded here. Two things are set right for tokenizers that frame a
sentence (``<s> … </s>``): without that, the harness would put </s> between a question and its answer, and leave <s> out
where there is no question.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from phasekit.errors import InputError
from phasekit.extras import require
from phasekit.language.sentences import examined, is_encoder, longest, marked

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seed of the examples that stand in front of a question.
_SHOTS_SEED = 1234


@dataclass(frozen=True)
class TaskResult:
    """What the harness says about one task.

    Attributes
    ----------
    task : str
    version : str
        Of the task, as the harness writes it.
    shots : int
        Examples in front of each question.
    length : int
        Tokens of context at most; longer questions lose their beginning.
    items : int
    metrics : name to number
        With their standard errors over items (``acc_stderr``).
    right : name to array, shape (items,)
        What each item counts in a metric that is a mean over items, to pair arms by.
    """

    task: str
    version: str
    shots: int
    length: int
    items: int
    metrics: dict[str, float]
    right: dict[str, NDArray[np.float64]]


def run_tasks(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    tasks: Sequence[str | Path],
    *,
    shots: int | None = None,
    most: int | None = None,
    length: int | None = None,
    batch: int = 32,
) -> list[TaskResult]:
    """Run tasks of the harness on a decoder.

    Parameters
    ----------
    model : PreTrainedModel
    tokenizer : PreTrainedTokenizerBase
    tasks : sequence of str or path
        Names of tasks and groups that the harness knows (most get their data from a hub), or files of task
        descriptions (``.yaml``).
    shots : int, optional
        Examples in front of each question; the task's own number if left out. A task that fixes 0 keeps 0.
    most : int, optional
        Items of each task at most.
    length : int, optional
        Tokens of context; as many as the model has positions (rotary ones: was configured with) if left out.
    batch : int

    Returns
    -------
    list of TaskResult
        Groups as the tasks that they consist of.

    Raises
    ------
    InputError
        For an encoder, a package that is missing, an unknown task, a file that describes none, or data that can't be
        had.
    """
    require("lm_eval")
    if is_encoder(model):
        raise InputError(
            "model", type(model).__name__, "the harness asks for the next token, which an encoder can't say"
        )
    if not tasks:
        raise InputError("tasks", list(tasks), "must be a list with at least one entry")
    with _quiet(), examined(model):
        import lm_eval

        manager, loaded = _loaded(tasks)
        wrapper = _carried(model, tokenizer, batch, longest(model) if length is None else length)
        found = lm_eval.simple_evaluate(
            wrapper,
            tasks=loaded,
            task_manager=manager,
            num_fewshot=shots,
            limit=most,
            bootstrap_iters=1000,
            random_seed=None,  # the harness would seed generators that aren't its own
            numpy_random_seed=None,
            torch_random_seed=None,
            fewshot_random_seed=_SHOTS_SEED,
        )
    return [_result(found, task, int(wrapper.max_length)) for task in found["samples"]]


def _loaded(tasks: Sequence[str | Path]) -> tuple[Any, list[Any]]:
    """Return the harness's keeper of tasks, and the tasks with their data.

    Raises
    ------
    InputError
        For whatever the harness, or the library that it gets data by, makes of a mistake.
    """
    from lm_eval.tasks import TaskManager

    files = [str(task) for task in tasks if Path(task).suffix in (".yaml", ".yml")]
    for file in files:
        if not Path(file).is_file():
            raise InputError("task", file, "no such file")
    names = [str(task) for task in tasks]
    try:
        manager = TaskManager(include_defaults=len(files) < len(tasks))  # reading all that it comes with takes seconds
        found = manager.load(names)
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = (str(cause).strip("'\" ").splitlines() or ["no reason given"])[0]
        raise InputError("tasks", ", ".join(names), f"{type(cause).__name__}: {reason}") from error
    return manager, list(found["tasks"].values())


def _carried(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: int, length: int | None) -> Any:
    """Return the harness's wrapper of a model, with <s> in front of every text and nothing behind."""
    from lm_eval.models.huggingface import HFLM

    begin = marked(tokenizer, "bos_token")

    class Carried(HFLM):  # type: ignore[misc]
        def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
            question, answer = super()._encode_pair(context, continuation)
            return [begin, *question], answer

        def tok_batch_encode(self, strings: list[str], *args: Any, **keywords: Any) -> Any:
            return super().tok_batch_encode([f"{tokenizer.bos_token}{text}" for text in strings], *args, **keywords)

    return Carried(
        pretrained=model,
        tokenizer=tokenizer,
        backend="causal",
        add_bos_token=False,
        batch_size=batch,
        max_length=length,
    )


def _result(found: Any, task: str, length: int) -> TaskResult:
    numbers = {name: value for name, value in found["results"][task].items() if "," in name and name != "alias"}
    samples = [sample for sample in found["samples"][task] if sample["filter"] == found["samples"][task][0]["filter"]]
    means = [name for name in samples[0]["metrics"] if isinstance(samples[0][name], int | float)]
    return TaskResult(
        task,
        str(found["versions"][task]),
        int(found["n-shot"][task]),
        length,
        len(samples),
        {name.removesuffix(",none"): float(x) for name, x in numbers.items() if isinstance(x, int | float)},
        {name: np.array([sample[name] for sample in samples], dtype=float) for name in means},
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the harness say only what went wrong."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
