"""``phasekit lm``: language models with any score, examined and compared."""

from __future__ import annotations

import typer

from phasekit.cli.lm import compare, evaluate

lm = typer.Typer(help="Language models with any score: examine and compare them.", rich_markup_mode="markdown")
lm.command(name="eval")(evaluate.evaluate)
lm.command()(compare.compare)
