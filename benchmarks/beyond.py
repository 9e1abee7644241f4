"""What masks and token laws cost: a diagram of causal heads, ensembles under a mask, and vocabularies of any size.

    python -m benchmarks.beyond

Times of the processor, one thread; ratios are of runs that alternate.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from phasekit.heads import Adam, AdamEnsemble, build_energy
from phasekit.heads.starts import draw_starts
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions, transition_table

LENGTHS, SIZES, LONGEST = 60, 60, 1024
ROUNDS, STEPS = 5, 40


def main() -> None:
    """Print all of it."""
    causal = Model(V=8, L=8, mask="causal")
    L = np.unique(np.rint(np.geomspace(8, LONGEST, LENGTHS)))
    P = np.geomspace(20, 60 * LONGEST, SIZES)
    took = seconds(lambda: find_minima(causal.grid(L=L, P=P)))
    print(f"minima of {L.size} × {P.size} causal heads, L up to {LONGEST}: {took:.1f} s")
    print(f"their transitions, {L.size} heads: {seconds(lambda: transition_table(causal.grid(L=L))):.1f} s")
    for size in ({"V": 8, "L": 32, "P": 600}, {"V": 8, "L": 64, "P": 800}):
        print(f"a step of 8 causal heads, {size}, over one without a mask: {ratio(size):.2f}")
    for V in (100, 10_000, 1_000_000):
        took = seconds(lambda V=V: find_transitions(Model(V=V, L=64, tokens="zipf")))
        print(f"transition of Zipf tokens, V = {V}: {took:.2f} s")


def seconds(work: Callable[[], object]) -> float:
    """Return the processor's time that something takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratio(size: dict[str, int]) -> float:
    """Return the time of steps under a causal mask over those without, the median of alternating runs."""
    ensembles = [_ensemble(Model(**size, mask=mask)) for mask in ("causal", "none")]
    pairs = [[seconds(lambda one=one: one.run(STEPS)) for one in ensembles] for _ in range(ROUNDS)]
    return float(np.median([masked / plain for masked, plain in pairs]))


def _ensemble(model: Model) -> AdamEnsemble:
    energy = build_energy([draw_dataset(model, 0)], device="cpu", path="moments")
    members = [(start, k) for start in ("uniform", "copy") for k in range(4)]
    position = draw_starts([model], members, 0, torch.float32, torch.device("cpu"))
    return AdamEnsemble(energy, position, Adam(steps=10 * ROUNDS * STEPS))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
