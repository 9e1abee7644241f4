"""What the pictures of saturation share: the scores, the rows, and weights and gradients computed by the scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from phasekit.scores import (
    SSA,
    CosFormer,
    Entmax,
    Linear,
    Mixture,
    SASoftmax,
    Score,
    Softmax,
    Sparsemax,
    TemperatureSoftmax,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

#: Scores by the words in the legend. CosFormer's positions are switched off by a huge M, so that only its kernel shows.
SCORES: dict[str, Score] = {
    "softmax": Softmax(),
    "temperature 2": TemperatureSoftmax(T=2),
    "SSA": SSA(n=1.5, b=0.8),
    "sparsemax": Sparsemax(),
    "1.5-entmax": Entmax(alpha=1.5),
    "CosFormer": CosFormer(M=10**9),
    "SA-softmax": SASoftmax(),
    "linear": Linear(),
    "softmax + SSA": Mixture(scores=(Softmax(), SSA())),
}
#: Colour and dashes of each; SSA, the subject, is the one thick line.
LOOKS: dict[str, dict[str, Any]] = {
    "softmax": {"color": "C0", "linestyle": "-"},
    "temperature 2": {"color": "C5", "linestyle": "--"},
    "SSA": {"color": "C1", "linestyle": "-", "linewidth": 2.0},
    "sparsemax": {"color": "C2", "linestyle": "-."},
    "1.5-entmax": {"color": "C3", "linestyle": "-."},
    "CosFormer": {"color": "C6", "linestyle": (0, (1, 1))},
    "SA-softmax": {"color": "C4", "linestyle": "--"},
    "linear": {"color": "0.55", "linestyle": ":"},
    "softmax + SSA": {"color": "C6", "linestyle": (0, (6, 1.5))},
}


def weights(score: Score, logits: Floats) -> Floats:
    """Return the attention weights of rows of logits, shape (rows, keys).

    All scores get the same query 1 and keys z_j of one dimension, whose scaled product is the logit: CosFormer is no
    function of logits, but of these.
    """
    with torch.no_grad():
        return np.asarray(_rows(score, torch.from_numpy(logits)))


def winner_gradients(score: Score, logits: Floats) -> Floats:
    """Return ∂A_0/∂z_j of every row, shape (rows, keys): how the winner's weight (key 0) moves with every logit."""
    z = torch.from_numpy(logits.copy()).requires_grad_()
    (gradient,) = torch.autograd.grad(_rows(score, z)[:, 0].sum(), z)
    return np.asarray(gradient)


def shares(score: Score, logits: Floats) -> Floats:
    """Return |A_j|/Σ|A_k|: the weights themselves for normalised scores, comparable with them for the others."""
    sizes = np.abs(weights(score, logits))
    total = sizes.sum(axis=-1, keepdims=True)
    return np.asarray(sizes / np.where(total > 0, total, np.nan))


def off_winner(score: Score, logits: Floats) -> Floats:
    """Return the share off key 0, as a sum of shares so that it keeps its digits."""
    return np.asarray(shares(score, logits)[:, 1:].sum(axis=-1))


def magnified(row: tuple[float, ...], lam: Floats) -> Floats:
    """Return rows λz."""
    return np.outer(lam, row)


def raised(others: tuple[float, ...], gap: Floats) -> Floats:
    """Return rows whose winner, key 0, exceeds the largest of the others by each gap."""
    rest = np.broadcast_to(others, (gap.size, len(others)))
    return np.column_stack([max(others) + gap, rest])


def visible(values: Floats) -> Floats:
    """Return values with exact zeros, which a logarithmic axis can't show, replaced by gaps."""
    return np.where(values > 0, values, np.nan)


def slope_guide(axes: Axes, slope: float, ends: tuple[float, float], start: float, label: str, side: str) -> None:
    """Draw a thin line of a slope, from height ``start`` at the first end, with its label on one side ("left",
    "right").
    """
    x = np.array(ends)
    y = start * (x / x[0]) ** slope
    axes.plot(x, y, color="0.3", linewidth=0.8)
    middle = (np.sqrt(x.prod()), np.sqrt(y.prod()))
    place: dict[str, Any] = {"xytext": (4, 2), "ha": "left", "va": "bottom"}
    if side == "left":
        place = {"xytext": (-4, -2), "ha": "right", "va": "top"}
    axes.annotate(label, middle, textcoords="offset points", **place)


def _rows(score: Score, logits: torch.Tensor) -> torch.Tensor:
    query = logits.new_ones(len(logits), 1, 1)
    return score.attention_weights(query, logits[:, :, None], scale=1.0)[:, 0]
