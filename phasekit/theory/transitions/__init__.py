"""Where the minima of the effective action change: onset, crossover, first-order transition, spinodals, and order.

:func:`find_transitions` describes one model, with the evidence for the verdict on the order;
:func:`transition_table` does the same numbers for a grid of models at once, as a labelled dataset;
:func:`critical_endpoint` finds where a line of first-order transitions ends,
:func:`critical_exponents` how the jump closes there.
"""

from phasekit.theory.transitions.branches import stationary_curve
from phasekit.theory.transitions.course import COURSES, THRESHOLDS, Course, Verdict, register
from phasekit.theory.transitions.critical import Approach, critical_exponents
from phasekit.theory.transitions.crossover import Crossover
from phasekit.theory.transitions.describe import Transitions, find_transitions
from phasekit.theory.transitions.endpoint import Family, critical_endpoint
from phasekit.theory.transitions.folds import Folds
from phasekit.theory.transitions.front import Front, Patterns
from phasekit.theory.transitions.jumps import Jumps
from phasekit.theory.transitions.layers import Layers
from phasekit.theory.transitions.onset import Onset
from phasekit.theory.transitions.passage import Passage, State, Threshold
from phasekit.theory.transitions.precision import locate
from phasekit.theory.transitions.relay import Relay
from phasekit.theory.transitions.table import transition_table

__all__ = [
    "COURSES",
    "THRESHOLDS",
    "Approach",
    "Course",
    "Family",
    "Passage",
    "State",
    "Threshold",
    "Transitions",
    "Verdict",
    "critical_endpoint",
    "critical_exponents",
    "find_transitions",
    "locate",
    "register",
    "stationary_curve",
    "transition_table",
]

for _course in (Onset(), Crossover(), Folds(), Jumps(), Front(), Patterns(), Layers(), Relay()):
    register(_course)
