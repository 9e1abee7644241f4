"""A page in the browser on which one drags P through a phase transition (docs/explorer.md)."""

from pathlib import Path

#: The page: built by ``phasekit.explorer.build``, and part of the package.
PAGE = Path(__file__).resolve().parent / "explorer.html"
