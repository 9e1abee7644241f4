"""What a derivation is: a name, and ordered steps of words and equations, printable as text or LaTeX."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import sympy as sp

from derivations.symbols import LATEX


@dataclass(frozen=True)
class Step:
    """One step: the reasoning in words, and the equations that it arrives at."""

    words: str
    equations: tuple[sp.Basic, ...] = ()


@dataclass(frozen=True)
class Derivation:
    """A named derivation.

    Attributes
    ----------
    name : str
        The name by which ``phasekit derive`` knows it.
    title : str
    section : str
        The section of docs/theory.md that it belongs to.
    steps : tuple of Step
    """

    name: str
    title: str
    section: str
    steps: tuple[Step, ...]

    def text(self, width: int = 100) -> str:
        """Return the derivation for a terminal, equations drawn in Unicode."""
        parts = [f"{self.title}  (docs/theory.md, section {self.section})"]
        for number, step in enumerate(self.steps, 1):
            parts.append(textwrap.fill(f"{number}. {step.words}", width, subsequent_indent="   "))
            for equation in step.equations:
                parts.append(textwrap.indent(sp.pretty(equation, use_unicode=True, wrap_line=False), "       "))
        return "\n\n".join(parts) + "\n"

    def latex(self) -> str:
        """Return the derivation as Markdown with LaTeX equations."""
        parts = [f"# {self.title}", f"(`{self.name}`, docs/theory.md section {self.section})"]
        for number, step in enumerate(self.steps, 1):
            parts.append(f"{number}. {step.words}")
            for equation in step.equations:
                parts.append(f"$$\n{sp.latex(equation, symbol_names=LATEX)}\n$$")
        return "\n\n".join(parts) + "\n"
