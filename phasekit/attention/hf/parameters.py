"""Parameters of scores inside models of transformers: created with the model, initialised, saved and loaded with it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn
from transformers import PreTrainedModel

from phasekit.errors import InputError
from phasekit.scores import CosFormer, Score, ScoreParameters
from phasekit.scores.composite import Composite

#: The submodule with the score's parameters in every attention module. Trainer decays no parameter below a name that
#: ends like this.
PARAMETERS = "score_norm"
#: The attribute of an attention module that says which score it was built for.
OWN = "score_registered"
#: The entry of a saved configuration that says which score the model was trained with.
RECORD = "phasekit_score"
#: Its entry that says whether the score's parameters are one set for each layer ("layer"), or not learned ("no").
HOW_LEARNED = "learned"


#: Whether a score's parameters are learned: for each head, one set for each layer, or not at all.
Learn = bool | Literal["layer"]


@dataclass(frozen=True)
class Registered:
    """A score under one of transformers' names for attention implementations. Modules keep the one they were built for.

    A copy that arrives in another process (``torch.load``, workers) registers its name there, if it isn't known.
    """

    name: str
    score: Score
    learn: Learn

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.name, self.score, self.learn)


#: By name. Filled by :func:`phasekit.attention.hf.register`.
REGISTERED: dict[str, Registered] = {}


def registered(module: Any) -> Registered | None:
    """Return the score that a module runs: the one it was built for, or else the one its configuration names now."""
    name = getattr(getattr(module, "config", None), "_attn_implementation", None)
    own: Registered | None = getattr(module, OWN, None)
    return own if own is not None and own.name == name else REGISTERED.get(str(name))


def _arrive(name: str, score: Score, learn: Learn) -> Registered:
    from phasekit.attention.hf.registration import register

    if name not in REGISTERED:
        register(score, name, learn=learn)
    return Registered(name, score, learn)


def attach(model: PreTrainedModel) -> int:
    """Give every attention module that runs a registered score parameters of its own: for each head, or for all.

    Models built after :func:`phasekit.attention.hf.register` have them already. Call this after
    ``model.set_attn_implementation("ssa")``, before an optimiser is made.

    Returns
    -------
    int
        How many modules got new parameters.

    Raises
    ------
    InputError
        If a score can't run in a model, or the model's configuration says that it was trained with another score.
    """
    _check_record(model)
    created = 0
    for module in _attention_modules(model):
        own = REGISTERED[module.config._attn_implementation]
        score = own.score
        if _depends_on_length(score):
            allowed = "must be given, or weights would depend on the length of what comes later; register one with it"
            raise InputError("score cosformer: M", None, allowed)
        if registered(module) is getattr(module, OWN, None):
            continue
        setattr(module, OWN, own)
        if not own.learn:
            continue
        parameters = score.make_parameters(1 if own.learn == "layer" else _heads(module))
        like = next(module.parameters())
        setattr(module, PARAMETERS, parameters if like.is_meta else parameters.to(like.device))
        created += 1
    return created


def _attention_modules(model: nn.Module) -> Iterator[Any]:
    """Yield the modules that go through the attention interface with a registered score."""
    for module in model.modules():
        config = getattr(module, "config", None)
        if getattr(config, "_attn_implementation", None) in REGISTERED and _goes_through_interface(type(module)):
            yield module


def _goes_through_interface(kind: type[nn.Module]) -> bool:
    """Whether a module's forward looks attention up in transformers' table."""
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _depends_on_length(score: Score) -> bool:
    if isinstance(score, Composite):
        return any(_depends_on_length(part) for part in score.scores)
    return isinstance(score, CosFormer) and score.M is None


def _heads(module: Any) -> int:
    for place in (module, module.config):
        for name in ("num_heads", "num_attention_heads", "n_heads", "n_head"):
            if isinstance(heads := getattr(place, name, None), int):
                return heads
    raise InputError("model", type(module).__name__, "doesn't say how many heads it has")


def initialise(module: ScoreParameters) -> None:
    """Initialise what a checkpoint didn't have; parameters that were loaded bear transformers' mark and stay."""
    if not all(getattr(parameter, "_is_hf_initialized", False) for parameter in module.parameters()):
        module.reset_parameters()


@contextmanager
def recorded(model: PreTrainedModel) -> Iterator[None]:
    """Write the score into the configurations for as long as a checkpoint is written.

    Not longer: people build the other arm of a comparison from the same configuration object.
    """
    modules = [(module, own) for module in _attention_modules(model) if (own := registered(module)) is not None]
    for module, own in modules:
        setattr(module.config, RECORD, {**own.score.describe(), **_how_learned(own)})
    try:
        yield
    finally:
        for module, _ in modules:
            if hasattr(module.config, RECORD):
                delattr(module.config, RECORD)


def _check_record(model: PreTrainedModel) -> None:
    """Compare what a loaded configuration says about its score with what is going to run, and forget it.

    Raises
    ------
    InputError
        If they differ in more than the values at which learned parameters start.
    """
    configs = {id(part.config): part.config for part in model.modules() if isinstance(part, PreTrainedModel)}
    for config in configs.values():
        record = getattr(config, RECORD, None)
        if record is None:
            continue
        name = config._attn_implementation
        if name not in REGISTERED:
            allowed = (
                f"the checkpoint was trained with score {record['name']}: pass attn_implementation={record['name']!r}"
            )
            raise InputError("attn_implementation", name, f"{allowed}, or delete {RECORD} from its config.json")
        score = REGISTERED[name].score
        own = {**score.describe(), **(_how_learned(REGISTERED[name]) if HOW_LEARNED in record else {})}
        if _fixed(own, score) != _fixed(record, score):
            raise InputError("attn_implementation", name, f"stands for {own}, the checkpoint has {record}")
        delattr(config, RECORD)


def _how_learned(own: Registered) -> dict[str, str]:
    """Return what a record says beside the score, unless each head has parameters that are learned."""
    return {} if own.learn is True else {HOW_LEARNED: own.learn or "no"}


def _fixed(description: dict[str, Any], score: Score) -> dict[str, Any]:
    return {name: value for name, value in description.items() if name not in score.learnable}
