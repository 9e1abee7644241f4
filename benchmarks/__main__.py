"""Run the benchmarks named on the command line, or all: ``python -m benchmarks [NAME…]``."""

import importlib
import pkgutil
import sys

import benchmarks


def run(names: list[str]) -> int:
    """Run benchmarks by name; return 2 for an unknown name."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    known = sorted(name for name in found if not name.startswith("_"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"error: benchmark = {unknown[0]!r}: must be one of {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or known:
        print(f"\n{name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
