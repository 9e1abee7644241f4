"""Sparsemax heads on drawn data: the force that the sampling noise of P sequences exerts on every row.

Every theory of :mod:`phasekit.theory.action` replaces the second moments of the data by their expectation. For
sparsemax that isn't enough: its rows answer a force on their logits in full, however long they are. Here the noise is
kept.

**One row is a regression.** With W = w(1 − Π) + w₁Π only the V − 1 bulk directions matter to a row a of A, because it
sums to one. It regresses y = x_c − x̄ (token c is the one to copy) on the columns w(x_j − x̄), with N = P(V−1) numbers
each, of variance w²/V:

    E(a) = ‖X(a − e_c/w)‖²/(2κL) + (‖a‖² − 1/L)/(2σ_g²)     over a ≥ 0, Σ_j a_j = 1.

The last term is exact: of all logits with sparsemax a, those of least norm are a_j − 1/L, also where a_j = 0.

**Cavity.** N/L is of order one where sparsemax learns, so the columns' random overlaps matter. For independent columns
the minimiser is, in law, that of independent keys in a Gaussian field (approximate message passing's state evolution:
M. Bayati, A. Montanari, arXiv:1001.3448; as a minimisation: C. Thrampoulidis, S. Oymak, B. Hassibi, arXiv:1408.4837):

    a = sparsemax[(Λ e_c/w + s z)/(Λ + 1/σ_g²)],   z ~ N(0, 1)^L
    Λ = N v/(κL(1 + χ)),   s² = N v² R/(κL(1 + χ))²,   v = w²/V,   R = ⟨‖a‖²⟩ − 2⟨a_c⟩/w + 1/w²
    χ = v/(κL) (⟨number of keys with weight⟩ − 1)/(Λ + 1/σ_g²)

s is the sampling force, χ what a key's own past takes off it. The energy of a row is then
N v R/(2κL(1+χ)²) + (⟨‖a‖²⟩ − 1/L)/(2σ_g²), and w minimises

    U(w) = L E + (V−1) w²/(2σ_w²) + P/[2κV(1 + t)],   t = Pσ_w²/(κV).

At fixed P/κ, s² and χ fall as 1/κ: κ → ∞ is the theory of infinitely many sequences. The noise of W itself, of relative
order V²/(PL), is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from phasekit.errors import InputError
from phasekit.model import in_words
from phasekit.scores.sparsemax import Sparsemax

if TYPE_CHECKING:
    from torch import Tensor

    from phasekit.model import Model

_READOUTS = 16  # values of w at which U(w) is compared before the lowest is refined
_ROUNDS, _SETTLED = 500, 1e-9


@dataclass(frozen=True)
class DrawnHead:
    """The typical head on drawn data.

    Attributes
    ----------
    U : energy
    readout : w
    aG, g, q : copy order parameter, mean copy weight, mean ‖a‖² of a row
    support : mean number of keys with weight in a row
    force : standard deviation of the sampling force on a key's weight, over the curvature Λ + 1/σ_g²: what it adds to
        each weight of a row whose keys all keep some
    response : χ
    """

    U: float
    readout: float
    aG: float
    g: float
    q: float
    support: float
    force: float
    response: float


class _Rows(NamedTuple):
    """What rows give at a fixed readout."""

    energy: float
    g: float
    q: float
    support: float
    force: float
    response: float


def sparsemax_on_drawn_data(model: Model, rows: int = 2048, seed: int = 0) -> DrawnHead:
    """Return the lowest minimum of U of a sparsemax head on typical data of P sequences.

    Parameters
    ----------
    model : Model
        Sparsemax, positional inputs, with P.
    rows : int
        Rows that averages are taken over. Their fields have the exact first and second moments: where all keys keep
        weight, nothing depends on ``rows``.
    seed : int
        Of the rows' fields: an approximation, not data.

    Raises
    ------
    InputError
        For another score, token+position inputs, a ``key_dim``, or no P.
    ArithmeticError
        If the averages over rows don't settle.
    """
    if not isinstance(model.score, Sparsemax):
        raise InputError("score", model.score.name, "the sampling force is known for sparsemax only")
    if model.inputs != "positional" or model.key_dim is not None:
        raise InputError(
            "inputs", model.inputs, "the sampling force is known for positional inputs and Gaussian G only"
        )
    model.refuse("the sampling force is known for one-hot positions, no mask and uniform tokens only")
    if model.P is None:
        raise InputError("P", None, "missing: the noise of the data depends on it")
    fields = _fields(rows, model.L, seed)
    t = float(model.parameters().strength)
    constant = model.P / (2 * model.kappa * model.V * (1 + t))  # the direction Π

    def energy(log_w: float) -> float:
        w = float(np.exp(log_w))
        return model.L * rows_at(w, model, fields).energy + (model.V - 1) * w**2 / (2 * model.sigma_w**2) + constant

    # Without noise w = t g/(1 + t q) lies between t/(L + t), of uniform rows, and √t/2.
    readouts = np.linspace(np.log(0.5 * t / (model.L + t)), np.log(np.sqrt(t)), _READOUTS)
    lowest = int(np.argmin([energy(x) for x in readouts]))
    ends = readouts[max(0, lowest - 1)], readouts[min(_READOUTS - 1, lowest + 1)]
    found = minimize_scalar(energy, bounds=ends, method="bounded", options={"xatol": 1e-6})
    w = float(np.exp(found.x))
    at = rows_at(w, model, fields)
    aG = (at.g - 1 / model.L) / (1 - 1 / model.L)
    return DrawnHead(float(found.fun), w, aG, at.g, at.q, at.support, at.force, at.response)


def rows_at(w: float, model: Model, fields: Tensor) -> _Rows:
    """Solve for the averages over rows at a fixed readout w; ``fields`` (rows, L) are z, the copy entry first."""

    L, kappa = model.L, model.kappa
    N, v = float(model.P or 0.0) * (model.V - 1), w**2 / model.V
    prior = model.sigma_g**-2
    g, q, support, response = 1 / L, 1 / L, float(L), 0.0
    for _ in range(_ROUNDS):
        residual = q - 2 * g / w + 1 / w**2
        stiffness = N * v / (kappa * L * (1 + response))
        force = np.sqrt(N * residual) * v / (kappa * L * (1 + response))
        logits = fields * (force / (stiffness + prior))
        logits[:, 0] += stiffness / (w * (stiffness + prior))
        A = model.score.rows(logits)
        before = np.array([g, q, response])
        g, q, support = float(A[:, 0].mean()), float(A.square().sum(1).mean()), float((A > 0).sum(1).to(A).mean())
        response = v / (kappa * L) * (support - 1) / (stiffness + prior)
        if np.abs(np.array([g, q, response]) - before).max() < _SETTLED:
            break
    else:
        raise ArithmeticError(f"averages over rows don't settle at w = {w:.4g} ({in_words(model, 'map')})")
    data = N * v * (q - 2 * g / w + 1 / w**2) / (2 * kappa * L * (1 + response) ** 2)
    return _Rows(data + (q - 1 / L) * prior / 2, g, q, support, float(force / (stiffness + prior)), response)


def _fields(rows: int, L: int, seed: int) -> Tensor:
    """Return Gaussian fields (rows, L): means 0, variances 1, none correlated with the copy entry's, in column 0."""
    import torch

    copy = norm.ppf((np.arange(rows) + 0.5) / rows)
    others = np.random.default_rng(seed).standard_normal((rows, L - 1))
    others -= others.mean(0)
    others -= np.outer(copy, copy @ others) / (copy @ copy)
    total = others.sum(1, keepdims=True)
    others += (np.sqrt((L - 1) * rows / (total**2).sum()) - 1) * total / (L - 1)  # rows ignore their mean, but not this
    fields = np.concatenate([copy[:, None] / copy.std(), others / others.std()], axis=1)
    return torch.from_numpy(fields)
