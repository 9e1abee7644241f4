"""``phasekit lm``: language models with any score, trained side by side, examined in the same way, and compared."""

from __future__ import annotations

import typer

from phasekit.cli import sweep
from phasekit.cli.lm import compare, evaluate, fit

lm = typer.Typer(
    help="Language models with any score: train them on a text, side by side, examine and compare them.",
    rich_markup_mode="markdown",
)
lm.command("train", help="Train the models of a sweep, all arms and seeds, as `phasekit run` does.")(sweep.run)
lm.command()(fit.fit)
lm.command(name="eval")(evaluate.evaluate)
lm.command()(compare.compare)
