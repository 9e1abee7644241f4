"""How often a right sampler fails its statistical tests: ``python -m tests.samplers.flake --seeds 100``."""

import argparse
import collections
import os
import sys
import time
from pathlib import Path

import pytest


class Outcomes:
    """Runs the tests that take a seed, and counts passes and failures of each over its seeds."""

    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if "seed" in getattr(item, "fixturenames", ())]

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            self.counts[report.nodeid.partition("[")[0]][report.outcome] += 1
        if report.failed:
            print(f"\nfailed: {report.nodeid}", flush=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.samplers.flake", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    os.environ["PHASEKIT_SAMPLER_SEEDS"] = f"{options.first}:{options.seeds}"
    outcomes, begun = Outcomes(), time.perf_counter()
    pytest.main(["-q", "--no-header", "--tb=line", str(Path(__file__).parent)], plugins=[outcomes])
    tests = outcomes.counts
    for name, count in sorted(tests.items()):
        print(f"{count['failed']:4d} of {sum(count.values()):5d} failed: {name}")
    failed = sum(count["failed"] for count in tests.values())
    runs = sum(sum(count.values()) for count in tests.values())
    print(f"flake rate {failed}/{runs} over {options.seeds} seeds, {time.perf_counter() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
