"""Induction heads: all minima of 10 000 models against SciPy from seven starts, 64 networks against one at a time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize

from benchmarks._timing import median_ratio, seconds_per_call, verdict
from phasekit.heads import Adam, AdamEnsemble
from phasekit.heads.induction import InductionEnergy
from phasekit.heads.starts import draw_starts
from phasekit.model import Model, Parameters
from phasekit.tasks.induction import Questions, draw_questions
from phasekit.theory.action import action_for
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import induction_map
from phasekit.theory.minima import minima_of

MODELS, SAMPLE, NETWORKS = 10_000, 40, 64


def main() -> None:
    """Print what each comparison measures, and what it should be."""
    against_scipy()
    against_plain()


def random_models() -> Parameters:
    """Return models on both sides of their transitions: V to 1000, any L up to V."""
    rng = np.random.default_rng(0)
    V = np.floor(10 ** rng.uniform(0.6, 3, MODELS))
    L = np.floor(np.maximum(2, V ** rng.uniform(0.2, 1, MODELS)))
    P = (V + L) * np.log(L + 1) ** 2 * 10 ** rng.uniform(-0.5, 1, MODELS)
    one = np.ones(MODELS)
    return Parameters(P, V, L, one, one, one)


def against_scipy() -> None:
    """Find all minima of all models; a sample of them by L-BFGS-B from seven starts, with the same emitted action."""
    action, p = action_for(Model(V=8, L=8, task="induction")), random_models()
    minima_of(action, p)
    begun = time.perf_counter()
    owner, z, _ = minima_of(action, p)
    ours = time.perf_counter() - begun
    value = action.jet(z, p[owner]).value
    rows = np.random.default_rng(1).choice(MODELS, SAMPLE, replace=False)
    begun, lower = time.perf_counter(), 0
    for k in rows:
        function, starts = _plain_action(p[np.array([k])])
        found = [minimize(function, start, jac=True, method="L-BFGS-B") for start in starts]
        lower += min(each.fun for each in found) < value[owner == k].min() - 1e-6 * value[owner == k].min()
    theirs = (time.perf_counter() - begun) / SAMPLE
    print(f"  {owner.size} minima of {MODELS} models; SciPy finds a lower one for {lower} of {SAMPLE}")
    verdict("seconds for all minima of 10 000 models", ours, 2.0, at_most=True)
    verdict("SciPy from seven starts takes, a model, times as long", theirs / (ours / MODELS), 200)


def _plain_action(p: Parameters) -> tuple[Callable[[Array], tuple[float, Array]], list[Array]]:
    """Return S and its gradient of one model over (Δ, β) in whitened coordinates, and seven starts."""
    P, V, L, sigma_w, sigma_g, kappa = (float(number[0]) for number in p.numbers)
    scales = sigma_g / np.sqrt(np.array([L - 1, V - 1]))

    def function(z: Array) -> tuple[float, Array]:
        gap, match = z * scales
        share, slope, _ = induction_map.route(gap, L)  # type: ignore[arg-type]
        data, force, _ = induction_map.data_jet(match * share, P, V, L, sigma_w, kappa)  # type: ignore[arg-type]
        return float(data + z @ z / 2), force * np.array([match * slope, share]) * scales + z

    log = np.log(L)
    places = [(0, 0), (log, log), (log + 2, log + 2), (log + 2, 0.1), (log, -log), (-log, log), (-log, -log)]
    return function, [np.array(place) / scales for place in places]


def against_plain() -> None:
    """Train 64 networks together, and one as one would write it: V = L = 16, P = 512."""
    data = draw_questions(Model(V=16, L=16, P=512, task="induction"), 0)
    energy = InductionEnergy([data], torch.device("cpu"), torch.float32)
    starts = draw_starts([data.model], [("random", k) for k in range(NETWORKS)], 0, energy.dtype, energy.device)
    ensemble = AdamEnsemble(energy, starts, Adam(steps=10**9, rate=0.01, final_rate=0.01))
    steps = 20

    def together() -> None:
        with torch.no_grad():
            ensemble.run(steps)

    best: dict[str, list[float]] = {}
    for threads in (1, 2):  # each with the number that suits it best
        torch.set_num_threads(threads)
        for name, values in seconds_per_call({"plain": plain_training(data, steps), "ensemble": together}).items():
            print(f"  {name}, {threads} threads: {1e3 * min(values) / steps:.2f} ms a step")
            best[name] = min(best.get(name, values), values, key=statistics.median)
    ratio = NETWORKS * median_ratio(best["plain"], best["ensemble"])
    verdict("64 networks one at a time in plain PyTorch take times as long", ratio, 50)


def plain_training(data: Questions, steps: int) -> Callable[[], None]:
    """Return a function that takes full-batch Adam steps on the energy U of one network."""
    V, L, rows = data.model.V, data.model.L, torch.arange(len(data.tokens))
    X = torch.eye(V)[torch.from_numpy(data.tokens.astype(np.int64))]
    query, target = X[rows, torch.from_numpy(data.query)], X[rows, torch.from_numpy(data.after)]
    G1, G2, W = (torch.nn.Parameter(torch.randn(n, n)) for n in (L, V, V))
    optimiser = torch.optim.Adam([G1, G2, W], lr=0.01)

    def run() -> None:
        for _ in range(steps):
            optimiser.zero_grad()
            keys = G1.softmax(-1) @ X
            attention = torch.einsum("pv,vw,pjw->pj", query, G2, keys).softmax(-1)
            output = torch.einsum("pj,pjv->pv", attention, X) @ W
            prior = (G1.square().sum() + G2.square().sum() + W.square().sum()) / 2
            U = (target - output).square().sum() / 2 + prior
            U.backward()
            optimiser.step()

    return run
