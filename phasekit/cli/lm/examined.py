"""What `phasekit lm eval` prints of one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phasekit.cli.output import print_table

if TYPE_CHECKING:
    from phasekit.language.evaluation import Evaluation
    from phasekit.language.harness import TaskResult


def document(examined: Evaluation, tasks: list[TaskResult]) -> dict[str, Any]:
    """Return what a model was examined on, as plain values."""
    return {
        "pairs": [row for way in examined.pairs for row in _pair_rows(examined, way)],
        "texts": [
            {
                "text": name,
                "unit": text.unit,
                "units": len(text.nats),
                "tokens": int(text.tokens.sum()),
                "loss": text.loss,
                "perplexity": text.value,
                "interval": text.interval,
                "positions": [
                    dict(zip(("first", "last", "perplexity", "low", "high"), row, strict=True))
                    for row in text.by_position()
                ],
            }
            for name, text in examined.texts.items()
        ],
        "tasks": [
            {"task": one.task, "version": one.version, "shots": one.shots, "context": one.length, "items": one.items}
            | {"metrics": one.metrics}
            for one in tasks
        ],
    }


def _pair_rows(examined: Evaluation, way: str) -> list[dict[str, Any]]:
    from phasekit.language.pairs import TIE
    from phasekit.measure.arms import share_interval

    return [
        {
            "score": way,
            "paradigm": name,
            "pairs": len(right),
            "right": float(right.mean()),
            "interval": share_interval(right),
            "ties": int((right == TIE).sum()),
        }
        for name, right in examined.pairs[way].items()
    ]


def show(name: str, examined: Evaluation, tasks: list[TaskResult]) -> None:
    """Print what a model was examined on, a table for each kind."""
    for way in examined.pairs:
        rows = _pair_rows(examined, way)
        mean = sum(row["right"] for row in rows) / len(rows)
        print_table(
            f"{name}: pairs by {way.replace('_', ' ')}",
            ("paradigm", "right", "low", "high", "ties", "pairs"),
            [(row["paradigm"], row["right"], *row["interval"], row["ties"], row["pairs"]) for row in rows],
            [f"mean of {len(rows)} paradigms: {mean:.4f}; intervals: 95 % over pairs, of this one model"],
        )
    for text, found in examined.texts.items():
        low, high = found.interval
        print_table(
            f"{name}: perplexity on {text} {found.value:.5g}, 95 % over {len(found.nats)} {found.unit}s: "
            f"{low:.5g} to {high:.5g}",
            ("tokens before", "perplexity", "low", "high"),
            [
                (f"{first}" if first == last else f"{first} to {last}", *row)
                for first, last, *row in found.by_position()
            ],
        )
    for one in tasks:
        print_table(
            f"{name}: {one.task} (version {one.version}), {one.shots} shots, {one.length} tokens of context, "
            f"{one.items} items",
            ("metric", "value"),
            list(one.metrics.items()),
        )
