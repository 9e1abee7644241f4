"""SGLD and HMC on an ensemble, against the package `posteriors`: one chain at a time, and on a stacked tree."""

from __future__ import annotations

import argparse
import os
import statistics
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from arviz_stats.sampling_diagnostics import ess
from torch import Tensor

from benchmarks._timing import median_ratio, seconds_per_call, verdict
from phasekit.heads import Energy, build_energy, draw_starts
from phasekit.heads.moments import one_hot, pair_counts
from phasekit.model import Model
from phasekit.samplers import HeadsTarget, hmc, sgld
from phasekit.tasks.copy import Dataset, draw_dataset

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its dependencies, about their own future
    import posteriors

_CHAINS, _STEP = 64, 2e-3
_WARM_UP = 3000  # updates of ours before anything is timed: all contenders start from where these chains got
_EVERY = 20  # updates between two numbers written down for effective sample sizes

Parameters = dict[str, Tensor]


def on_the_data(dataset: Dataset) -> Callable[[Parameters, Any], tuple[Tensor, Tensor]]:
    """Return -U of one softmax head as one would write it: the data go through the head."""
    V, L = dataset.model.V, dataset.model.L
    X = one_hot(dataset.tokens, V, "cpu", torch.float32)
    Y = X.roll(1, 1)

    def log_posterior(theta: Parameters, batch: Any) -> tuple[Tensor, Tensor]:
        residual = Y - theta["G"].softmax(-1) @ X @ theta["W"]
        prior = theta["W"].square().sum() + theta["G"].square().sum()
        return -(residual.square().sum() / L + prior) / 2, torch.tensor([])

    return log_posterior


def on_the_moments(dataset: Dataset) -> Callable[[Parameters, Any], tuple[Tensor, Tensor]]:
    """Return the sum of -U over stacked softmax heads, from second moments: what phasekit computes, by autograd."""
    V, L, P = dataset.model.V, dataset.model.L, len(dataset.tokens)
    pairs = pair_counts(dataset.tokens, V).float()
    keys = pairs.reshape(L * L, V * V).T.contiguous()
    copies = pairs.roll(1, dims=1).transpose(0, 1).reshape(L * L, V * V).T.contiguous()

    def log_posterior(theta: Parameters, batch: Any) -> tuple[Tensor, Tensor]:
        W, A = theta["W"], theta["G"].softmax(-1)
        T = (W.reshape(-1, V * V) @ copies).view_as(A)
        K = ((W @ W.mT).reshape(-1, V * V) @ keys).view_as(A)
        error = P * L * len(W) + (A * (A @ K - 2 * T)).sum()
        prior = W.square().sum() + theta["G"].square().sum()
        return -(error / L + prior) / 2, torch.tensor([])

    return log_posterior


class Ours:
    """SGLD of phasekit on all chains."""

    def __init__(self, energy: Energy, W: Tensor, G: Tensor) -> None:
        self.kernel = sgld.build(HeadsTarget(energy, _CHAINS), [(0, k) for k in range(_CHAINS)], step=_STEP)
        self.state = self.kernel.init((W, G))

    def run(self, updates: int) -> None:
        """Take updates."""
        for _ in range(updates):
            self.state = self.kernel.update(self.state, inplace=True)

    def heads(self) -> tuple[Tensor, Tensor]:
        """Return W and G, shapes (1, chains, ...)."""
        W, G = self.state.position
        return W, G


class Theirs:
    """SGLD of `posteriors` at the same step, in place, which is its fast way."""

    def __init__(self, log_posterior: Callable[[Parameters, Any], tuple[Tensor, Tensor]], W: Tensor, G: Tensor) -> None:
        self.transform = posteriors.sgmcmc.sgld.build(log_posterior, lr=_STEP)
        self.state = self.transform.init({"W": W.clone(), "G": G.clone()})

    def run(self, updates: int) -> None:
        """Take updates."""
        for _ in range(updates):
            self.state, _ = self.transform.update(self.state, None, inplace=True)

    def heads(self) -> tuple[Tensor, Tensor]:
        """Return W and G, shapes (1, chains, ...)."""
        W, G = (self.state.params[name].detach() for name in ("W", "G"))
        return W.reshape(1, -1, *W.shape[-2:]), G.reshape(1, -1, *G.shape[-2:])


