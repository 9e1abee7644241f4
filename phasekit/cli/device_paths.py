"""Comparisons of every device path with its CPU reference; ``phasekit check-device`` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phasekit.errors import InputError
from phasekit.heads import Adam, AdamEnsemble, Energy, build_energy, draw_starts
from phasekit.heads.moments import pair_counts
from phasekit.model import Model
from phasekit.samplers import HMC, SGLD, HeadsTarget, Langevin, Method, MinibatchTarget, Target
from phasekit.scores import Score, get_score, names
from phasekit.tasks.copy import Dataset, draw_dataset

# Largest deviation allowed, relative to the largest number compared: some hundred roundings.
_TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
# Training amplifies roundings until it converges: U then is stationary, so its error is second order.
_TRAINED_U_TOLERANCE = {"float32": 1e-6, "float64": 1e-10}
# Chains at these steps neither amplify roundings much nor forget them.
_SAMPLED_TOLERANCE = 1e-9

# Sizes that a GPU fills and a CPU does in seconds. Second moments pay above P = L·V, sequences below.
_PATHS: tuple[tuple[str, dict[str, Any], Any], ...] = (
    ("second moments", {"V": 8, "L": 32, "P": 4000}, "moments"),
    ("sequences", {"V": 8, "L": 32, "P": 100}, "sequences"),
    ("tokens", {"V": 8, "L": 16, "P": 300, "inputs": "token+position"}, "sequences"),
    ("tokens, keys first", {"V": 8, "L": 16, "P": 300, "inputs": "token+position", "score": "linear"}, "auto"),
)
_MEMBERS = (("uniform", 0), ("copy", 0), ("random", 0), ("random", 1))
_METHODS: dict[str, Method] = {
    "SGLD": SGLD(step=1e-3),
    "SGLD, minibatches": SGLD(step=1e-3, batch=20),
    "BAOAB": Langevin(step=0.02),
    "HMC": HMC(step=0.05, leaps=4),
}


@dataclass(frozen=True)
class Check:
    """One comparison: what, how far off, how far off it may be."""

    name: str
    dtype: str
    deviation: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        return self.deviation <= self.tolerance  # False for NaN


def checks(device: torch.device, dtypes: Sequence[str] = ("float32", "float64")) -> Iterator[Check]:
    """Compare every path, score and precision on the device with float64 on the CPU."""
    yield from _check_moments(device)
    for dtype in dtypes:
        for label, fields, path in _PATHS:
            for score in [get_score(fields["score"])] if "score" in fields else testable_scores():
                model = Model(**{**fields, "score": score})
                data = [draw_dataset(model, 0), draw_dataset(model.at(P=50), 0)]
                yield _check_energy(f"{label}, {score.name}", data, path, dtype, device)
        for label, fields, path in _PATHS:
            model = Model(**{"score": "softmax", **fields, "P": 200, "L": 8})
            yield _check_training(f"{label}, {model.score.name}", model, path, dtype, device)
    for name, method in _METHODS.items():
        yield _check_sampling(name, method, device)


def testable_scores() -> list[Score]:
    """Return every registered score whose rows are a function of a logit matrix, with its default parameters."""
    found = []
    for score in map(get_score, names()):
        try:
            score.rows(torch.zeros(2, 3))
        except InputError:
            continue  # needs queries and keys, or several heads
        found.append(score)
    return found


def _check_moments(device: torch.device) -> Iterator[Check]:
    tokens = draw_dataset(Model(V=8, L=32, P=100_000), 0).tokens
    difference = pair_counts(tokens, 8, device).cpu() - pair_counts(tokens, 8)
    yield Check("pair counts", "exact", float(difference.abs().max()), 0.0)


def _check_energy(name: str, data: list[Dataset], path: Any, dtype: str, device: torch.device) -> Check:
    """Compare U, both gradients and all averages; report the largest deviation."""
    here = build_energy(data, dtype="float64", device="cpu", path=path)
    there = build_energy(data, dtype=dtype, device=device, path=path)
    W, G = draw_starts([d.model for d in data], _MEMBERS, 0, torch.float64, torch.device("cpu")).values()
    W_there, G_there = W.to(device, there.dtype), G.to(device, there.dtype)
    expected, found = _everything(here, W, G), _everything(there, W_there, G_there)
    deviations = [_deviation(a, b) for a, b in zip(found, expected, strict=True)]
    return Check(f"{name}: energy, gradient, averages", dtype, _largest(deviations), _TOLERANCE[dtype])


def _everything(energy: Energy, W: Tensor, G: Tensor) -> list[Tensor]:
    U, dW, dG = energy.energy_and_gradient(W, G)
    averages = energy.averages(W, G)
    scalars = [averages.loss, averages.s, averages.s2, averages.g, averages.q]
    return [U, dW, dG, *scalars, energy.mean_attention(G)]


def _check_training(name: str, model: Model, path: Any, dtype: str, device: torch.device) -> Check:
    data = [draw_dataset(model, 0)]
    energies = []
    for place in (torch.device("cpu"), device):
        energy = build_energy(data, dtype=dtype, device=place, path=path)
        settings = Adam(steps=300)
        state = AdamEnsemble(energy, draw_starts([model], _MEMBERS[:2], 0, energy.dtype, place), settings)
        state.run(settings.steps)
        W, G = (part.double() for part in state.position.values())
        energies.append(energy.in_double().energy_and_gradient(W, G)[0])
    return Check(f"{name}: U after training", dtype, _deviation(energies[1], energies[0]), _TRAINED_U_TOLERANCE[dtype])


def _check_sampling(name: str, method: Method, device: torch.device) -> Check:
    """Compare chains after some updates: the same bits make the same noise on every device, up to rounding."""
    model = Model(V=8, L=8, P=200)
    data, keys = [draw_dataset(model, 0)], [(0, chain) for chain in range(len(_MEMBERS))]
    ends = []
    for place in (torch.device("cpu"), device):
        energy = build_energy(data, dtype="float64", device=place, path="moments")
        target: Target = HeadsTarget(energy, len(_MEMBERS))
        if method.minibatch is not None:
            target = MinibatchTarget(data, len(_MEMBERS), method.minibatch, keys, energy.dtype, place)
        kernel = method.build(target, keys, warmup=10)
        state = kernel.init(draw_starts([model], _MEMBERS, 0, energy.dtype, place))
        for _ in range(30):
            state = kernel.update(state, inplace=True)
        ends.append(torch.cat([part.flatten() for part in state.position.values()]))
    return Check(f"{name}: chains after 30 updates", "float64", _deviation(ends[1], ends[0].cpu()), _SAMPLED_TOLERANCE)


def _largest(numbers: Sequence[float]) -> float:
    """Return the largest number, NaN if there is any."""
    return float(torch.tensor(numbers).max())


def _deviation(found: Tensor, expected: Tensor) -> float:
    return float((found.cpu().double() - expected).abs().max() / expected.abs().max())
