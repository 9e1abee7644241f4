"""Adam on an ensemble against one network at a time in plain PyTorch, JAX, and the machine's matmul peak."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable

import torch

from benchmarks._timing import median_ratio, seconds_per_call, verdict
from phasekit.heads import Adam, AdamEnsemble, build_energy, draw_starts
from phasekit.heads.moments import one_hot, pair_counts
from phasekit.model import Model
from phasekit.tasks.copy import Dataset, draw_dataset

_MEMBERS = 64
_CONSTANT_RATE = Adam(steps=10**9, rate=0.01, final_rate=0.01)


class PlainHead(torch.nn.Module):
    """A softmax head on the copy task as one would write it: the data go through it, autograd comes back."""

    def __init__(self, V: int, L: int) -> None:
        super().__init__()
        self.G = torch.nn.Parameter(torch.randn(L, L))
        self.W = torch.nn.Parameter(torch.randn(V, V))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return A X W."""
        return self.G.softmax(-1) @ X @ self.W


def plain_training(dataset: Dataset, steps: int) -> Callable[[], None]:
    """Return a function that takes full-batch Adam steps on the energy U of one head."""
    V, L = dataset.model.V, dataset.model.L
    X = one_hot(dataset.tokens, V, "cpu", torch.float32)
    Y = X.roll(1, 1)
    head = PlainHead(V, L)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.01)

    def run() -> None:
        for _ in range(steps):
            optimiser.zero_grad()
            prior = head.W.square().sum() / 2 + head.G.square().sum() / 2
            U = (Y - head(X)).square().sum() / (2 * L) + prior
            U.backward()
            optimiser.step()

    return run


def ensemble(dataset: Dataset) -> AdamEnsemble:
    """Return 64 members with random starts on one data set."""
    energy = build_energy([dataset], dtype="float32", device="cpu", path="moments")
    starts = [("random", number) for number in range(_MEMBERS)]
    return AdamEnsemble(energy, draw_starts([dataset.model], starts, 0, energy.dtype, energy.device), _CONSTANT_RATE)


def matmul_peak() -> Callable[[], object]:
    """Return a function that multiplies two float32 matrices of size 2048 (17.2 GFLOP)."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def gradient_flops(V: int, L: int) -> int:
    """Count multiplications and additions in the matrix products of one network's gradient.

    Two products with the copy pairs (V² columns), two with the folded key pairs (V(V+1)/2 columns), AᵀA and AK,
    WWᵀ and HW.
    """
    return 2 * (2 * L**2 * V**2 + L**2 * V * (V + 1) + 2 * L**3 + 2 * V**3)


def against_others(V: int, L: int, P: int, steps: int, plain_steps: int, rounds: int, jax_bound: float | None) -> None:
    """Time 64 members against one at a time and against JAX, each with the number of threads that suits it best."""
    dataset = draw_dataset(Model(V=V, L=L, P=P), seed=0)
    members = ensemble(dataset)
    runs = {
        "ensemble": (lambda: members.run(steps), steps * _MEMBERS),
        "plain": (plain_training(dataset, plain_steps), plain_steps),
        "peak": (matmul_peak(), 1),
    }
    best: dict[str, list[float]] = {}
    contenders: dict[str, Callable[[], object]] = {}
    for threads in sorted({1, os.cpu_count() or 1}):
        for name, (run, _) in runs.items():
            contenders[f"{name}, {threads} threads"] = lambda run=run, threads=threads: _with_threads(threads, run)
    jax_run = _jax(dataset, members, steps)
    if jax_run is not None:
        contenders["jax"] = jax_run
    seconds = seconds_per_call(contenders, rounds)
    for label, values in seconds.items():
        name = label.split(",")[0]
        if name not in best or statistics.median(values) < statistics.median(best[name]):
            best[name] = values
        if name != "peak":
            count = runs[name][1] if name in runs else steps * _MEMBERS
            print(f"  {label}: {count / statistics.median(values):.4g} network-steps/s")
    plain = [s * steps * _MEMBERS / plain_steps for s in best["plain"]]
    verdict("speed over one at a time", median_ratio(plain, best["ensemble"]), 300)
    if "jax" in best:
        name = "speed over JAX jit + vmap"
        ratio = median_ratio(best["jax"], best["ensemble"])
        if jax_bound is None:
            print(f"  {name}: {ratio:.3g}")
        else:
            verdict(name, ratio, jax_bound)
    else:
        print("  JAX isn't installed (extra `bench`): not compared")
    peak = 2 * 2048**3 / statistics.median(best["peak"])
    flops = gradient_flops(V, L) * _MEMBERS * steps / statistics.median(best["ensemble"])
    bound = peak / gradient_flops(V, L)
    print(f"  matmul peak {peak / 1e9:.0f} GFLOP/s, which bounds this at {bound:.3g} network-steps/s;")
    print(f"  its matrix products reach {flops / peak:.0%} of that peak, everything else in a step counted as waste")


def independence_of_P(rounds: int) -> None:
    """Time a step at P = 65 536 against one at P = 1024."""
    few, many = (ensemble(draw_dataset(Model(V=8, L=16, P=P), seed=0)) for P in (1024, 65536))
    torch.set_num_threads(1)
    seconds = seconds_per_call({"few": lambda: few.run(200), "many": lambda: many.run(200)}, rounds)
    verdict("step time at P = 65536 over P = 1024", median_ratio(seconds["many"], seconds["few"]), 1.25, at_most=True)


def _with_threads(threads: int, run: Callable[[], object]) -> None:
    torch.set_num_threads(threads)
    run()


def _jax(dataset: Dataset, members: AdamEnsemble, steps: int) -> Callable[[], float] | None:
    try:
        from benchmarks._networks_in_jax import jax_training
    except ModuleNotFoundError:
        return None
    pairs = pair_counts(dataset.tokens, dataset.model.V).numpy()
    return jax_training(
        pairs, members.position["W"][0].numpy(), members.position["G"][0].numpy(), _CONSTANT_RATE, steps
    )


def main(arguments: list[str] | None = None) -> None:
    """Run all parts and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args(arguments or []).rounds
    threads = torch.get_num_threads()
    try:
        print(f" Adam on {_MEMBERS} networks, V = 8, L = 16, P = 1024, float32")
        against_others(8, 16, 1024, steps=300, plain_steps=20, rounds=rounds, jax_bound=0.5)
        print(f" Adam on {_MEMBERS} networks, V = 16, L = 64, P = 4096, float32")
        against_others(16, 64, 4096, steps=20, plain_steps=2, rounds=max(3, rounds // 2), jax_bound=None)
        print(" Dependence on P, V = 8, L = 16")
        independence_of_P(rounds)
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
