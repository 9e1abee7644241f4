"""Functions to be learned from a prompt: x1, f(x1), x2, f(x2), …, with f drawn anew for every prompt.

S. Garg, D. Tsipras, P. Liang, G. Valiant, arXiv:2208.01066; linear functions of one variable as in arXiv:2508.14685.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import comb
from typing import ClassVar

import numpy as np
from pydantic import Field

from phasekit.errors import InputError
from phasekit.tasks.in_context.base import TASKS, Array, Loss, Prompts, Shift, Task, interleaved, shifted_inputs
from phasekit.tasks.in_context.predictors import kernel_predictions, mixed_predictions, ridge_predictions

#: Supports of sparse functions that the Bayes predictor goes through.
MOST_SUPPORTS = 5000


class Regression(Task):
    """y = σ_f·f(x) + noise·ε, x ~ N(0, 1)^d, squared error.

    Parameters
    ----------
    dimension : int
        Of x.
    noise : float
        Standard deviation of the noise on every y, targets included; it isn't scaled with σ_f.
    """

    loss: ClassVar[Loss] = "squared"
    shifts: ClassVar[frozenset[str]] = Task.shifts | {"coefficient_scale"}

    dimension: int = Field(default=5, ge=1, le=256)
    noise: float = Field(default=0.0, ge=0, le=1e3)

    @property
    def inputs(self) -> int:
        return self.dimension

    def tokens_in(self, points: int) -> int:
        return 2 * points - 1

    def make(self, draws: np.random.Generator, prompts: int, points: int, shift: Shift) -> Prompts:
        f = self.functions(draws, prompts)
        x = shifted_inputs(draws, prompts, points, self.dimension, shift)
        y = shift.coefficient_scale * f(x)
        if self.noise:
            y = y + self.noise * draws.standard_normal((points, prompts)).T
        tokens, places = interleaved(x, y)
        return Prompts(tokens, places, y, np.ones(y.shape, bool), x, shift.coefficient_scale)

    @abstractmethod
    def functions(self, draws: np.random.Generator, prompts: int) -> Callable[[Array], Array]:
        """Draw a function for each prompt, at σ_f = 1; it takes x (prompts, points, dim) to y (prompts, points)."""

    def trivial(self, prompts: Prompts) -> Array:
        """Return 0, the mean over all functions: its squared error is the variance of y."""
        return np.zeros((*prompts.targets.shape, 1))


class _Linear(Regression):
    """Functions that are linear in known features of x, with independent normal coefficients."""

    def features(self, x: Array) -> Array:
        """Return the features, shape (prompts, points, coefficients)."""
        return x

    def optimal(self, prompts: Prompts) -> Array | None:
        """Return the mean of the posterior: ridge regression at noise²/σ_f², least squares without noise."""
        ratio = self.noise / prompts.scale
        return ridge_predictions(self.features(prompts.x), prompts.targets, ratio)[..., None]


@TASKS.register
class LinearFunctions(_Linear):
    """f(x) = a·x + c with a, c ~ N(0, σ_f²)."""

    name: ClassVar[str] = "linear-functions"

    skip: int = Field(default=3, ge=0)
    dimension: int = Field(default=1, ge=1, le=256)

    def features(self, x: Array) -> Array:
        return np.concatenate([x, np.ones_like(x[..., :1])], axis=-1)

    def functions(self, draws: np.random.Generator, prompts: int) -> Callable[[Array], Array]:
        coefficients = draws.standard_normal((prompts, self.dimension + 1))
        return lambda x: np.einsum("bpd,bd->bp", self.features(x), coefficients)


@TASKS.register
class LinearRegression(_Linear):
    """f(x) = w·x with w ~ N(0, σ_f²)^d."""

    name: ClassVar[str] = "linear-regression"

    def functions(self, draws: np.random.Generator, prompts: int) -> Callable[[Array], Array]:
        w = draws.standard_normal((prompts, self.dimension))
        return lambda x: np.einsum("bpd,bd->bp", x, w)


@TASKS.register
class SparseRegression(Regression):
    """f(x) = w·x, of whose normal coefficients all but ``nonzero``, at random coordinates, are 0."""

    name: ClassVar[str] = "sparse-regression"

    nonzero: int = Field(default=2, ge=1, le=256)

    def check(self, shift: Shift) -> None:
        if self.nonzero > self.dimension:
            raise InputError("nonzero", self.nonzero, f"must be at most {self.dimension}, the dimension")
        super().check(shift)

    def functions(self, draws: np.random.Generator, prompts: int) -> Callable[[Array], Array]:
        w = draws.standard_normal((prompts, self.dimension))
        rank = draws.random((prompts, self.dimension)).argsort(axis=1).argsort(axis=1)
        return lambda x: np.einsum("bpd,bd->bp", x, np.where(rank < self.nonzero, w, 0))

    def optimal(self, prompts: Prompts) -> Array | None:
        """Return the mean of the posterior over all supports; None if there are too many of them."""
        if comb(self.dimension, self.nonzero) > MOST_SUPPORTS:
            return None
        return mixed_predictions(prompts.x, prompts.targets, self.nonzero, self.noise / prompts.scale)[..., None]


@TASKS.register
class NetworkRegression(Regression):
    """f(x) = √(2/h)·Σ_k a_k·ReLU(w_k·x), a_k ~ N(0, σ_f²), w_k ~ N(0, 1)^d: a two-layer network with h hidden units."""

    name: ClassVar[str] = "network-regression"

    hidden: int = Field(default=100, ge=1, le=10_000)

    def functions(self, draws: np.random.Generator, prompts: int) -> Callable[[Array], Array]:
        w = draws.standard_normal((prompts, self.hidden, self.dimension))
        a = draws.standard_normal((prompts, self.hidden)) * np.sqrt(2 / self.hidden)
        return lambda x: np.einsum("bph,bh->bp", np.maximum(np.einsum("bpd,bhd->bph", x, w), 0), a)

    def optimal(self, prompts: Prompts) -> Array | None:
        """Return the best linear predictor from earlier y: the mean of the posterior for h → ∞.

        The covariance of f(x) and f(x') is the arc-cosine kernel of order 1 (Y. Cho, L. Saul, NIPS 2009), at any h.
        """
        size = np.linalg.norm(prompts.x, axis=-1)
        sizes = size[:, :, None] * size[:, None, :]
        cosine = np.einsum("bid,bjd->bij", prompts.x, prompts.x) / np.where(sizes > 0, sizes, 1)
        angle = np.arccos(np.clip(cosine, -1, 1))
        kernel = sizes * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
        return kernel_predictions(kernel, prompts.targets, self.noise / prompts.scale)[..., None]


@TASKS.register
class TreeRegression(Regression):
    """f(x) is the value, normal, of x's leaf in a tree whose nodes ask for the sign of one random coordinate."""

    name: ClassVar[str] = "tree-regression"

    depth: int = Field(default=4, ge=1, le=12)

    def functions(self, draws: np.random.Generator, prompts: int) -> Callable[[Array], Array]:
        asked = draws.integers(self.dimension, size=(prompts, 2**self.depth - 1))
        leaves = draws.standard_normal((prompts, 2**self.depth))
        row = np.arange(prompts)[:, None]

        def f(x: Array) -> Array:
            node = np.zeros(x.shape[:2], dtype=int)
            for _ in range(self.depth):
                coordinate = np.take_along_axis(x, asked[row, node][..., None], axis=2)[..., 0]
                node = 2 * node + 1 + (coordinate > 0)
            return np.asarray(leaves[row, node - (2**self.depth - 1)])

        return f

    def optimal(self, prompts: Prompts) -> Array | None:
        """Return the best linear predictor from earlier y (not the mean of the posterior, which nobody computes).

        Two x with m equal signs of d share a leaf with probability (m/d)^depth, and only then covary.
        """
        signs = np.where(prompts.x > 0, 1.0, -1.0)
        share = (1 + np.einsum("bid,bjd->bij", signs, signs) / self.dimension) / 2
        return kernel_predictions(share**self.depth, prompts.targets, self.noise / prompts.scale)[..., None]
