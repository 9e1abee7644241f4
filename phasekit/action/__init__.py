"""Effective actions: one object per score function and estimator, over numerics emitted by ``derivations/``."""

from phasekit.action.base import Action, Averages, Jet, Profile
from phasekit.action.linear import LinearMap
from phasekit.action.linear_posterior import LinearPosterior
from phasekit.action.nuclear import LinearNuclear, SoftmaxNuclear, nuclear_action
from phasekit.action.row_posterior import RowPosterior
from phasekit.action.softmax import SoftmaxMap
from phasekit.action.two_level import ElementwiseMap, EntmaxMap
from phasekit.errors import InputError
from phasekit.model import Estimator, Model
from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.scores.softmax import Softmax

_ACTIONS: dict[tuple[str, str], Action] = {
    ("linear", "map"): LinearMap(),
    ("linear", "posterior"): LinearPosterior(),
    ("softmax", "map"): SoftmaxMap(),
    ("sparsemax", "map"): EntmaxMap(),
    ("entmax", "map"): EntmaxMap(),
}


def action_for(model: Model, estimator: Estimator = "map") -> Action:
    """Return the effective action of a model under an estimator.

    Raises
    ------
    InputError
        If there is no theory for this combination.
    """
    if model.key_dim is not None:
        return nuclear_action(model, estimator)
    if estimator == "posterior" and model.score.normalised and model.score.uses_logits:
        return RowPosterior(model.score)
    if isinstance(model.score, ElementwiseSoftmax) and not isinstance(model.score, Softmax):
        return ElementwiseMap(model.score)
    try:
        return _ACTIONS[model.score.name, estimator]
    except KeyError:
        known = ", ".join(f"{score} ({name})" for score, name in sorted(_ACTIONS))
        raise InputError(
            "score and estimator", f"{model.score.name} ({estimator})", f"has no theory; there is {known}"
        ) from None


__all__ = [
    "Action",
    "Averages",
    "ElementwiseMap",
    "EntmaxMap",
    "Jet",
    "LinearMap",
    "LinearNuclear",
    "LinearPosterior",
    "Profile",
    "RowPosterior",
    "SoftmaxMap",
    "SoftmaxNuclear",
    "action_for",
]
