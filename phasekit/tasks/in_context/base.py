"""What an in-context task is: prompts that are drawn, their loss, where it counts, and what prompts may be shifted to.

A prompt holds examples of something that differs from prompt to prompt (a function, a rule, a sequence); the network is
to answer at some of its tokens from what stands before. A task is a :class:`phasekit.describe.Description` that knows

==============  =======================================================================================
``draw``        prompts from an addressed random stream, shifted or not
``loss``        "squared", "logistic" (labels ±1) or "cross-entropy" (classes)
``errors``      what a test counts at each answer, and ``prompt_errors`` for each prompt
``trivial``     the answers of somebody who learned nothing from the prompt
``optimal``     the answers of somebody who knows the task and the shift; None where nobody can compute them
==============  =======================================================================================

The same seed and step give the same random numbers whatever the shift: two shifts, or two scores, are compared on the
same prompts, and longer prompts begin like shorter ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import special

from phasekit.checks import whole_number
from phasekit.describe import Description, Registry, fields_in
from phasekit.errors import InputError
from phasekit.streams import stream

Array = NDArray[np.float64]
Loss = Literal["squared", "logistic", "cross-entropy"]


@dataclass(frozen=True, eq=False)
class Prompts:
    """Prompts of one length, with what is to be answered.

    Attributes
    ----------
    tokens : array, shape (prompts, tokens, input dim)
        What the network reads.
    places : integer array, shape (answers,)
        At which tokens it answers.
    targets : array, shape (prompts, answers)
        Numbers, labels ±1, or classes.
    counts : boolean array, shape (prompts, answers)
        Where there is something to be answered: the loss of training is the mean over these.
    x : array, shape (prompts, points, dim)
        The inputs, deviant ones included.
    scale : float
        Of the coefficients that the targets were made with.
    """

    tokens: Array
    places: NDArray[np.int64]
    targets: Array
    counts: NDArray[np.bool_]
    x: Array
    scale: float = 1.0


class Shift(Description):
    """How prompts of a test differ from those of training.

    Parameters
    ----------
    points : int, optional
        Examples in a prompt; None: as many as the task says.
    x_scale, coefficient_scale : float
        Standard deviation of the inputs (σ_x, σ) and of the coefficients (σ_f).
    law : str
        Of the inputs, one of the task's ``laws``.
    deviant : float, optional
        A value that the input at ``place`` takes in every prompt (its first coordinate, if it has several).
    place : int, optional
        Which input is deviant, counted from 0.
    """

    points: int | None = Field(default=None, ge=1, le=100_000)
    x_scale: float = Field(default=1.0, gt=0, le=1e6)
    coefficient_scale: float = Field(default=1.0, gt=0, le=1e6)
    law: str = ""
    deviant: float | None = Field(default=None, ge=-1e8, le=1e8)
    place: int | None = Field(default=None, ge=0)

    if TYPE_CHECKING:  # numbers may be the words that a user typed

        def __init__(self, **fields: Any) -> None: ...


NO_SHIFT = Shift()


def parse_shift(text: str) -> Shift:
    """Read a shift written ``field=value:field=value``: ``x_scale=5:deviant=1000:place=3``.

    Raises
    ------
    InputError
        If it isn't written so, or a value is out of range.
    """
    return Shift(**fields_in("shift", text, text.split(":")))


def _uniform(z: Array) -> Array:
    return np.asarray(np.sqrt(3) * (2 * special.ndtr(z) - 1))


def _laplace(z: Array) -> Array:
    tail = special.log_ndtr(-np.abs(z)) + np.log(2)  # ln of the mass beyond |z| on both sides
    return np.asarray(-np.sign(z) * tail / np.sqrt(2))


def _student(z: Array) -> Array:
    return np.asarray(special.stdtrit(5.0, special.ndtr(z)) * np.sqrt(3 / 5))


#: Laws of real inputs, as maps of standard normal numbers. All have mean 0, variance 1 and are symmetric.
LAWS = {"normal": lambda z: z, "uniform": _uniform, "laplace": _laplace, "student": _student}


class Task(Description, ABC):
    """Base of the in-context tasks; see the module for what one has to know.

    Attributes
    ----------
    name : str
    loss : "squared", "logistic" or "cross-entropy"
    laws : names of the input laws that a shift may ask for, the law of training first
    shifts : fields of :class:`Shift` that mean something here
    whole : bool
        Whether a prompt counts as wrong if any of its answers is (else: the share, or the mean square).

    Parameters
    ----------
    points : int
        Examples in a prompt of training (where a curriculum ends, if there is one).
    skip : int
        Answers at the beginning of a prompt that tests leave out.
    """

    name: ClassVar[str]
    loss: ClassVar[Loss]
    laws: ClassVar[tuple[str, ...]] = tuple(LAWS)
    shifts: ClassVar[frozenset[str]] = frozenset({"points", "x_scale", "law", "deviant", "place"})
    whole: ClassVar[bool] = False

    points: int = Field(default=11, ge=1, le=100_000)
    skip: int = Field(default=0, ge=0)

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Numbers in a token."""

    @property
    def outputs(self) -> int:
        """Numbers in an answer."""
        return 1

    @abstractmethod
    def tokens_in(self, points: int) -> int:
        """Return how many tokens a prompt with so many examples has."""

    @abstractmethod
    def make(self, draws: np.random.Generator, prompts: int, points: int, shift: Shift) -> Prompts:
        """Draw prompts for a checked shift. What differs between prompts is drawn first, inputs by :func:`normals`."""

    @abstractmethod
    def trivial(self, prompts: Prompts) -> Array:
        """Return answers that don't use the prompt, shape (prompts, answers, outputs)."""

    @abstractmethod
    def optimal(self, prompts: Prompts) -> Array | None:
        """Return the best answers for these prompts; at every answer only what stands before it is used."""

    def check(self, shift: Shift) -> None:
        """Raise InputError if the task knows no such shift."""
        standard = type(shift).model_fields
        for field in standard.keys() - self.shifts:
            if getattr(shift, field) != standard[field].default:
                known = ", ".join(sorted(self.shifts))
                raise InputError(f"shift.{field}", getattr(shift, field), f"{self.name} can be shifted in {known} only")
        if shift.law and shift.law not in self.laws:
            raise InputError("shift.law", shift.law, f"must be one of {', '.join(self.laws)}")
        if (shift.deviant is None) != (shift.place is None):
            raise InputError("shift.place", shift.place, "a deviant value and its place belong together")
        points = self.points if shift.points is None else shift.points
        if shift.place is not None and shift.place >= points:
            raise InputError("shift.place", shift.place, f"must be below {points}, the number of examples")

    def draw(self, purpose: str, seed: int, step: int, prompts: int, shift: Shift = NO_SHIFT) -> Prompts:
        """Draw prompts.

        Parameters
        ----------
        purpose : str
            "train" or "test", say: streams for different purposes are independent.
        seed, step : int
            Address of the stream.
        prompts : int
        shift : Shift

        Raises
        ------
        InputError
            For a shift that the task doesn't know, or numbers out of range.
        """
        self.check(shift)
        prompts = whole_number("prompts", prompts, 1)
        draws = stream(f"in-context {self.name} {purpose}", seed, step)
        return self.make(draws, prompts, self.points if shift.points is None else shift.points, shift)

    def counted(self, prompts: Prompts) -> NDArray[np.bool_]:
        """Return where tests count, shape (prompts, answers)."""
        answers = prompts.counts.shape[1]
        return np.asarray(prompts.counts & (np.arange(answers) >= min(self.skip, answers - 1)))

    def errors(self, prompts: Prompts, answers: Array) -> Array:
        """Return the error of each answer, shape (prompts, answers): its square, or 1 if it is wrong. NaN stays NaN."""
        if self.loss == "squared":
            return np.asarray((answers[..., 0] - prompts.targets) ** 2)
        given = np.sign(answers[..., 0]) if self.loss == "logistic" else answers.argmax(-1)
        wrong = np.asarray(given != prompts.targets, dtype=float)
        return np.where(np.isnan(answers).any(-1), np.nan, wrong)

    def prompt_errors(self, prompts: Prompts, answers: Array) -> Array:
        """Return the error of each prompt, shape (prompts,); NaN for a prompt without anything that counts."""
        errors, counted = self.errors(prompts, answers), self.counted(prompts)
        if self.whole:
            return np.asarray(np.where(counted, errors, 0).max(axis=1))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(counted, errors, 0).sum(1) / counted.sum(1))


