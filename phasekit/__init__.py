"""phasekit: when does an attention head suddenly learn to copy?

    import phasekit

    model = phasekit.Model(V=8, L=64, P=800, score="softmax")   # one head on the copy task
    phasekit.find_minima(model)                                 # all minima of its effective action
    phasekit.find_transitions(model)                            # what happens as P grows, and the evidence
    phasekit.plot_transition(model)                             # the same as a picture
    phasekit.phase_diagram(model.grid(P=[…], L=[…]))            # over a grid
    phasekit.scaling_law(model, "L", [16, 32, 64, …])           # how a threshold grows
    phasekit.transition_table(model.grid(L=[…]))                # thresholds of many models
    phasekit.get_score("ssa:n=2")                               # a score function by name

Rooms: phasekit.scores, phasekit.heads (train), phasekit.samplers (sample, diagnose), phasekit.saturation (theorems),
phasekit.attention (drop-in layers), phasekit.tasks and phasekit.transformers (in-context learning), phasekit.runs
(sweeps), phasekit.measure, phasekit.evidence, phasekit.derivations. The command line: ``phasekit --help``.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

# Public names and their rooms; imported on first use, so that `import phasekit` stays fast.
_ROOMS = {
    "InputError": "phasekit.errors",
    "Model": "phasekit.model",
    "Grid": "phasekit.model",
    "get_score": "phasekit.scores",
    "find_minima": "phasekit.theory.minima",
    "find_transitions": "phasekit.theory.transitions",
    "transition_table": "phasekit.theory.transitions",
    "phase_diagram": "phasekit.theory.diagram",
    "scaling_law": "phasekit.theory.scaling",
    "plot_transition": "phasekit.drawing.transition",
}

__all__ = [*_ROOMS]

if TYPE_CHECKING:
    from phasekit.drawing.transition import plot_transition as plot_transition
    from phasekit.errors import InputError as InputError
    from phasekit.model import Grid as Grid
    from phasekit.model import Model as Model
    from phasekit.scores import get_score as get_score
    from phasekit.theory.diagram import phase_diagram as phase_diagram
    from phasekit.theory.minima import find_minima as find_minima
    from phasekit.theory.scaling import scaling_law as scaling_law
    from phasekit.theory.transitions import find_transitions as find_transitions
    from phasekit.theory.transitions import transition_table as transition_table


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(importlib.import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'phasekit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["__version__", *_ROOMS])
