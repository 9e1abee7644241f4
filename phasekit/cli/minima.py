"""``phasekit minima``: every local minimum of one model's action."""

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, as_notes, in_words, print_json, print_table, working


@takes_model()
def minima(options: ModelOptions, json: JsonOption = False) -> None:
    """Find every local minimum of the effective action.

    Each minimum is a way for the head to attend (ignore, pool, copy). The one of lowest action wins; the others are
    metastable, and training can be caught in them. Exit status 1 if one of them didn't converge.
    """
    model = options.model()
    from phasekit.theory.minima import find_minima

    with working("searching all minima"):
        found = find_minima(model, options.estimator).describe()
    branches = found["branches"]
    if json:
        print_json(found)
    else:
        names = list(branches[0]["order_parameters"])
        print_table(
            f"Minima of the action, lowest first ({in_words(model, options.estimator)})",
            ["", "action", *names, "loss", "gradient norm", "lowest curvature", "converged"],
            [
                [
                    "global" if k == found["global"] else "metastable",
                    branch["action"],
                    *(branch["order_parameters"][name] for name in names),
                    branch["loss"],
                    branch["gradient_norm"],
                    min(branch["curvatures"]),
                    branch["converged"],
                ]
                for k, branch in enumerate(branches)
            ],
            as_notes(found),
        )
    if not all(branch["converged"] for branch in branches):
        raise typer.Exit(CHECK_FAILED)
