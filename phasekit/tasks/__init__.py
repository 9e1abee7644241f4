"""What networks are trained on: data sets and their targets."""

from phasekit.model import Induction, Model
from phasekit.tasks.copy import Dataset, draw_dataset
from phasekit.tasks.induction import draw_questions


def draw(model: Model, seed: int) -> Dataset:
    """Draw the training data of a model's task.

    Raises
    ------
    InputError
        As :func:`phasekit.tasks.copy.draw_dataset`.
    """
    return (draw_questions if isinstance(model.task, Induction) else draw_dataset)(model, seed)


__all__ = ["draw"]
