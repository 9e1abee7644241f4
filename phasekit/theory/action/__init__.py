"""Effective actions: one object per score function and estimator, over numerics emitted by ``derivations/``."""

from typing import get_args

from phasekit.checks import one_of
from phasekit.errors import InputError
from phasekit.model import Estimator, Induction, Inputs, Model
from phasekit.scores import Entmax, Linear, PerHead, Score, Softmax, Sparsemax, TemperatureSoftmax
from phasekit.scores.consistency import check_own
from phasekit.theory.action.base import Action, Averages, Covariance, Jet, Profile, StationaryPoints
from phasekit.theory.action.entmax import EntmaxMap
from phasekit.theory.action.front import FrontMap
from phasekit.theory.action.induction import InductionMap, TwoLayers, induction_action
from phasekit.theory.action.linear import LinearMap
from phasekit.theory.action.linear_posterior import LinearPosterior
from phasekit.theory.action.nuclear import LinearNuclear, SoftmaxNuclear, nuclear_action
from phasekit.theory.action.pattern import PatternMap, check_pattern
from phasekit.theory.action.pooling_vector import PoolingVector
from phasekit.theory.action.price import Price
from phasekit.theory.action.row_posterior import RowPosterior
from phasekit.theory.action.smooth import SmoothMap
from phasekit.theory.action.softmax import SoftmaxMap
from phasekit.tokens import Uniform

_LINEAR_POSTERIOR: dict[Inputs, Action] = {"positional": LinearPosterior(), "token+position": PoolingVector()}
_LINEAR_MAP = LinearMap()
_SOFTMAX, _ENTMAX, _PATTERN = SoftmaxMap(), EntmaxMap(), PatternMap()
#: Context length up to which it is looked whether an encoding can copy at all.
_LONGEST_CHECKED = 64


def action_for(model: Model, estimator: Estimator = "map") -> Action:
    """Return the effective action of a model under an estimator.

    Raises
    ------
    InputError
        If the estimator is neither "map" nor "posterior", there is no theory for this combination, or a score of the
        user's own breaks its contract (its numbers aren't its formulas).
    """
    score, estimator = model.score, one_of("estimator", estimator, get_args(Estimator))
    for own in (score, model.task.first if isinstance(model.task, Induction) else None):
        if own is not None:
            check_own(own)
    if isinstance(model.task, Induction):
        return induction_action(model, estimator)
    _refuse_setting(model, estimator)
    if model.key_dim is not None:
        return nuclear_action(model, estimator)
    if isinstance(score, Linear):
        return _LINEAR_MAP if estimator == "map" else _LINEAR_POSTERIOR[model.inputs]
    reason = _why_not(score)
    if reason is not None:
        raise InputError("score", score.name, f"has no theory: {reason}")
    if not model.positions.two_levels:
        check_pattern(model.positions, min(model.L, _LONGEST_CHECKED) if model.positions.any_length else model.L)
        return _PATTERN
    if model.mask.hides:
        return FrontMap(_price_of(score))
    if estimator == "posterior":
        return RowPosterior(score)
    if isinstance(score, Softmax | TemperatureSoftmax):
        return _SOFTMAX
    return _ENTMAX if isinstance(score, Entmax | Sparsemax) else SmoothMap(score)


def _price_of(score: Score) -> Price:
    """Return what a normalised score's log odds cost."""
    if isinstance(score, Softmax | TemperatureSoftmax):
        return _SOFTMAX.price
    return _ENTMAX.price if isinstance(score, Entmax | Sparsemax) else SmoothMap(score).price


def _refuse_setting(model: Model, estimator: Estimator) -> None:
    """Raise InputError for an encoding, a mask or a token law that this head has no theory with, and say why."""
    words = dict(model.beyond)
    if model.mask.hides and model.inputs != "positional":
        words["inputs"] = model.inputs
    if not words:
        return
    (field, word), *others = words.items()
    if others:
        raise InputError(field, word, f"has no theory together with {others[0][0]} = {others[0][1]!r}")
    softmax = isinstance(model.score, Softmax | TemperatureSoftmax)
    reasons = (
        (model.key_dim is not None, "with a key_dim: the nuclear norm of its logits isn't known"),
        (
            not model.positions.two_levels and not isinstance(model.score, Softmax),
            "but with softmax attention: its pattern is more than two levels of logits",
        ),
        (
            estimator == "posterior" and not model.positions.per_row,
            "of the posterior: all rows share their logits, so no average over rows is sharp",
        ),
        (estimator == "posterior", "of the posterior; the map estimator has one"),
        (
            field == "mask" and not model.score.normalised,
            "with linear attention: say first whether its rows are divided by L or by what they see",
        ),
        (
            field == "tokens" and not model.score.normalised,
            "with rows that don't sum to one: each token has an onset of its own",
        ),
        (field == "tokens" and isinstance(model.tokens, Uniform) and not softmax, "but for softmax attention"),
    )
    for without, reason in reasons:
        if without:
            raise InputError(field, word, f"has no theory {reason}")


def _why_not(score: Score) -> str | None:
    """Return what keeps a score from the theories of normalised scores; None if nothing does."""
    if isinstance(score, PerHead):
        return "a model is one head; give it one of the scores"
    if not score.uses_logits:
        return "its weights are no function of the logits"
    if not score.normalised:
        return "its rows don't sum to one"
    return None


__all__ = [
    "Action",
    "Averages",
    "Covariance",
    "EntmaxMap",
    "FrontMap",
    "InductionMap",
    "Jet",
    "LinearMap",
    "LinearNuclear",
    "LinearPosterior",
    "PatternMap",
    "PoolingVector",
    "Profile",
    "RowPosterior",
    "SmoothMap",
    "SoftmaxMap",
    "SoftmaxNuclear",
    "StationaryPoints",
    "TwoLayers",
    "action_for",
]
