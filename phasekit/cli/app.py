"""The commands and their names."""

from typing import Annotated

import typer

from phasekit import __version__
from phasekit.cli import (
    archive,
    check_device,
    compare,
    diagram,
    endpoint,
    evidence,
    explore,
    figures,
    icl,
    measure,
    minima,
    plot,
    saturation,
    scaling,
    scores,
    store,
    sweep,
    train,
    transitions,
)
from phasekit.cli.examples import add_examples
from phasekit.cli.lm import lm
from phasekit.cli.output import write

_STATUS = (
    "Exit status: 0 done; 1 a check failed, or nothing changes; 2 wrong usage; 3 no answer: a search failed, chains "
    "diverged, or there is no GPU to check; 130 interrupted."
)

app = typer.Typer(
    name="phasekit",
    help="When does an attention head suddenly learn to copy? Effective actions, their minima and phase transitions.",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    epilog=_STATUS,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def phasekit(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the help if no command is given."""
    if version:
        write(f"phasekit {__version__}\n")
    elif context.invoked_subcommand is None:
        write(context.get_help() + "\n")


app.command()(minima.minima)
app.command()(transitions.transitions)
app.command()(diagram.diagram)
app.command()(scaling.scaling)
app.command()(compare.compare)
app.command()(endpoint.endpoint)
app.command()(explore.explore)
app.command()(saturation.saturation)
app.command()(scores.scores)
app.command()(train.train)
app.command()(train.sample)
app.command()(icl.icl)
app.command()(sweep.run)
app.command()(store.status)
app.command()(store.collect)
app.command()(store.repair)
app.command()(measure.measure)
app.command()(plot.plot)
app.command()(figures.figures)
app.command()(check_device.check_device)
app.add_typer(archive.archive, name="archive")
app.add_typer(evidence.evidence, name="evidence")
app.add_typer(lm, name="lm")


@app.command()
def derive(
    name: Annotated[str | None, typer.Argument(help="Which derivation; without one, all are listed.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Write Markdown with formulas in LaTeX.")] = False,
) -> None:
    """Print a derivation: from the model to its effective action, step by step, as SymPy carries it out."""
    from phasekit.cli.derive import derive as print_derivation

    print_derivation(name, latex)


add_examples(app)
