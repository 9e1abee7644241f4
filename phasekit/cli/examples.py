"""One example for each command, at the end of its help; tests execute them (in the order given)."""

from __future__ import annotations

import typer

#: {STORE} stands for the folder of a store, {SWEEP} for the file of a sweep.
EXAMPLES = {
    "minima": "phasekit minima --score softmax -V 8 -L 64 -P 823",
    "transitions": "phasekit transitions --score ssa --n 2 -V 8 -L 64",
    "diagram": 'phasekit diagram --score softmax -V 8 --x "L=8..64 in 8" --y "P=30..3000 in 9"',
    "scaling": 'phasekit scaling --score softmax -V 8 --threshold P_star --axis "L=32..4096 in 8"',
    "compare": "phasekit compare --scores softmax,ssa:n=2,sparsemax -V 8 -L 64",
    "endpoint": "phasekit endpoint --score ssa -V 8 -L 64 --between n=1.1..6",
    "explore": "phasekit explore --no-browser",
    "saturation": "phasekit saturation --theorem ssa-limit --trials 1000",
    "scores": "phasekit scores",
    "train": "phasekit train --score softmax -V 4 -L 12 -P 120 --steps 300",
    "sample": "phasekit sample --score softmax -V 4 -L 12 -P 60",
    "icl": "phasekit icl every:points=11 --score ssa --architecture one-layer --steps 20 --prompts 16",
    "run": "phasekit run {SWEEP} --preset tiny --store {STORE}",
    "status": "phasekit status {STORE}",
    "collect": "phasekit collect {STORE} --out results.nc",
    "repair": "phasekit repair {STORE}",
    "measure": "phasekit measure {STORE} --what",
    "plot": "phasekit plot {STORE}",
    "figures": "phasekit figures saturation_mass --preset tiny",
    "check-device": "phasekit check-device --device cpu",
    "derive": "phasekit derive softmax",
}


def add_examples(app: typer.Typer) -> None:
    """Put each command's example at the end of its help."""
    for command in app.registered_commands:
        name = command.name or (command.callback.__name__ if command.callback else "").replace("_", "-")
        command.epilog = f"Example: {EXAMPLES[name]}"
