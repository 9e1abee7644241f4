"""Statistical tests take ``seed``: 0 in every ordinary run; ``python -m tests.samplers.flake`` gives them many."""

import os


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        first, count = map(int, os.environ.get("PHASEKIT_SAMPLER_SEEDS", "0:1").split(":"))
        metafunc.parametrize("seed", range(first, first + count))
