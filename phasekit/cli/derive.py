"""``phasekit derive``: print a derivation as SymPy carries it out."""

from __future__ import annotations

import sys

from phasekit.cli.output import working, write
from phasekit.errors import InputError


def derive(name: str | None, latex: bool) -> None:
    """Print the names of all derivations, or one derivation.

    Parameters
    ----------
    name : str or None
        Which derivation; None lists them.
    latex : bool
        Write Markdown with formulas in LaTeX instead of text with drawn formulas; without a name, all derivations.

    Raises
    ------
    InputError
        For an unknown name.
    """
    # SymPy is imported only here: no other command needs it.
    from phasekit.derivations.catalogue import DERIVATIONS

    if name is not None and name not in DERIVATIONS:
        raise InputError("derivation", name, f"unknown; choose from {', '.join(DERIVATIONS)}")
    if sys.flags.optimize > 1:
        raise InputError("PYTHONOPTIMIZE", sys.flags.optimize, "removes the words of all steps; must be at most 1")
    with working(f"deriving {name or 'everything'}"):
        if latex:
            chosen = DERIVATIONS.values() if name is None else [DERIVATIONS[name]]
            text = "\n".join(derivation.latex() for derivation in chosen)
        elif name is None:
            width = max(map(len, DERIVATIONS))
            text = "".join(f"{key:<{width}}  {derivation.title}\n" for key, derivation in DERIVATIONS.items())
        else:
            text = DERIVATIONS[name].text()
    write(text)
