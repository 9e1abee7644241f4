"""What to hold against a measured threshold: the theory at that size, and the onset of the data that were drawn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from phasekit.measure.bootstrap import Estimate, bootstrap
from phasekit.measure.locate import Array, crossing
from phasekit.measure.observables import Curve, Quantity
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

#: Values of P within this factor of the predicted onset enter the data's own onset.
_NEAR = 1.5


def predicted(model: Model, quantity: str, known: Mapping[str, float] | None = None) -> float:
    """Return a threshold as the theory of the map estimator has it; NaN if the model has none.

    ``known`` are thresholds that a sweep chose its values of P by (:attr:`Curve.predicted`): they count as they are.
    """
    value = (known or {}).get(quantity) or find_transitions(model).threshold(quantity)
    return np.nan if value is None else value


def predicted_curve(model: Model, P: Array, quantity: Quantity) -> Array:
    """Return what the theory says about an observable at these P; NaN where it has no value there."""
    minima = find_minima(model.grid(P=P))
    names = {**minima.order_parameters, **minima.averages}
    y = np.full(P.size, np.nan)
    for k in range(P.size):
        there = np.flatnonzero(np.isfinite(minima.action[k]) & minima.converged[k])
        values = {name: np.broadcast_to(x, minima.action.shape)[k, there] for name, x in names.items()}
        values |= {"U": minima.action[k, there], "converged": np.ones(there.size), "failed": np.zeros(there.size)}
        if quantity.name == "P_star":  # the two ends lead to the minima of least and of most copying
            if there.size < 2:
                continue
            order = np.argsort(values["aG"])[[0, -1]]
            values = {name: x[order] for name, x in values.items()} | {"start": np.array(["uniform", "copy"])}
        y[k] = quantity.observe(model.at(P=float(P[k])), values)
    return y


def onset_of_the_data(curve: Curve, resamples: int) -> Estimate:
    """Return the P at which W = G = 0 turns into a saddle of U on the data sets that networks were trained on.

    The theory's P₁ is for infinitely many sequences per P/κ; P of them fluctuate, and networks learn a little earlier
    (:func:`phasekit.heads.onset_ratio`). No network enters here.

    Raises
    ------
    NotLocated
        If the data sets' onsets don't lie between the values of P.
    """
    from phasekit.heads import onset_ratio
    from phasekit.tasks.copy import draw_dataset

    near = np.abs(np.log(curve.P / predicted(curve.model, "P1", curve.predicted))) < np.log(_NEAR)
    P = curve.P[near]
    datasets = [[draw_dataset(curve.model.at(P=float(at)), int(seed)) for at in P] for seed in curve.seeds]
    excess = np.log([[onset_ratio(dataset) for dataset in row] for row in datasets])
    return bootstrap(P, excess, crossing, resamples)
