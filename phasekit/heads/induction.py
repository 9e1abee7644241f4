"""Two-layer networks on the induction task, many at once (docs/induction.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.errors import InputError
from phasekit.heads.energy import common_model
from phasekit.model import Induction, Model
from phasekit.scores import Score
from phasekit.streams import stream
from phasekit.tasks.copy import Dataset
from phasekit.tasks.induction import Questions

#: Names of the matrices: of layer 1 (L×L), of layer 2 (V×V) and the readout (V×V).
WEIGHTS = ("W", "G1", "G2")
_CACHED = 2**18  # numbers of an array that stays in a core's cache
_NOISE = 0.02  # of the prior, in ordered starts
_PLANTED = 1.0  # by how much the log odds of planted layers exceed those of an even split


class InductionEnergy:
    """U(W, G₁, G₂) for D data sets times M members.

        U = Σ_μ ‖y − f‖²/(2κ) + ‖W‖²/(2σ_w²) + (‖G₁‖² + ‖G₂‖²)/(2σ_g²)

    All members see the same sequences, so what a sequence picks from a matrix is one indexed copy for all of them, and
    each product is one batched product.

    Parameters
    ----------
    datasets : sequence of Questions
        Their models may differ in P only.
    device : torch.device
    dtype : torch.float32 or torch.float64
    """

    path = "sequences"

    def __init__(self, datasets: Sequence[Dataset], device: torch.device, dtype: torch.dtype) -> None:
        self.datasets = [data for data in datasets if isinstance(data, Questions)]
        self.model = common_model([data.model for data in datasets], Induction)
        self.device, self.dtype = device, dtype
        self._parts = [_Part(data, device, dtype) for data in self.datasets]

    @property
    def multiplications(self) -> float:
        """Multiplications of one gradient of one member on every data set, roughly."""
        return sum(multiplications(data.model) for data in self.datasets)

    def in_double(self) -> InductionEnergy:
        """Return the same energy in float64."""
        return InductionEnergy(self.datasets, self.device, torch.float64)

    def bind(self, position: Tensors, gradient: Tensors) -> Callable[[], None]:
        """Return what computes the gradient at named tensors into others of the same names."""

        def compute() -> None:
            for d, part in enumerate(self._parts):
                for block in part.blocks(len(position["W"][d])):
                    found = part.passes({name: position[name][d][block] for name in WEIGHTS})
                    for name in WEIGHTS:
                        at, out = position[name][d][block], gradient[name][d][block]
                        torch.add(found[name], at, alpha=self.precision(name), out=out)

        return compute

    def precision(self, name: str) -> float:
        """Return the prior's curvature in the entries of a matrix."""
        return (self.model.sigma_w if name == "W" else self.model.sigma_g) ** -2

    def evaluate(self, position: Tensors, tolerance: float) -> dict[str, Tensor]:
        """Return everything that is recorded about members, in float64: see :class:`phasekit.heads.Ensemble`."""
        energy = self.in_double()
        weights = {name: position[name].double() for name in WEIGHTS}
        rows: list[dict[str, Tensor]] = []
        for d, part in enumerate(energy._parts):
            here = {name: value[d] for name, value in weights.items()}
            found = {**part.passes(here), **part.averages(here)}
            priors = [self.precision(name) * value.square().sum((-2, -1)) / 2 for name, value in here.items()]
            gradients = {name: found[name] + self.precision(name) * here[name] for name in WEIGHTS}
            squares = {name: value.square().sum((-2, -1)) for name, value in gradients.items()}
            distances = [0.5 / self.precision(name) * value for name, value in squares.items()]
            rows.append(
                {
                    "U": found["error"] / (2 * self.model.kappa) + torch.stack(priors).sum(0),
                    "loss": found["error"] / part.P,
                    "gradient_norm": torch.stack([*squares.values()]).sum(0).sqrt(),
                    "excess": torch.stack(distances).sum(0),
                    **{name: found[name] for name in ("alpha1", "alpha2", "q")},
                }
            )
        scalars = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        failed = ~(torch.isfinite(scalars["U"]) & torch.isfinite(scalars["excess"]))
        return {
            **{name: value.masked_fill(failed, torch.nan) for name, value in scalars.items()},
            "converged": ~failed & (scalars["excess"] <= tolerance * scalars["U"]),
            "failed": failed,
            **weights,
            "A": first_score(self.model).rows(weights["G1"]),
        }


