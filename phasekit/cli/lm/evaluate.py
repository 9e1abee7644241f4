"""``phasekit lm eval``: what trained language models can do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.cli.lm.examined import document, show
from phasekit.cli.output import JsonOption, print_json
from phasekit.errors import InputError
from phasekit.extras import require

if TYPE_CHECKING:
    from phasekit.language.evaluation import Evaluation
    from phasekit.language.harness import TaskResult
    from phasekit.language.models import Trained

#: Documents that are taken from a stream, which may never end.
_OF_A_STREAM = 50_000


def evaluate(
    target: Annotated[Path, typer.Argument(metavar="FOLDER|STORE", help="A saved model, or a run store with some.")],
    zorro: Annotated[
        Path | None,
        typer.Option("--zorro", "--pairs", metavar="DIR", help="Minimal pairs: a folder of .txt or .jsonl, or a file."),
    ] = None,
    paradigm: Annotated[list[str] | None, typer.Option("--paradigm", help="Only this file of the folder.")] = None,
    most_pairs: Annotated[int | None, typer.Option("--most-pairs", help="Pairs of each file at most.")] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="FILE", help="Perplexity on a text: .txt, .jsonl, each also .gz, or hf:NAME."),
    ] = None,
    documents: Annotated[int, typer.Option("--documents", min=1, help="Documents of a text at most.")] = 2000,
    length: Annotated[
        list[int] | None, typer.Option("--length", min=2, help="Cut texts into blocks of so many tokens (decoders).")
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="A task of lm-evaluation-harness, or the .yaml of one.")
    ] = None,
    shots: Annotated[
        int | None, typer.Option("--shots", min=0, help="Examples before each question of a task.")
    ] = None,
    context: Annotated[int | None, typer.Option("--context", min=2, help="Tokens of context in tasks.")] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Sentences at once.")] = 256,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda or auto.")] = "cpu",
    json: JsonOption = False,
) -> None:
    """Examine language models: minimal pairs, perplexity, tasks of lm-evaluation-harness.

    A folder is what `save_pretrained` wrote; its score is read from its configuration. For a store, all trained models
    are examined, on documents that they weren't trained on, and the results are kept in it for `phasekit lm compare`.
    """
    if zorro is None and not text and not task:
        raise InputError("what", None, "name pairs (--zorro), a text (--text) or a task (--task)")
    require("transformers", "tokenizers", *(["lm_eval"] if task else []))
    from phasekit.device import resolve_device
    from phasekit.language.evaluation import examine
    from phasekit.language.harness import run_tasks
    from phasekit.language.pairs import read_paradigms
    from phasekit.language.text import spread
    from phasekit.progress import bar

    paradigms = () if zorro is None else read_paradigms(zorro, paradigm, most_pairs)
    where = resolve_device(device)
    found: list[tuple[str, Evaluation, list[TaskResult]]] = []
    with bar("examining") as progress:
        for name, trained, unseen, keep in _models(target):
            trained.model.to(where)  # type: ignore[arg-type]
            texts = {source: spread(unseen(source), documents) for source in text or ()}
            examined = examine(
                trained.model,
                trained.tokenizer,
                paradigms=paradigms,
                texts=texts,
                lengths=length or (),
                batch=batch,
                progress=lambda words, name=name: progress.show(0, f"{name}: {words}"),  # type: ignore[misc]
            )
            keep(examined)
            tasks = (
                run_tasks(trained.model, trained.tokenizer, task, shots=shots, length=context, batch=min(batch, 32))
                if task
                else []
            )
            found.append((name, examined, tasks))
    if json:
        print_json({"models": [{"model": name, **document(examined, tasks)} for name, examined, tasks in found]})
        return
    for k, (name, examined, tasks) in enumerate(found):
        show(f"\n{name}" if k else name, examined, tasks)


def _models(target: Path) -> Iterator[tuple[str, Trained, Any, Any]]:
    """Yield each model with its name, a function from a text to the documents to examine it on, and one that keeps."""
    from phasekit.language.models import load
    from phasekit.language.text import STREAM, Text
    from phasekit.language.text import documents as read

    def all_of(source: str) -> list[str]:
        return list(read(Text(source=source, most=_OF_A_STREAM if source.startswith(STREAM) else None)))

    if (target / "config.json").exists():
        yield str(target), load(target), all_of, lambda examined: None
        return
    from phasekit.language.corpus import not_trained_on
    from phasekit.measure.examined import evaluation_file, evaluation_of, language_tasks, trained_model
    from phasekit.measure.language import arm_label
    from phasekit.runs.store.store import Store

    store = Store.open(target)
    nothing = True
    for task, result in language_tasks(store):
        nothing = False
        subject: Any = task.model
        earlier = evaluation_of(store, task.id, result)

        def unseen(source: str, corpus: Any = subject.corpus) -> list[str]:
            return not_trained_on(corpus, all_of(source))

        def keep(examined: Evaluation, name: str = task.id, earlier: Evaluation = earlier) -> None:
            earlier.joined(examined).save(evaluation_file(store, name))

        yield f"{arm_label(subject)}, seed {task.data_seed}", trained_model(task, result), unseen, keep
    if nothing:
        raise InputError("store", str(target), "holds no language model that is trained")
