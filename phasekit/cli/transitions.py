"""``phasekit transitions``: where one model's behaviour changes, and how."""

from __future__ import annotations

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import ErrorOption, JsonOption, print_json, show, working


@takes_model(without=("P",))
def transitions(options: ModelOptions, error: ErrorOption = None, json: JsonOption = False) -> None:
    """Locate and classify the phase transitions on the way from few to many training sequences P.

    Linear attention starts to pool at P1 (second order) and crosses over to copying at P2; softmax attention jumps at
    P_star between two minima (first order), which both exist between the two spinodals, or crosses over smoothly.
    Exit status 1 where nothing changes at any P (order "none"): the evidence says why; 3 where the search failed.
    """
    model = options.model()
    from phasekit.theory.transitions import find_transitions

    with working("locating transitions"):
        found = find_transitions(model, options.estimator, error=error)
    if json:
        print_json(found.describe())
    else:
        show(found.table())
    raise typer.Exit(CHECK_FAILED if found.order == "none" else 0)
