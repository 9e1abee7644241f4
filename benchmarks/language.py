"""What SSA costs in a training step of a language model, against softmax on the same path (at most 1.3).

And how near a step is to this core's products of matrices, and what the published training takes on a large GPU at a
given share of its peak: arithmetic, not measurement.
"""

import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks._timing import median_ratio, seconds_per_call, verdict
from phasekit.language import SHAPES, Shape, build, parameter_count
from phasekit.language.batches import Batch, Masking, following, framed
from phasekit.language.training import Predictor, loss_of
from phasekit.scores import get_score
from phasekit.transformers import Training, train

BOUND = 1.3
SCORES = ("softmax", "ssa")
#: Shape, vocabulary, examples in a batch, tokens in an example, steps in a round, rounds.
CASES = (
    ("decoder-1m", 4096, 16, 128, 1, 7),
    ("decoder-5m", 8192, 8, 256, 1, 7),
    ("babyberta-1m", 4096, 64, 12, 2, 7),
    ("decoder-114m", 50_256, 1, 256, 1, 2),
)
#: Tokens that the published decoder was trained on: 22 000 steps of 768 sequences of 1024.
PUBLISHED = 22_000 * 768 * 1024
#: Peak of products in bfloat16, in FLOP/s, from the makers' data sheets, and the share of it that training reaches.
GPUS = {"A100 80 GB": 312e12, "H100 80 GB": 989e12}
SHARE = 0.4
#: Sequences that a GPU holds at once; the rest of a step's 768 are accumulated.
AT_ONCE = 16


def batch_of(shape: Shape, vocabulary: int, examples: int, tokens: int) -> Batch:
    """Return a batch of random tokens; an encoder's has a seventh of its places masked."""
    draw = np.random.default_rng(0)
    if shape.kind == "decoder":
        rows = draw.integers(5, vocabulary, (examples, tokens))
        return following(rows, np.ones(rows.shape, dtype=bool))
    sentences = [draw.integers(5, vocabulary, draw.integers(3, tokens)) for _ in range(examples)]
    return Masking().apply(framed(sentences), vocabulary, draw)


def stepper(model: torch.nn.Module, batch: Batch, steps: int) -> Callable[[], object]:
    """Return what takes so many training steps on one batch: drawing it isn't what is compared."""
    settings, device = Training(steps=steps, rate=1e-4), torch.device("cpu")
    return lambda: train(model, lambda network, number: loss_of(network, batch, device), settings, seed=0, run={})


def operations(shape: Shape, model: torch.nn.Module, tokens: int, length: int) -> float:
    """Return the floating-point operations of a step on so many tokens: 6 for each weight and token, and attention's.

    The matrix of tokens counts once: it isn't multiplied where tokens are looked up, but where they are read out.

    Attention: two products with keys and values, forwards and twice backwards, half of them masked in a decoder
    (J. Kaplan et al., arXiv:2001.08361).
    """
    half = 0.5 if shape.kind == "decoder" else 1.0
    return 6.0 * parameter_count(model) * tokens + half * 12.0 * shape.layers * shape.width * length * tokens


def paths_of(model: torch.nn.Module) -> str:
    """Return the paths that a model's attention took last."""
    last = [getattr(module, "last_path", None) for module in model.modules()]
    return "/".join(sorted({choice.path for choice in last if choice is not None}))


def peak() -> float:
    """Return this thread's FLOP/s in products of square matrices."""
    a = torch.randn(1024, 1024)
    seconds = []
    for _ in range(9):
        begun = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - begun)
    return 2 * 1024**3 / statistics.median(seconds)


def main() -> None:
    """Print seconds a step, ratios, tokens a second and the share of the peak; then what a GPU would take."""
    torch.set_num_threads(1)
    best = peak()
    print(f"  products of matrices on this core: {best / 1e9:.0f} GFLOP/s")
    for name, vocabulary, examples, length, steps, rounds in CASES:
        shape = SHAPES[name]
        batch = batch_of(shape, vocabulary, examples, length)
        models = {score: Predictor(build(shape, vocabulary, get_score(score))) for score in SCORES}
        found = seconds_per_call({s: stepper(model, batch, steps) for s, model in models.items()}, rounds)
        tokens = int(batch.visible.sum())
        for score, model in models.items():
            each = min(found[score]) / steps
            share = operations(shape, model, tokens, length) / each / best
            print(
                f"  {name}, {score}, {examples} x {length}, path {paths_of(model)}: {each:.3f} s a step (best), "
                f"{tokens / each:.0f} tokens/s, {share:.0%} of the products"
            )
        ratio = median_ratio(found["ssa"], found["softmax"])
        verdict(f"ssa / softmax, a step of {name}", ratio, BOUND, at_most=True)
    print(f"  memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")
    _on_a_gpu()


def _on_a_gpu() -> None:
    """Say what the published training of the 114 M decoder takes by arithmetic."""
    shape = SHAPES["decoder-114m"]
    with torch.device("meta"):
        model = Predictor(build(shape, 50_256, get_score("ssa")))
    flops = operations(shape, model, 1, shape.longest) * PUBLISHED
    weights = parameter_count(model)
    # weights, gradients and Adam's two moments in float32; logits in bfloat16 and float32, and their gradient; some 34
    # numbers of 2 bytes for each token, layer and unit of width (V. Korthikanti et al., arXiv:2205.05198)
    tokens = AT_ONCE * shape.longest
    memory = 16 * weights + 10 * tokens * 50_256 + 34 * tokens * shape.layers * shape.width
    hours = ", ".join(f"{flops / (SHARE * value) / 3600:.0f} h on one {name}" for name, value in GPUS.items())
    print(
        f"  114 M decoder, {PUBLISHED / 1e9:.1f} G tokens: {flops / 1e18:.1f} EFLOP; at {SHARE:.0%} of the peak "
        f"{hours}; {memory / 1e9:.0f} GB with {AT_ONCE} sequences at once (arithmetic, not measured)"
    )


if __name__ == "__main__":
    main()