class _Part:
    """What one data set gives: indices that pick its tokens out of matrices, the same for all members."""

    def __init__(self, data: Questions, device: torch.device, dtype: torch.dtype) -> None:
        model = data.model
        P, L, V = *data.tokens.shape, model.V
        order = np.argsort(data.asked, kind="stable")
        arrays = (data.tokens, data.asked, data.targets, data.after)
        x, asked, targets, after = (a[order].astype(np.int64) for a in arrays)

        def on_device(values: object) -> Tensor:
            return torch.as_tensor(np.asarray(values), device=device)

        slots = np.full((P, V), P * L)  # where each token stands, counted through all sequences; the last one: nowhere
        np.put_along_axis(slots, x, np.arange(P * L).reshape(P, L), axis=1)
        self.P, self.L, self.V, self.kappa, self.model = P, L, V, model.kappa, model
        self.first, self.second = first_score(model), model.score
        self.pairs = on_device((asked[:, None] * V + x).ravel())  # (query, key) in a V×V matrix
        self.slots, self.places = on_device(slots.ravel()), on_device((np.arange(P)[:, None] * V + x).ravel())
        self.right = on_device(np.arange(P) * L + after)
        self.asked = on_device(np.eye(V)[asked].T).to(dtype)
        self.minus_targets = -on_device(np.eye(V)[targets]).to(dtype)

    def blocks(self, members: int) -> Iterator[slice]:
        """Yield blocks of members whose arrays stay in a core's cache."""
        size = max(1, _CACHED // (self.P * self.V))
        yield from (slice(first, first + size) for first in range(0, members, size))

    def forward(self, at: Tensors) -> tuple[Tensor, ...]:
        """Return C, the logits of bare keys r, those of layer 1's mixtures, a, Σ_j a_j x_j, and f − y."""
        W, G1, G2 = (at[name] for name in WEIGHTS)
        M, (P, L, V) = W.shape[0], (self.P, self.L, self.V)
        C = self.first.rows(G1)
        r = G2.reshape(M, V * V).index_select(1, self.pairs).view(M, P, L)
        logits = torch.bmm(r, C.mT)
        a = self.second.rows(logits)
        collected = self._on_tokens(a)
        return C, r, logits, a, collected, torch.baddbmm(self.minus_targets.expand(M, P, V), collected, W)

    def passes(self, at: Tensors) -> dict[str, Tensor]:
        """Return the gradient of Σ ‖y − f‖²/(2κ), by the weights' names."""
        W, G1, _ = (at[name] for name in WEIGHTS)
        M, (P, L, V) = W.shape[0], (self.P, self.L, self.V)
        C, r, logits, a, collected, error = self.forward(at)
        by_token = torch.bmm(error, (W / self.kappa).mT)
        by_weight = by_token.view(M, P * V).index_select(1, self.places).view(M, P, L)
        by_logit = self.second.pull_back(logits, a, by_weight)
        return {
            "W": torch.bmm(collected.mT, error).div_(self.kappa),
            "G1": self.first.pull_back(G1, C, torch.bmm(by_logit.mT, r)),
            "G2": torch.matmul(self.asked, self._on_tokens(torch.bmm(by_logit, C))),
        }

    def averages(self, at: Tensors) -> dict[str, Tensor]:
        """Return the error Σ ‖y − f‖², the weights of the right keys in both layers, and ⟨Σ_j a_j²⟩."""
        C, _, _, a, _, error = self.forward(at)
        return {
            "error": error.square().sum((-2, -1)),
            "alpha1": C.roll(-1, dims=-2).diagonal(dim1=-2, dim2=-1).mean(-1),
            "alpha2": a.reshape(len(a), self.P * self.L).index_select(1, self.right).mean(-1),
            "q": a.square().sum((-2, -1)) / self.P,
        }

    def _on_tokens(self, weights: Tensor) -> Tensor:
        """Return weights on positions (M, P, L) as weights on tokens (M, P, V), 0 on those that a sequence lacks."""
        M, flat = len(weights), weights.reshape(len(weights), self.P * self.L)
        if self.V > self.L:
            flat = torch.cat([flat, flat.new_zeros(M, 1)], 1)
        return flat.index_select(1, self.slots).view(M, self.P, self.V)


def first_score(model: Model) -> Score:
    """Return the score of layer 1."""
    assert isinstance(model.task, Induction)
    return model.score if model.task.first is None else model.task.first


def multiplications(model: Model) -> float:
    """Return about how many multiplications one gradient of one network takes."""
    return (model.P or 1.0) * (3 * model.L**2 + 4 * model.V**2)


def draw_induction_start(model: Model, start: str, seed: int, member: int) -> dict[str, NDArray[np.float64]]:
    """Return W, G₁ and G₂ where a member starts.

    "uniform": the unstructured state. "copy": the planted end, both layers formed. Both carry noise of 2 % of the
    prior and the readout W = w₁Π + w(1 − Π) that is best for them. "random": drawn from the priors; "random:0.1": a
    tenth of such a draw.
    """
    V, L, random = model.V, model.L, stream(f"start {start}", seed, member)
    word, several, number = start.partition(":")
    if word == "copy" and several:
        raise InputError("start", start, "must be copy, uniform, random or random:SIZE for induction")
    size = _NOISE if word != "random" else float(number or 1)
    drawn = {
        "W": size * model.sigma_w * random.standard_normal((V, V)),
        "G1": size * model.sigma_g * random.standard_normal((L, L)),
        "G2": size * model.sigma_g * random.standard_normal((V, V)),
    }
    if word == "random":
        return drawn
    gap = 0.0 if word == "uniform" else np.log(L - 1) + _PLANTED
    t, mean = float(model.parameters().strength), np.full((V, V), 1 / V)
    share = (np.exp(gap) - 1) / (np.exp(gap) + L - 1)
    alpha = np.exp(gap) / (np.exp(gap) + L - 1)
    g, q = ((V * x - 1) / (V - 1) for x in (alpha, alpha**2 + (1 - alpha) ** 2 / (L - 1)))
    drawn["W"] += t / (1 + t) * mean + t * g / (1 + t * q) * (np.eye(V) - mean)
    if share > 0:
        drawn["G1"] += gap * (np.roll(np.eye(L), -1, axis=1) - 1 / L)
        drawn["G2"] += gap / share * (np.eye(V) - mean)
    return drawn
