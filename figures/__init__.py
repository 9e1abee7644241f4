"""The pictures and tables of phasekit, one script each: ``phasekit figures NAME``
runs ``NAME.py`` from the folder of its chapter.

A script has one function::

    def main(out: Path, preset: str) -> list[Path]

which draws into the folder ``out`` and returns the files it wrote. ``preset`` is "quick" (minutes on two cores, what
``make reproduce`` runs) or "full" (more seeds, finer grids). Its docstring's first line says what it shows.
Scripts draw with :mod:`phasekit.drawing.plotting`, whose ``save`` writes every picture beside the numbers behind it.
Files whose names begin with an underscore are helpers shared by scripts, not figures.
"""
