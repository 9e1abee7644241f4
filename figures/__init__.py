"""The pictures and tables of phasekit, one script each: ``phasekit figures NAME``
runs ``NAME.py`` from the folder of its chapter.

A script has one function::

    def main(out: Path, preset: Preset) -> list[Path]

which draws into the folder ``out`` and returns the files it wrote. ``preset`` says how much work it is given
(:mod:`phasekit.drawing.presets`): QUICK (minutes on two cores, what ``make reproduce`` runs), FULL (more seeds, finer
grids) or TINY (tests). Its docstring's first line says what it shows. Networks come from the sweeps in ``sims/``,
through :mod:`figures._sweeps`. Scripts draw with :mod:`phasekit.drawing.plotting`, whose ``save`` writes
every picture beside the numbers behind it.
Files whose names begin with an underscore are helpers shared by scripts, not figures.
"""
