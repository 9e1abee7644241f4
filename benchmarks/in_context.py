"""What SSA costs in a training step of an in-context transformer, against softmax on the same path (at most 1.25)."""

import time
from collections.abc import Callable

import torch

from benchmarks._timing import median_ratio, seconds_per_call, verdict
from phasekit.attention import choose_path
from phasekit.tasks.in_context import Shift
from phasekit.transformers import InContext, Training, parameter_count, train
from phasekit.transformers.in_context import answers_of, mean_loss

BOUND = 1.25
SCORES = ("softmax", "ssa")
#: Architecture, points of a prompt, steps in a round, rounds.
CASES = (("small", 11, 10, 15), ("small", 41, 3, 9), ("paper", 11, 1, 5))
#: Of arXiv:2508.14685: steps, and points of nearly all of its prompts.
PUBLISHED = (500_001, 41)


def stepper(subject: InContext, points: int, steps: int) -> Callable[[], object]:
    """Return what takes so many training steps on one batch: drawing prompts isn't what is compared."""
    model = subject.build()
    prompts = subject.task.draw("train", 0, 0, 64, Shift(points=points))
    settings = Training(steps=steps, rate=1e-4)

    def batch_loss(network: torch.nn.Module, number: int) -> torch.Tensor:
        return mean_loss(subject.task, answers_of(network, prompts), prompts)

    return lambda: train(model, batch_loss, settings, seed=0, run={})


def path_of(subject: InContext, points: int) -> str:
    """Return the path that attention takes."""
    shape = subject.architecture
    some = torch.empty(64, shape.heads, subject.task.tokens_in(points), shape.width // shape.heads)
    return choose_path(subject.score, some, some, some).path


def main() -> None:
    """Print seconds a step and ratios, and what the published training would take here."""
    torch.set_num_threads(1)
    seconds = {}
    for architecture, points, steps, rounds in CASES:
        subjects = {
            score: InContext(task="linear-functions", architecture=architecture, score=score) for score in SCORES
        }
        paths = {path_of(subject, points) for subject in subjects.values()}
        found = seconds_per_call({s: stepper(x, points, steps) for s, x in subjects.items()}, rounds)
        each = {score: min(times) / steps for score, times in found.items()}
        seconds[architecture, points] = each["softmax"]
        words = ", ".join(f"{score} {value:.4f} s" for score, value in each.items())
        print(f"  {architecture}, {points} points, batch 64, path {'/'.join(sorted(paths))}: {words} a step (best)")
        verdict(
            f"ssa / softmax, {architecture}, {points} points",
            median_ratio(found["ssa"], found["softmax"]),
            BOUND,
            at_most=True,
        )
    _published(seconds["paper", 11])


def _published(at_11: float) -> None:
    """Say how long the published training would take on one core, by the time of products of this machine."""
    steps, points = PUBLISHED
    subject = InContext(task="linear-functions", architecture="paper")
    tokens = {p: subject.task.tokens_in(p) for p in (11, points)}
    flops = {p: 6 * parameter_count(subject.build()) * 64 * tokens[p] for p in tokens}
    hours = at_11 * tokens[points] / tokens[11] * steps / 3600
    a = torch.randn(1024, 1024)
    begun = time.perf_counter()
    for _ in range(10):
        a @ a
    peak = 10 * 2 * 1024**3 / (time.perf_counter() - begun)
    print(
        f"  paper: {flops[11] / at_11 / 1e9:.0f} GFLOP/s, {flops[11] / at_11 / peak:.0%} of this core's products of "
        f"matrices; {steps} steps at {points} points: about {hours:.0f} h here, "
        f"{flops[points] * steps / 1e18:.2f} EFLOP, {flops[points] * steps / 1e14 / 3600:.1f} h at 100 TFLOP/s"
    )


if __name__ == "__main__":
    main()
