"""What a derivation is: a name, and ordered steps of words and equations, printable as text or LaTeX."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from phasekit.derivations.typeset import latex, unicode


@dataclass(frozen=True)
class Step:
    """One step: the reasoning in words, and the equations that it arrives at."""

    words: str
    equations: tuple[sp.Basic, ...] = ()

    @classmethod
    def of(cls, function: Callable[..., object], *equations: sp.Basic) -> Step:
        """Make a step whose words are the docstring of the function that does it."""
        return cls(" ".join((inspect.getdoc(function) or "").split()), equations)


@dataclass(frozen=True)
class Derivation:
    """A named derivation.

    Attributes
    ----------
    name : str
        The name by which ``phasekit derive`` knows it.
    title : str
    section : str
        The section of the page that it belongs to.
    build : callable
        Carries the derivation out; called when the steps are first asked for, since SymPy takes its time.
    page : str
        The page that the section is on, if not docs/theory.md.
    """

    name: str
    title: str
    section: str
    build: Callable[[], tuple[Step, ...]]
    page: str = "docs/theory.md"

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order."""
        return self.build()

    def text(self, width: int = 100) -> str:
        """Return the derivation for a terminal, equations drawn in Unicode."""
        parts = [f"{self.title}  ({self.page}, section {self.section})"]
        for number, step in enumerate(self.steps, 1):
            indent = " " * (len(str(number)) + 2)
            parts.append(textwrap.fill(f"{number}. {step.words}", width, subsequent_indent=indent))
            for equation in step.equations:
                parts.append(textwrap.indent(unicode(equation), "        "))
        return "\n\n".join(parts) + "\n"

    def latex(self) -> str:
        """Return the derivation as Markdown with LaTeX equations."""
        parts = [f"## {self.title}", f"`phasekit derive {self.name}`, {self.page} section {self.section}"]
        for number, step in enumerate(self.steps, 1):
            parts.append(f"**{number}.** {step.words}")
            parts += [f"$$\n{latex(equation)}\n$$" for equation in step.equations]
        return "\n\n".join(parts) + "\n"
