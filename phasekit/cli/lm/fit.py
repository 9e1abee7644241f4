"""``phasekit lm fit``: train one language model on a text, and write it where transformers reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from phasekit.cli.output import JsonOption, print_json, print_table
from phasekit.errors import InputError


def fit(
    text: Annotated[
        str, typer.Argument(help="A file (.txt or .jsonl, also .gz), one document a line; or hf:NAME, a dataset.")
    ],
    shape: Annotated[
        str, typer.Option("--shape", help="decoder-1m, gpt2-5m, babyberta, …; or decoder-1m:layers=2.")
    ] = "decoder-1m",
    score: Annotated[str, typer.Option("--score", help="Score function: ssa, or ssa:n=2.")] = "softmax",
    learned: Annotated[str, typer.Option("--learned", help="Its parameters: for each head, layer, or no.")] = "head",
    vocabulary: Annotated[int, typer.Option("--vocabulary", help="Tokens of the tokenizer that is trained.")] = 4096,
    tokenizer: Annotated[str | None, typer.Option("--tokenizer", help="A file tokenizer.json to take instead.")] = None,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of documents kept from training.")] = 0.05,
    most: Annotated[
        int | None, typer.Option("--most", help="Documents that are taken; a dataset that is streamed needs it.")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps of training.")] = 1000,
    batch: Annotated[int, typer.Option("--batch", help="Examples in a step.")] = 32,
    rate: Annotated[float, typer.Option("--rate", help="Learning rate, which falls to 0 by a cosine.")] = 1e-3,
    warmup: Annotated[int, typer.Option("--warmup", help="Steps in which the rate grows.")] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of weights and batches.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the model and its tokenizer.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="File (.npz) to save the state in, and to go on from.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda or auto.")] = "cpu",
    precision: Annotated[str, typer.Option("--precision", help="float32, float64 or bfloat16.")] = "float32",
    compiled: Annotated[bool, typer.Option("--compile", help="Translate the model with torch.compile first.")] = False,
    accumulate: Annotated[int, typer.Option("--accumulate", help="Batches in a step.")] = 1,
    spread: Annotated[
        bool, typer.Option("--accelerate", help="Spread it over the processes of `accelerate launch`.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Train one language model with any score on a text.

    The folder is what transformers writes; `phasekit lm eval` examines it. Exit status 1 if training diverges.
    """
    from phasekit.extras import require
    from phasekit.files import output_folder
    from phasekit.progress import bar

    require("torch", "transformers", "tokenizers")
    from phasekit.language import LanguageModel, Text, parameter_count, prepare, save, train_language
    from phasekit.language.monitor import learned_parameters
    from phasekit.language.tokenizer import wrapped
    from phasekit.runs.procedures.base import Workplace
    from phasekit.scores import parse_score
    from phasekit.transformers import Training

    size = {"vocabulary": vocabulary} if tokenizer is None else {"tokenizer": tokenizer}
    corpus = {"text": Text(source=text, most=most), "held_out": held_out, **size}
    subject = LanguageModel(corpus=corpus, shape=shape, score=parse_score(score), learned=learned)
    plan: dict[str, Any] = {"steps": steps, "batch": batch, "accumulate": accumulate, "rate": rate, "warmup": warmup}
    settings = Training(**plan | {"precision": precision, "compile": compiled})
    if checkpoint is not None and checkpoint.suffix != ".npz":
        raise InputError("checkpoint", str(checkpoint), "its name must end in .npz")
    if out is not None:
        output_folder(out)
    found = prepare(subject.corpus)
    subject.examples_of(found.train)
    accelerator = None
    if spread:
        require("accelerate")
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=device == "cpu")
    with bar("training", total=steps) as progress:
        model, history = train_language(
            subject,
            settings,
            seed=seed,
            device=device,
            watch_every=steps if len(found.held_out) and not spread else 0,
            accelerator=accelerator,
            checkpoint=checkpoint,
            pause=Workplace(device, checkpoint).pause,
            progress=lambda done, _, loss: progress.show(done, f"training, loss {loss:.4g}"),
        )
    if accelerator is not None and not accelerator.is_main_process:
        return
    if out is not None:
        save(out, model, wrapped(found.tokenizer))
    numbers = learned_parameters(model)
    losses = history.watched.get("loss")
    about = {
        "parameters": parameter_count(model),
        "vocabulary": found.vocabulary,
        "training_tokens": len(found.train.tokens),
        "training_documents": len(found.train),
        "held_out_documents": len(found.held_out),
        "loss": float(history.loss[-100:].mean()),
        "held_out_loss": None if losses is None else float(losses[-1]),
        "held_out_loss_before": None if losses is None else float(losses[0]),
    }
    if json:
        described = {"subject": subject.describe(), "training": settings.describe(), "seed": seed}
        print_json({**described, **about, "learned": numbers, "folder": None if out is None else str(out)})
        return
    notes = [f"{name} = {value:.4g}" for name, value in numbers.items()]
    notes += [f"written to {out}"] if out is not None else ["not kept: give --out FOLDER"]
    rows = [(name.replace("_", " "), "–" if value is None else value) for name, value in about.items()]
    print_table(f"{shape}, {score}: {steps} steps of {batch} examples", ("", ""), rows, notes)
