"""Calling emitted formulas with the numbers of a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.base import Array


def evaluate(formula: Callable[..., Array], p: Parameters, **own: Array) -> Array:
    """Call an emitted formula with the model's numbers by the names of its arguments, and ``own`` ones in their place.

    The pooling cost λ is called ``lam`` there.
    """
    names = inspect.signature(formula).parameters
    own.setdefault("lam", p.pooling_cost)
    own.setdefault("sigma_g", p.logit_scale)
    values = {name: own[name] if name in own else getattr(p, name) for name in names}
    return np.broadcast_to(formula(**values), p.shape)
