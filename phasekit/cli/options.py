"""The options that describe a model, the same for every command, and the model that they describe.

Numbers stay the words that the user typed until :class:`phasekit.model.Model` reads them, so that an error names the
field and what is allowed there. Options for the parameters of score functions come from the registry: whatever a
registered score declares as a field is an option by its name (``--score ssa --n 1.5 --b 0.8``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args

import typer
from pydantic.fields import FieldInfo

from phasekit.encodings import ENCODINGS, matrix_from
from phasekit.errors import InputError
from phasekit.masks import MASKS
from phasekit.model import AXES, TASKS, Estimator, Inputs, Model
from phasekit.scores import names, parse_score
from phasekit.scores.registry import score_types
from phasekit.tokens import TOKEN_LAWS, unigrams

_FILE = "file:"
MODEL_PANEL = "The model"
SCORE_PANEL = "Parameters of the score function"

_ESTIMATORS = ", ".join(get_args(Estimator))
_OPTIONS = {  # field of the model (or what stands beside it): option, what it takes, help
    "score": (
        "--score",
        "NAME",
        f"Score function: {', '.join(names())} (default softmax), or module:Class; with its parameters behind it, "
        "ssa:n=2:b=1, or as options of their own.",
    ),
    "task": (
        "--task",
        "NAME",
        f"What is learnt: {', '.join(TASKS.names())}; induction has two layers, with --score in the second one and in "
        "the first, or there another one: induction:first=ssa (default copy).",
    ),
    "encoding": (
        "--encoding",
        "NAME",
        f"How logits depend on positions: {', '.join(ENCODINGS.names())}; file:PATH (a matrix, a line for each "
        "position) (default: what --inputs says).",
    ),
    "mask": ("--mask", "NAME", f"Which keys a position sees: {', '.join(MASKS.names())}; window:WIDTH (default none)."),
    "tokens": (
        "--tokens",
        "NAME",
        f"How often each token is drawn: {', '.join(TOKEN_LAWS.names())}; zipf:EXPONENT, given:0.5,0.3,0.2, file:PATH "
        "(words of a text, the V most frequent ones), uniform:replacement=false (default uniform).",
    ),
    "inputs": ("--inputs", "NAME", f"What queries and keys see: {', '.join(get_args(Inputs))} (default positional)."),
    "estimator": (
        "--estimator",
        "NAME",
        "map: the minimum of the energy, which Adam with weight decay finds; posterior: the Bayesian average, which "
        "Langevin sampling samples (default map).",
    ),
    "V": ("-V", "INTEGER", "Vocabulary size."),
    "L": ("-L", "INTEGER", "Context length."),
    "P": ("-P", "NUMBER", "Number of training sequences."),
    "sigma_w": ("--sigma-w", "NUMBER", "Prior standard deviation of the readout W (default 1)."),
    "sigma_g": ("--sigma-g", "NUMBER", "Prior standard deviation of the logits' weights G (default 1)."),
    "kappa": ("--kappa", "NUMBER", "Temperature (ridge) of the squared error (default 1)."),
}


@dataclass(frozen=True)
class ModelOptions:
    """What the user said about the model; numbers may still be missing, because an axis will give them."""

    fields: dict[str, str]
    score_parameters: dict[str, str]
    estimator: Estimator

    def with_P(self, P: float) -> ModelOptions:
        """Return the same with another P."""
        return replace(self, fields={**self.fields, "P": repr(P)})

    def model(self, **axes: float) -> Model:
        """Build the model; ``axes`` gives a first value to each number that the command varies.

        Raises
        ------
        InputError
            For a number that is missing, out of range, or both given and varied; an unknown score or parameter.
        """
        given = {**self.fields, **self.score_parameters}
        for name in axes:
            if name in given:
                raise InputError(name, given[name], "given as a number and as an axis; leave one of them out")
        own = {**self.score_parameters, **{name: value for name, value in axes.items() if name not in AXES}}
        score = parse_score(self.fields.get("score", "softmax"), **own)
        fields = {**self.fields, **{name: value for name, value in axes.items() if name in AXES}, "score": score}
        path = self.fields.get("tokens", "").removeprefix(_FILE)
        if path != self.fields.get("tokens", ""):
            fields["tokens"] = unigrams(path, Model(V=fields.get("V"), L=2).V)  # a wrong V is told as such
        path = self.fields.get("encoding", "").removeprefix(_FILE)
        if path != self.fields.get("encoding", ""):
            fields["encoding"] = matrix_from(path)
        return Model(**fields)


def takes_model(*, without: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the model's options, handed to it as one :class:`ModelOptions` in its first argument.

    Parameters
    ----------
    without : tuple of str
        Options that make no sense for the command (P, where it is the unknown; score, and with it all parameters of
        score functions, where there are several).
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        shared = {name: _option(*words, panel=MODEL_PANEL) for name, words in _OPTIONS.items() if name not in without}
        parameters_of_scores = {} if "score" in without else _score_parameters()
        scores = {f"score_{name}": _score_option(name, declared) for name, declared in parameters_of_scores.items()}
        added = [_keyword(name, annotation) for name, annotation in {**shared, **scores}.items()]
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        parameters = [*added, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own)]

        @functools.wraps(command)
        def wrapped(**values: Any) -> Any:
            given = {p.name: word for p in added if (word := values.pop(p.name)) is not None}
            estimator = _estimator(given.pop("estimator", "map"))
            score_parameters = {name.removeprefix("score_"): given.pop(name) for name in scores if name in given}
            return command(ModelOptions(given, score_parameters, estimator), **values)

        return announce(wrapped, parameters)

    return decorate


def announce(wrapped: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Callable[..., Any]:
    """Give a wrapped command the signature that Typer reads its options from, without a look through to its own."""
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del wrapped.__wrapped__  # type: ignore[attr-defined]
    return wrapped


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)


def _option(flag: str, metavar: str, text: str, panel: str) -> Any:
    return Annotated[str | None, typer.Option(flag, metavar=metavar, help=text, rich_help_panel=panel)]


def _score_parameters() -> dict[str, dict[str, FieldInfo]]:
    """Return every parameter of every registered score: its name, then the scores that declare it."""
    declared: dict[str, dict[str, FieldInfo]] = {}
    for score, kind in score_types().items():
        for name, field in kind.model_fields.items():
            declared.setdefault(name, {})[score] = field
    return declared


def _score_option(name: str, declared: dict[str, FieldInfo]) -> Any:
    """Return the option for one score parameter, which one or more scores declare."""
    words = "; ".join(f"{score}: {field.description or name}{_default(field)}" for score, field in declared.items())
    return _option(f"--{name.replace('_', '-')}", "VALUE", f"{words}.", panel=SCORE_PANEL)


def _default(field: FieldInfo) -> str:
    if field.is_required() or field.default is None:
        return ""
    several = isinstance(field.default, list | tuple)
    return f" (default {','.join(map(str, field.default)) if several else field.default})"


def _estimator(word: str) -> Estimator:
    for known in get_args(Estimator):
        if word == known:
            return known  # type: ignore[no-any-return]
    raise InputError("estimator", word, f"must be one of {_ESTIMATORS}")
