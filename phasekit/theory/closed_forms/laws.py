"""Laws of P* to leading order, one for each regime of t = P*σ_w²/(κV) (``phasekit derive laws``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from scipy.optimize import brentq

from phasekit.model import Parameters
from phasekit.scores import SSA, Entmax, Score, Softmax, Sparsemax, TemperatureSoftmax
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import score_laws
from phasekit.theory.closed_forms.emitted import evaluate
from phasekit.theory.closed_forms.jump import ClosedForm
from phasekit.theory.closed_forms.prices import effective_sigma_g

#: The regimes by name. SSA with n < 2 has two laws in the second one: with and without help of the other logits, which
#: may move down while the copy entry's moves up.
REGIMES = {
    "long_context": "t ≫ L",
    "wide_vocabulary": "1 ≪ t ≪ L",
    "wide_vocabulary_pair": "1 ≪ t ≪ L^(2−n)",
    "scarce_data": "t ≪ 1",
}

#: An emitted law, called by the names of its arguments.
_Emitted = Callable[..., Array]


def regime_laws(score: Score) -> dict[str, ClosedForm]:
    """Return the laws of P* by regime (for sparsemax those of P_x); an empty mapping where none is known.

    A law is NaN where the score's numbers exclude it. Whether a model is in a law's regime isn't looked at.
    """
    return next((dict(laws) for kinds, laws in _LAWS if isinstance(score, kinds)), {})


def _softmax(law: _Emitted) -> ClosedForm:
    return lambda p: evaluate(law, p, sigma_g=effective_sigma_g(p))


def _ssa(law: _Emitted, low: float, high: float) -> ClosedForm:
    """Return a law of SSA for ``low`` < n < ``high``."""

    def form(p: Parameters) -> Array:
        n = p.score["n"]
        return evaluate(law, p, n=np.where((low < n) & (n < high), n, np.nan), b=p.score["b"])

    return form


def _ssa_scarce(p: Parameters) -> Array:
    alone, pair = (_ssa(*each)(p) for each in ((score_laws.ssa_scarce, 2, np.inf), (score_laws.ssa_scarce_pair, 0, 2)))
    between = evaluate(score_laws.ssa_scarce_marginal, p, W=np.asarray(_marginal_depth()), b=p.score["b"])
    return np.select([p.score["n"] > 2, p.score["n"] < 2], [alone, pair], between)


@cache
def _marginal_depth() -> float:
    """Return W with W (1 + W)⁴ = 1 + 3W."""
    return float(brentq(lambda W: W * (1 + W) ** 4 - 1 - 3 * W, 0.0, 1.0, xtol=1e-15))


def _entmax(law: _Emitted) -> ClosedForm:
    """Return a law of entmax for 1 < α < 2, where it jumps."""

    def form(p: Parameters) -> Array:
        k = p.score["alpha"] - 1
        return evaluate(law, p, m=1 / np.where((k > 0) & (k < 1), k, np.nan))

    return form


_LAWS: tuple[tuple[type[Score] | tuple[type[Score], ...], Mapping[str, ClosedForm]], ...] = (
    (
        (Softmax, TemperatureSoftmax),
        {
            "long_context": _softmax(score_laws.softmax_long),
            "wide_vocabulary": _softmax(score_laws.softmax_wide),
            "scarce_data": _softmax(score_laws.softmax_scarce),
        },
    ),
    (
        SSA,
        {
            "long_context": _ssa(score_laws.ssa_long, 1, np.inf),
            "wide_vocabulary": _ssa(score_laws.ssa_wide, 1, np.inf),
            "wide_vocabulary_pair": _ssa(score_laws.ssa_wide_pair, 0, 2),
            "scarce_data": _ssa_scarce,
        },
    ),
    (
        Entmax,
        {
            "long_context": _entmax(score_laws.entmax_long),
            "wide_vocabulary": _entmax(score_laws.entmax_wide),
            "scarce_data": _entmax(score_laws.entmax_full),
        },
    ),
    (
        Sparsemax,
        {
            "any_regime": lambda p: evaluate(score_laws.sparsemax_onset, p),
            "leading": lambda p: evaluate(score_laws.entmax_full, p, m=np.ones(())),
        },
    ),
)