def draws_per_second(rounds: int, updates: int) -> None:
    """Time chain updates, and estimate how many of them make an independent draw."""
    model = Model(V=8, L=16, P=1024)
    dataset = draw_dataset(model, seed=0)
    energy = build_energy([dataset], dtype="float32", device="cpu", path="moments")
    starts = [("copy", number) for number in range(_CHAINS)]
    ours = Ours(energy, *draw_starts([model], starts, 0, energy.dtype, energy.device))
    ours.run(_WARM_UP)
    W, G = (part[0].clone() for part in ours.heads())
    contenders: dict[str, tuple[Ours | Theirs, int, int]] = {
        "phasekit": (ours, _CHAINS, updates),
        "posteriors, stacked tree, second moments": (Theirs(on_the_moments(dataset), W, G), _CHAINS, updates // 4),
        "posteriors, one chain at a time, data": (Theirs(on_the_data(dataset), W[0], G[0]), 1, updates // 10),
    }
    runs = {
        f"{name}|{threads}": partial(_with_threads, threads, contender.run, count)
        for name, (contender, _, count) in contenders.items()
        for threads in sorted({1, os.cpu_count() or 1})
    }
    best: dict[str, tuple[str, list[float]]] = {}
    for label, seconds in seconds_per_call(runs, rounds).items():
        name, _, threads = label.partition("|")
        _, chains, count = contenders[name]
        per_draw = [s / (chains * count) for s in seconds]
        if name not in best or statistics.median(per_draw) < statistics.median(best[name][1]):
            best[name] = threads, per_draw
    torch.set_num_threads(1)
    for name, (threads, per_draw) in best.items():
        contender, chains, _ = contenders[name]
        length = 200 if chains > 1 else 50
        values = []
        for _ in range(length):
            contender.run(_EVERY)
            averages = energy.averages(*contender.heads())
            values.append(torch.stack([averages.g, averages.loss])[:, 0].numpy())
        g, loss = np.stack(values).transpose(1, 2, 0)
        total = chains * length * _EVERY
        rate = 1 / statistics.median(per_draw)
        sizes = [float(ess(np.atleast_2d(x).astype(float), method="bulk")) for x in (g, loss)]
        print(f"  {name} ({threads} threads): {rate:.4g} draws/s")
        print(f"    {total} draws: g {g.mean():.3f}, loss {loss.mean():.3f};")
        print(f"    effective: {sizes[0]:.0f} for g, {sizes[1]:.0f} for the loss, "
              f"that is {rate * sizes[0] / total:.3g} and {rate * sizes[1] / total:.3g} per second")  # fmt: skip
    fast = best["phasekit"][1]
    verdict(
        "draws/s over one chain at a time", median_ratio(best["posteriors, one chain at a time, data"][1], fast), 100
    )
    verdict("draws/s over the stacked tree", median_ratio(best["posteriors, stacked tree, second moments"][1], fast), 4)


def independence_of_P(rounds: int) -> None:
    """Time HMC's trajectories at several P above L·V = 128."""
    runs: dict[str, Callable[[], object]] = {}
    sizes = (256, 1024, 65536)
    for P in sizes:
        model = Model(V=8, L=16, P=P)
        energy = build_energy([draw_dataset(model, seed=0)], dtype="float64", device="cpu")
        keys = [(0, k) for k in range(_CHAINS)]
        kernel = hmc.build(HeadsTarget(energy, _CHAINS), keys, step=0.5 / P**0.5, leaps=10)
        starts = [("copy", number) for number in range(_CHAINS)]
        state = kernel.init(draw_starts([model], starts, 0, energy.dtype, energy.device))
        runs[str(P)] = lambda kernel=kernel, state=state: [kernel.update(state, inplace=True) for _ in range(10)]
    seconds = seconds_per_call(runs, rounds)
    for P in sizes:
        print(
            f"  HMC at P = {P}: {statistics.median(seconds[str(P)]) / 100 * 1e6:.0f} µs a gradient of {_CHAINS} chains"
        )
    for P in sizes[1:]:
        ratio = median_ratio(seconds[str(P)], seconds[str(sizes[0])])
        verdict(f"gradient at P = {P} over P = {sizes[0]}", ratio, 1.25, at_most=True)


def _with_threads(threads: int, run: Callable[[int], None], updates: int) -> None:
    torch.set_num_threads(threads)
    run(updates)


def main(arguments: list[str] | None = None) -> None:
    """Run both parts and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=200)
    options = parser.parse_args(arguments or [])
    threads = torch.get_num_threads()
    try:
        print(f" SGLD on {_CHAINS} chains, softmax, V = 8, L = 16, P = 1024, float32, step {_STEP}")
        draws_per_second(options.rounds, options.updates)
        torch.set_num_threads(1)
        print(f" HMC on {_CHAINS} chains, softmax, V = 8, L = 16, float64")
        independence_of_P(options.rounds)
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
