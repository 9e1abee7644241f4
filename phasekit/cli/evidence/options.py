"""The options of chains: how many, how long, and at which data set sizes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from phasekit.checks import real_number
from phasekit.cli.axes import SYNTAX, parse_axis
from phasekit.cli.options import announce
from phasekit.cli.output import working
from phasekit.errors import InputError
from phasekit.model import Model

if TYPE_CHECKING:
    from phasekit.evidence import Loop

_POINTS = SYNTAX.removeprefix("NAME=").replace("NAME=", "")
SizesOption = Annotated[
    str | None,
    typer.Option("-P", "--P", metavar="SIZES", help=f"Data set sizes: {_POINTS}. Default: around the transition."),
]
DrawsOption = Annotated[int, typer.Option("--draws", min=8, help="Draws of each chain, at each P or in each window.")]
ThinOption = Annotated[int, typer.Option("--thin", min=1, help="Updates from one draw to the next.")]
WarmupOption = Annotated[int, typer.Option("--warmup", min=0, help="Updates before the first draw.")]
MembersOption = Annotated[int, typer.Option("--members", min=1, help="Chains from each end.")]
CarriedOption = Annotated[int, typer.Option("--members", min=2, help="Chains on each way.")]
StepOption = Annotated[float, typer.Option("--step", help="Step of the Langevin dynamics (BAOAB, friction 1).")]
DataOption = Annotated[int, typer.Option("--data-seed", min=0, help="Which data set is drawn.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the chains' noise.")]


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """What the user said about the chains that are carried along as P goes up and down."""

    draws: DrawsOption
    thin: ThinOption
    warmup: WarmupOption = 120
    members: CarriedOption
    step: StepOption = 0.08
    data_seed: DataOption = 0
    seed: SeedOption = 0

    def sizes(self, model: Model, written: str | None) -> list[int]:
        """Return the data set sizes that the user wrote, or sizes around the transition (which takes seconds to find).

        Raises
        ------
        InputError
            For sizes or a step that are out of range.
        """
        real_number("step", self.step, above=0)
        if written is not None:
            return [int(size) for size in parse_sizes(written, least=2)]
        from phasekit.evidence import loop_sizes, posterior_passage

        with working("locating the transition"):
            return list(loop_sizes(posterior_passage(model)))

    def loop(self, model: Model, sizes: str | None) -> Loop:
        """Take chains up and down in P; see :meth:`sizes`.

        Raises
        ------
        InputError
            For anything out of range.
        """
        return self.loop_at(model, self.sizes(model, sizes))

    def loop_at(self, model: Model, P: list[int]) -> Loop:
        """Take chains up and down through these sizes."""
        from phasekit.evidence import hysteresis_loop
        from phasekit.samplers import Langevin

        with working("taking chains up and down in P"):
            return hysteresis_loop(
                model,
                P,
                Langevin(step=self.step),
                draws=self.draws,
                thin=self.thin,
                warmup=self.warmup,
                members=self.members,
                data_seeds=(self.data_seed,),
                seed=self.seed,
            )


def takes_loop(**defaults: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of a loop, in the place of its one parameter of type :class:`LoopOptions`.

    Parameters
    ----------
    **defaults : int
        Defaults of options, by name; those of :class:`LoopOptions` for the rest.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        options = [
            option.replace(default=defaults.get(option.name, option.default))
            for option in inspect.signature(LoopOptions, eval_str=True).parameters.values()
        ]
        own = list(inspect.signature(command, eval_str=True).parameters.values())
        place = next(k for k, parameter in enumerate(own) if parameter.annotation is LoopOptions)

        @functools.wraps(command)
        def wrapped(*arguments: Any, **values: Any) -> Any:
            chains = LoopOptions(**{option.name: values.pop(option.name) for option in options})
            return command(*arguments, **values, **{own[place].name: chains})

        return announce(wrapped, [*own[:place], *options, *own[place + 1 :]])

    return decorate


def parse_sizes(text: str, least: int, most: int | None = None) -> list[float]:
    """Return data set sizes, whole numbers in ascending order; a range is rounded, a list must be whole.

    Raises
    ------
    InputError
    """
    _, values = parse_axis(f"P={text}")
    rounded = np.rint(values) if ":" in text or ".." in text else values
    found = sorted({float(value) for value in rounded})
    if found[0] < 1 or any(value != round(value) for value in found):
        raise InputError("P", text, "must be whole numbers of at least 1")
    if len(found) < least or (most is not None and len(found) > most):
        raise InputError("P", text, "must be one size" if most == 1 else f"must be at least {least} sizes")
    return found
