"""Where the minima of the effective action change: onset, crossover, first-order transition, spinodals, and order.

:func:`find_transitions` describes one model, with the evidence for the verdict on the order;
:func:`transition_table` does the same numbers for a grid of models at once, as a labelled dataset;
:func:`critical_endpoint` finds where a line of first-order transitions ends,
:func:`critical_exponents` how the jump closes there.
"""

from phasekit.theory.transitions.critical import Approach, critical_exponents
from phasekit.theory.transitions.describe import Transitions, find_transitions
from phasekit.theory.transitions.endpoint import Family, critical_endpoint
from phasekit.theory.transitions.table import locate, transition_table

__all__ = [
    "Approach",
    "Family",
    "Transitions",
    "critical_endpoint",
    "critical_exponents",
    "find_transitions",
    "locate",
    "transition_table",
]
