"""Other random numbers everywhere: ``PHASEKIT_SEED_SHIFT=N`` adds N to every seed, in tests and their processes.

``tests/conftest.py`` puts this folder on the path of processes that tests start. Without the variable nothing changes.
"""

import os

SHIFT = int(os.environ.get("PHASEKIT_SEED_SHIFT", "0"))


def shift_numpy():
    """Let NumPy's generators and seed sequences begin elsewhere for the same seed."""
    import numpy as np

    random = np.random
    if random.SeedSequence.__name__ == "Shifted":  # already, when this process began
        return
    default_rng, SeedSequence = random.default_rng, random.SeedSequence

    def words(seed):
        return [SHIFT, *np.atleast_1d(seed).tolist()]

    def shifted_rng(seed=None):
        known = seed is None or isinstance(seed, (random.Generator, random.BitGenerator, SeedSequence))
        return default_rng(seed if known else words(seed))

    class Shifted(SeedSequence):
        def __init__(self, entropy=None, **options):
            super().__init__(entropy if entropy is None else words(entropy), **options)

    random.default_rng, random.SeedSequence = shifted_rng, Shifted


def shift_torch():
    """Let torch begin elsewhere for the same seed."""
    import torch

    seeded = torch.manual_seed
    torch.manual_seed = lambda seed: seeded(int(seed) + SHIFT)


if SHIFT:
    shift_numpy()
