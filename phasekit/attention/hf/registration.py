"""Make scores known to transformers by name."""

from __future__ import annotations

import functools
from typing import Any

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from phasekit.attention.hf.attention import attend, visible
from phasekit.attention.hf.parameters import REGISTERED, Learn, Registered, attach, initialise, recorded
from phasekit.errors import InputError
from phasekit.scores import Score, ScoreParameters, get_score, names


def register(score: Score | str | None = None, name: str | None = None, *, learn: Learn = True) -> list[str]:
    """Make a score, or all of them, usable as ``attn_implementation`` of any model that uses the attention interface.

    Models built from then on create the score's parameters for every layer and head, and save and load them with their
    checkpoints. Causal modules that come without a mask are refused: they would see the future.

    Parameters
    ----------
    score : Score or str, optional
        All scores at their default fields if left out.
    name : str, optional
        The name to use; the score's own if left out. A name that transformers uses already gets ``phasekit-`` in front.
        Registering a name of ours again replaces the score for models built later.
    learn : bool or "layer"
        Whether the score's parameters are learned, one set for each head or one for all heads of a layer, or stay at
        the fields.

    Returns
    -------
    list of str
        The names that ``attn_implementation`` now takes.

    Raises
    ------
    InputError
        For an unknown score, a ``name`` without a score, or a name that transformers would take for something else.
    """
    _teach_models()
    if score is None:
        if name is not None:
            raise InputError("score", None, f"which score shall have the name {name!r}?")
        return [_register(get_score(known), known, learn) for known in names()]
    score = score if isinstance(score, Score) else get_score(score)
    return [_register(score, score.name if name is None else name, learn)]


def _register(score: Score, name: str, learn: Learn) -> str:
    if not name or "/" in name or "|" in name or "flash" in name:
        raise InputError("name", name, "must be a plain name: no '/', no '|', no 'flash'")
    taken = {"eager", *ALL_ATTENTION_FUNCTIONS.valid_keys()} - REGISTERED.keys()
    key = f"phasekit-{name}" if name in taken else name
    REGISTERED[key] = Registered(key, score, learn)
    AttentionInterface.register(key, functools.partial(attend, score, learn))
    AttentionMaskInterface.register(key, visible)
    return key


def _teach_models() -> None:
    """Let all models create, initialise and record parameters of scores, once per process.

    transformers has no hooks there. The end of a model's construction is the last moment at which parameters still
    become part of the model that a checkpoint is loaded into. The class is changed, not its models, so that these can
    be pickled.
    """
    if hasattr(PreTrainedModel.post_init, "attaches_scores"):
        return
    original_end, original_start = PreTrainedModel.post_init, PreTrainedModel._initialize_weights
    original_save = PreTrainedModel.save_pretrained

    @functools.wraps(original_end)
    def post_init(self: PreTrainedModel) -> Any:
        attach(self)
        return original_end(self)  # type: ignore[no-untyped-call]

    @functools.wraps(original_start)
    def initialise_weights(self: PreTrainedModel, module: nn.Module, *args: Any) -> None:
        initialise(module) if isinstance(module, ScoreParameters) else original_start(self, module, *args)

    @functools.wraps(original_save)
    def save_pretrained(self: PreTrainedModel, *args: Any, **others: Any) -> Any:
        with recorded(self):
            return original_save(self, *args, **others)

    post_init.attaches_scores = True  # type: ignore[attr-defined]
    PreTrainedModel.post_init = post_init  # type: ignore[method-assign]
    PreTrainedModel._initialize_weights = initialise_weights  # type: ignore[method-assign, assignment]
    PreTrainedModel.save_pretrained = save_pretrained  # type: ignore[method-assign]
