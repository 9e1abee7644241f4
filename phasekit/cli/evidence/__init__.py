"""``phasekit evidence``: what samples of the posterior say about the order of a transition."""

from __future__ import annotations

import typer

from phasekit.cli.evidence import barrier, hysteresis, susceptibility, warning

evidence = typer.Typer(
    help="Look for the order of a transition in samples of the posterior: loops, barriers, fluctuations, warnings.",
    rich_markup_mode="markdown",
)
evidence.command()(hysteresis.hysteresis)
evidence.command()(barrier.barrier)
evidence.command()(susceptibility.susceptibility)
evidence.command()(warning.warning)
