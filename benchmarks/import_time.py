"""How long ``import phasekit`` and the command line take to start, each in fresh processes (target: 0.5 s)."""

import subprocess
import sys
import time

REPEATS = 5
STATEMENTS = {
    "empty Python": "pass",
    "import phasekit": "import phasekit",
    "phasekit.Model(V=8, L=16)": "import phasekit; phasekit.Model(V=8, L=16)",
    "phasekit --version": "from phasekit.cli import run; run(['--version'])",
    "from phasekit.theory.minima import find_minima": "from phasekit.theory.minima import find_minima",
}


def seconds(statement: str) -> float:
    """Return the shortest of several wall-clock times of a process that runs the statement."""
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begun)
    return min(times)


def main() -> None:
    """Print the times, and what remains after subtracting Python's own start."""
    empty = seconds(STATEMENTS["empty Python"])
    print(f"{'statement':42s} {'process':>10s} {'beyond Python':>14s}")
    for name, statement in STATEMENTS.items():
        total = seconds(statement)
        print(f"{name:42s} {total:8.3f} s {total - empty:12.3f} s")


if __name__ == "__main__":
    main()
