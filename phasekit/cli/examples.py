"""One example for each command, at the end of its help; tests execute them (in the order given)."""

from __future__ import annotations

import typer
from typer.models import CommandInfo

#: {STORE} stands for the folder of a store, {SWEEP} for the file of a sweep, {TEXT} for a text.
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
    "archive make": "phasekit archive make {STORE} --out results.nc",
    "archive verify": "phasekit archive verify results.nc --share 0.1",
    "evidence hysteresis": "phasekit evidence hysteresis --score linear -V 8 -L 8 -P 4,16,64",
    "evidence barrier": "phasekit evidence barrier --score softmax -V 8 -L 64 -P 1437",
    "evidence susceptibility": "phasekit evidence susceptibility --score linear -V 8 -L 8 -P 20,40",
    "evidence warning": "phasekit evidence warning --score linear -V 8 -L 8 -P 4,6,8,12,16,24,32",
    "lm train": "phasekit lm train {SWEEP} --preset tiny --store {STORE}",
    "lm fit": "phasekit lm fit {TEXT} --shape decoder-1m --score ssa --vocabulary 300 --steps 20 --out model",
    "lm eval": "phasekit lm eval {STORE} --text {TEXT}",
    "lm compare": "phasekit lm compare {STORE}",
}


def add_examples(app: typer.Typer, group: str = "") -> None:
    """Put each command's example at the end of its help, and the first of a group's at the end of the group's."""
    for command in app.registered_commands:
        command.epilog = f"Example: {EXAMPLES[f'{group}{name_of(command)}']}"
    for inner in app.registered_groups:
        assert inner.typer_instance is not None
        assert inner.name is not None
        add_examples(inner.typer_instance, f"{inner.name} ")
        inner.epilog = inner.typer_instance.registered_commands[0].epilog


def name_of(command: CommandInfo) -> str:
    """Return what a command is called on the command line."""
    return command.name or (command.callback.__name__ if command.callback else "").replace("_", "-")
