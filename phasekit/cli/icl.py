"""``phasekit icl``: train one transformer on an in-context task, and test it under shift."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasekit.cli.output import JsonOption, print_json, print_table
from phasekit.errors import InputError
from phasekit.show import shown

_COLUMNS = ("error", "trivial", "optimal", "answer_error", "error_at_deviant", "error_behind_deviant")


def icl(
    task: Annotated[str, typer.Argument(help="every, linear-functions, … (docs/in_context.md), or every:points=21.")],
    score: Annotated[str, typer.Option("--score", help="Score function: ssa, or ssa:n=2.")] = "softmax",
    learned: Annotated[str, typer.Option("--learned", help="Its parameters: for each head, layer, or no.")] = "head",
    architecture: Annotated[
        str, typer.Option("--architecture", help="one-layer, small, medium, paper, or small:positions=none.")
    ] = "small",
    steps: Annotated[int, typer.Option("--steps", help="Steps of training.")] = 1000,
    rate: Annotated[float, typer.Option("--rate", help="Learning rate, which falls to 0 by a cosine.")] = 1e-3,
    batch: Annotated[int, typer.Option("--batch", help="Prompts in a step.")] = 64,
    first: Annotated[int | None, typer.Option("--first", help="Points of the first prompts: a curriculum.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of weights and batches.")] = 0,
    tests: Annotated[str, typer.Option("--tests", help="none, few, scales, deviants or all.")] = "few",
    shift: Annotated[
        list[str] | None, typer.Option("--shift", help="One more test: x_scale=5:deviant=1000:place=3.")
    ] = None,
    prompts: Annotated[int, typer.Option("--prompts", min=1, help="Prompts in a test.")] = 256,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="File (.npz) to save the state in, and to go on from.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda or auto.")] = "cpu",
    json: JsonOption = False,
) -> None:
    """Train a transformer on an in-context task, and test it on prompts unlike those of training.

    Errors stand beside those of somebody who learned nothing and of the best predictor. Exit status 1 if training
    diverges.
    """
    from phasekit.progress import bar
    from phasekit.runs.procedures.base import Workplace
    from phasekit.scores import learned_values, parse_score
    from phasekit.tasks.in_context import parse_shift
    from phasekit.transformers import Curriculum, InContext, Training, parameter_count, train_in_context
    from phasekit.transformers.evaluation import check_grid, evaluate, grid

    subject = InContext(task=task, score=parse_score(score), architecture=architecture, learned=learned)
    settings = Training(steps=steps, rate=rate, batch=batch)
    growth = Curriculum() if first is None else Curriculum(first=first, every=max(1, steps // 20))
    shifts = [*grid(subject.task, tests), *map(parse_shift, shift or [])]
    check_grid(subject, shifts)
    if checkpoint is not None and checkpoint.suffix != ".npz":
        raise InputError("checkpoint", str(checkpoint), "its name must end in .npz")
    place = Workplace(device, checkpoint)
    with bar("training", total=steps) as progress:
        model, history = train_in_context(
            subject,
            settings,
            seed=seed,
            curriculum=growth,
            device=device,
            checkpoint=checkpoint,
            pause=place.pause,
            progress=lambda done, _, loss: progress.show(done, f"training, loss {loss:.4g}"),
        )
        rows = []
        for k, one in enumerate(shifts):
            progress.show(steps, f"testing, {k} of {len(shifts)}")
            rows.append(evaluate(model, subject.task, one, prompts=prompts).row())
    last = float(history.loss[-100:].mean())
    learned_numbers = {
        at: {name: x.tolist() for name, x in found.items()} for at, found in learned_values(model).items()
    }
    if json:
        about = {"subject": subject.describe(), "parameters": parameter_count(model), "seed": seed, "loss": last}
        print_json({**about, "training": settings.describe(), "learned": learned_numbers, "tests": rows})
        return
    title = f"{task}, {score}, {architecture}: {parameter_count(model)} parameters, loss {last:.4g} after {steps} steps"
    labels = ("points", "x_scale", "coefficient_scale", "law", "deviant", "place")
    told = [name for name in labels if len({str(row[name]) for row in rows}) > 1]
    lines = [
        [*("–" if row[name] == -1 else row[name] for name in told), *(row[name] for name in _COLUMNS)] for row in rows
    ]
    notes = [f"{at}: {name} = {shown(x)}" for at, found in learned_numbers.items() for name, x in found.items()]
    print_table(title, [*told, *(name.replace("_", " ") for name in _COLUMNS)], lines, notes)