TASKS: Registry[Task] = Registry("task", Task)  # type: ignore[type-abstract]


def normals(draws: np.random.Generator, prompts: int, points: int, *shape: int) -> Array:
    """Return standard normal numbers, (prompts, points, *shape), of which longer prompts have the same first ones."""
    return np.moveaxis(draws.standard_normal((points, prompts, *shape)), 0, 1)


def shifted_inputs(draws: np.random.Generator, prompts: int, points: int, dimension: int, shift: Shift) -> Array:
    """Return real inputs (prompts, points, dimension) by the shift's law and scale, a deviant value put in."""
    x = np.ascontiguousarray(shift.x_scale * LAWS[shift.law or "normal"](normals(draws, prompts, points, dimension)))
    if shift.deviant is not None:
        x[:, shift.place, 0] = shift.deviant
    return x


def interleaved(x: Array, y: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the tokens x1, y1, x2, y2, …, xn with y in the first coordinate, and the places of the x."""
    prompts, points, dimension = x.shape
    tokens = np.zeros((prompts, 2 * points, dimension))
    tokens[:, 0::2], tokens[:, 1::2, 0] = x, y
    return tokens[:, :-1], np.arange(0, 2 * points - 1, 2)


def build_task(given: Any, **fields: Any) -> Task:
    """Return the task of a name, of words (``every:points=21``), of a mapping, or a task itself, with fields changed.

    Raises
    ------
    InputError
        As :meth:`phasekit.describe.Registry.given`.
    """
    task = TASKS.given(given)
    return task.at(**fields) if fields else task
