"""Language models of a sweep, arm by arm."""

from __future__ import annotations

from functools import cache

from figures._sweeps import finished
from phasekit.drawing.presets import Preset
from phasekit.measure.language import Experiment, experiments

#: Sweeps of an encoder and of a decoder on child-directed speech.
ENCODER, DECODER = "lm_babyberta", "lm_decoder"
WORDS = {ENCODER: "encoder", DECODER: "decoder"}
REFERENCE = "softmax"


@cache
def experiment(preset: Preset, name: str) -> Experiment:
    """Return the one experiment of a sweep."""
    sweep, store, _ = finished(preset, name)
    (found,) = experiments(store, f"{sweep.name}:{sweep.preset}")
    return found


def colours(one: Experiment) -> dict[str, str]:
    """Return a colour for each arm, the same for the same score in every picture."""
    scores = {"softmax": "C0", "ssa": "C1", "temperature": "C2"}
    rest = iter(f"C{k}" for k in range(3, 10))
    return {label: scores.get(label) or next(rest) for label in one.arms}


def caption(one: Experiment) -> str:
    """Return what a reader has to know of an experiment, in a line."""
    shape, settings = one.common.shape, one.procedure
    model = f"{shape.layers} layers of width {shape.width}"
    return f"{model}, {settings.steps} steps of {settings.batch} examples, {len(one.seeds)} seeds"
