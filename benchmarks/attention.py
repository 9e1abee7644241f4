"""Attention with SSA against softmax: time and memory of the explicit and the lean path, forward and backward.

Times are ratios of contenders that take turns. Memory is what a process of its own needs at its peak, beyond the inputs
and the upstream gradient that it holds before: the high-water mark of its resident set (VmHWM, which Linux can reset)
minus the resident set before, with all libraries warmed up on a tiny problem first.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks._timing import median_ratio, seconds_per_call, verdict
from phasekit.attention import ScoredAttention

BATCH, HEADS, LENGTH, DIM = 4, 8, 1024, 64
LONG = (1024, 2048, 4096, 8192)

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def contender(name: str, heads: int, device: str = "cpu") -> tuple[Attention, list[Tensor]]:
    """Return an attention and its learned parameters: "fused" for torch's, or a score, a space and a path."""
    if name == "fused":
        return scaled_dot_product_attention, []
    score, path = name.split()
    module = ScoredAttention(heads, score, path=path).to(device)
    return module, list(module.parameters())


def problem(name: str, batch: int, heads: int, length: int, device: str = "cpu") -> Callable[[], object]:
    """Return a function that runs one forward and backward pass."""
    torch.manual_seed(0)
    attention, parameters = contender(name, heads, device)
    shape = (batch, heads, length, DIM)
    q, k, v = (torch.randn(shape, device=device, requires_grad=True) for _ in range(3))
    upstream = torch.randn(shape, device=device)

    def run() -> None:
        torch.autograd.grad(attention(q, k, v), [q, k, v, *parameters], upstream)
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def compare(names: list[str], reference: str, bounds: dict[str, float], device: str = "cpu") -> None:
    """Time contenders side by side and print their ratios to one of them."""
    runs = {name: problem(name, BATCH, HEADS, LENGTH, device) for name in names}
    seconds = seconds_per_call(runs, rounds=15)
    for name in names:
        if name != reference:
            median = median_ratio(seconds[name], seconds[reference])
            print(f"  {name}: {min(seconds[name]) * 1e3:.0f} ms at best, median ratio {median:.3g}", flush=True)
            best = min(seconds[name]) / min(seconds[reference])  # other processes only ever add time
            if name in bounds:
                verdict(f"{name} / {reference}, best of the rounds", best, bounds[name], at_most=True)


def peak(name: str, batch: int, heads: int, length: int) -> float:
    """Return the MiB that one forward and backward pass needs beyond its inputs, in a process of its own."""
    arguments = [sys.executable, "-m", "benchmarks.attention", name, str(batch), str(heads), str(length)]
    root = Path(__file__).resolve().parents[1]
    return float(subprocess.run(arguments, check=True, capture_output=True, text=True, cwd=root).stdout)


def measure_peak(name: str, batch: int, heads: int, length: int) -> float:
    """Do the measuring for :func:`peak`."""
    torch.set_num_threads(1)
    problem(name, 1, 2, 16)()
    run = problem(name, batch, heads, length)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark is the present resident set again
    before = resident("VmRSS")
    run()
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """Return a field of this process's memory status in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith(f"{field}:"))


def main() -> None:
    """Print every comparison."""
    cores = torch.get_num_threads()
    print(f"  forward + backward, batch {BATCH}, heads {HEADS}, length {LENGTH}, dim {DIM}, float32")
    print(f"  explicit paths, {cores} thread(s)")
    compare(["softmax explicit", "ssa explicit"], "softmax explicit", {"ssa explicit": 1.25})
    torch.set_num_threads(1)
    print("  lean paths against scaled_dot_product_attention, 1 thread")
    compare(["fused", "softmax lean", "ssa lean"], "fused", {"ssa lean": 1.75})
    torch.set_num_threads(cores)

    print("  peak memory beyond inputs, 1 thread")
    used = {name: peak(name, BATCH, HEADS, LENGTH) for name in ("fused", "ssa lean", "ssa explicit")}
    for name, mebibytes in used.items():
        print(f"  {name}: {mebibytes:.1f} MiB", flush=True)
    verdict("ssa lean / fused", used["ssa lean"] / used["fused"], 1.3, at_most=True)
    growth = [peak("ssa lean", 1, 4, length) for length in LONG]
    for length, mebibytes in zip(LONG, growth, strict=True):
        print(f"  ssa lean, batch 1, heads 4, length {length}: {mebibytes:.1f} MiB", flush=True)
    exponent = math.log(growth[-1] / growth[1]) / math.log(LONG[-1] / LONG[1])
    verdict(f"exponent of memory in the length, {LONG[1]} to {LONG[-1]}", exponent, 1.1, at_most=True)

    if torch.cuda.is_available():
        print("  on the GPU")
        compare(["fused", "ssa lean", "ssa flex"], "fused", {"ssa flex": 1.2}, "cuda")
    else:
        print("  GPU: not run, there is none here")


if __name__ == "__main__":
    if len(sys.argv) == 5:
        print(measure_peak(sys.argv[1], *map(int, sys.argv[2:])))
    else:
        main()
