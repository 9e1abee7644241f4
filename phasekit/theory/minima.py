"""All local minima of the effective action, for one model or a whole grid of models at once.

They are the stationary points (:mod:`phasekit.theory.action.search`) at which the Hessian is positive definite.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Estimator, Grid, Model, Parameters, given_models, in_words
from phasekit.show import Shown, Table
from phasekit.theory.action import Action, action_for
from phasekit.theory.action.base import TOLERANCE, Array, Covariance, Posterior, StationaryPoints, eigenvalues
from phasekit.theory.action.listed import Branch, Listed
from phasekit.theory.action.search import stationary_points
from phasekit.theory.long_names import with_long_names
from phasekit.theory.slices import map_slices, slices_of

if TYPE_CHECKING:
    import xarray as xr

#: A curvature (1: prior only) that is closer to zero than this vanishes within rounding.
FLAT = 1e-8


@dataclass(frozen=True, repr=False)
class Minima(Shown):
    """All local minima found, lowest action first.

    Every array has the shape of the model (``()``) or grid, followed by one axis over branches; models with fewer
    branches than the most are padded with NaN (``converged`` with False). Every action has a minimum: a ``count`` of 0
    in a grid says that the search failed there.

    Attributes
    ----------
    models : Model or Grid
    estimator : "map" or "posterior"
    count : number of minima of each model
    action : S at the minimum
    coordinates, order_parameters, averages : name to values; averages are s, s2, g, q
    copying_share : g²/q of the pattern (without the posterior's noise)
    coverage : share of E‖A‖_F² that the two patterns explain, fluctuations along them included (so only as good as
        ``covariance``: too large close to P1 of linear attention); NaN where A is zero
    covariance : of the order parameters over the posterior around this minimum, to leading order (the inverse of the
        reduced action's Hessian), first and second in the order of ``order_parameters``; None for the map estimator
    loss : training loss per sequence, averaged over positions
    gradient_norm : ``‖∇S‖ / [max(1, ‖z‖) · max(1, stiffest)]`` in whitened coordinates z (in units of the prior's
        standard deviations), with the largest Hessian eigenvalue: rounding the coordinates alone gives about 1e-16
    curvatures : eigenvalues of the Hessian in whitened coordinates, ascending, on one more trailing axis
        (1: prior only, 0: spinodal)
    converged : whether ``gradient_norm`` is at most :data:`.action.base.TOLERANCE` and no curvature is negative beyond
        rounding
    start : where the search for the minimum began: the middle of its bracket on the action's path (log odds of
        softmax and α-entmax, gap of other normalised scores, angle in radians of linear attention, s of factorised
        heads, θ of the posterior of normalised scores), the readout w of copying factorised heads, or the number of a
        descent of linear attention's posterior; NaN for the origin, which needs no search
    caveat : where this theory is known to be approximate, in one sentence; None if it is not
    positions : of a masked head, by name and with one more trailing axis over the positions that count (from position
        2): the weight ``copy`` on the token to be copied, ``q`` (Σ_j A_ij²) and the ``loss`` there; else empty
    """

    models: Model | Grid
    estimator: Estimator
    count: NDArray[np.int64]
    action: Array
    coordinates: dict[str, Array]
    order_parameters: dict[str, Array]
    averages: dict[str, Array]
    copying_share: Array
    coverage: Array
    covariance: Covariance | None
    loss: Array
    gradient_norm: Array
    curvatures: Array
    converged: NDArray[np.bool_]
    start: Array
    caveat: str | None = None
    positions: dict[str, Array] = field(default_factory=dict)

    def table(self) -> Table:
        """Return the minima of one model, or how many each model of a grid has and its lowest one, as a table."""
        if isinstance(self.models, Model):
            return minima_table(self.models, self.estimator, [self.describe()])
        shared = in_words(self.models.base, self.estimator, varied=[*self.models.axes])
        sizes = " × ".join(map(str, self.count.shape))
        title = f"Minima, the lowest of each of {sizes} models ({shared})"
        names = list(self.order_parameters)
        rows = []
        for index in np.ndindex(self.count.shape):
            place = [values[k] for k, values in zip(index, self.models.axes.values(), strict=True)]
            numbers = [self.action[index][0], *(self.order_parameters[name][index][0] for name in names)]
            rows.append([*place, int(self.count[index]), *numbers, self.loss[index][0]])
        lost, several = int((self.count == 0).sum()), int((self.count > 1).sum())
        notes = [f"more than one for {several}"] if several else []
        notes += [f"none found for {lost}"] if lost else []
        notes += [f"caveat: {self.caveat}"] if self.caveat else []
        return Table(title, [*self.models.axes, "minima", "action", *names, "loss"], rows, notes)

    def to_xarray(self) -> xr.Dataset:
        """Return everything as a labelled dataset: dimensions are the grid's axes and ``branch``.

        Curvatures have one more dimension, ``direction``, and what a masked head has by position ``position``.
        """
        import xarray as xr

        axes = {} if isinstance(self.models, Model) else self.models.axes
        dims = (*axes, "branch")
        single = {"action": self.action, "loss": self.loss, "coverage": self.coverage, "start": self.start}
        single |= {"copying_share": self.copying_share, "gradient_norm": self.gradient_norm}
        single |= {**self.order_parameters, **{name: x for name, x in self.averages.items() if name not in single}}
        single |= {f"coordinate_{name}": x for name, x in self.coordinates.items()}
        data: dict[str, Any] = {name: (dims, x) for name, x in single.items()}
        data["converged"] = (dims, self.converged)
        data["count"] = (tuple(axes), self.count)
        data["curvatures"] = ((*dims, "direction"), self.curvatures)
        data |= {f"position_{name}": ((*dims, "position"), x) for name, x in self.positions.items()}
        if self.covariance is not None:
            names = list(self.order_parameters)
            pairs = ((names[0], names[0]), (names[0], names[1]), (names[1], names[1]))
            data |= {f"covariance_{a}_{b}": (dims, x) for (a, b), x in zip(pairs, self.covariance, strict=True)}
        dataset = xr.Dataset(data, {name: values for name, values in axes.items()})
        base = self.models if isinstance(self.models, Model) else self.models.base
        dataset.attrs = {"model": json.dumps(base.describe()), "estimator": self.estimator}
        if self.caveat:
            dataset.attrs["caveat"] = self.caveat
        return with_long_names(dataset)

    def branch(self, *index: int) -> dict[str, Any]:
        """Return one branch as plain JSON values, None for what is NaN or infinite; the last index counts branches."""
        return {
            "action": _plain(self.action[index]),
            "order_parameters": _named(self.order_parameters, index),
            "loss": _plain(self.loss[index]),
            "converged": bool(self.converged[index]),
            "coordinates": _named(self.coordinates, index),
            "averages": _named(self.averages, index),
            "coverage": _plain(self.coverage[index]),
            **self._covariance(index),
            "gradient_norm": _plain(self.gradient_norm[index]),
            "curvatures": [_plain(value) for value in self.curvatures[index]],
            "start": _plain(self.start[index]),
            **(
                {"positions": {name: x[index].tolist() for name, x in self.positions.items()}} if self.positions else {}
            ),
        }

    def variance(self, name: str) -> Array | None:
        """Return the variance of an order parameter over the posterior; None for the map estimator."""
        if self.covariance is None:
            return None
        return self.covariance.second if name == list(self.order_parameters)[1] else self.covariance.first

    def _covariance(self, index: tuple[int, ...]) -> dict[str, Any]:
        if self.covariance is None:
            return {}
        first, second = self.order_parameters
        names = (f"{first} {first}", f"{first} {second}", f"{second} {second}")
        return {"covariance": _named(dict(zip(names, self.covariance, strict=True)), index)}

    def describe(self) -> dict[str, Any]:
        """Return the minima of a single model as plain JSON values (the command line's contract)."""
        if not isinstance(self.models, Model):
            raise TypeError("only the minima of one model have a description; those of a grid are arrays")
        branches = [self.branch(k) for k in range(int(self.count))]
        caveat = {} if self.caveat is None else {"caveat": self.caveat}
        model = self.models.describe()
        return {"model": model, "estimator": self.estimator, **caveat, "branches": branches, "global": 0}


def minima_table(
    model: Model, estimator: Estimator, found: Sequence[Mapping[str, Any]], *, several: bool = False
) -> Table:
    """Return descriptions of minima as one table, a row a minimum; ``several``: at several P."""
    varied = ["P"] if several else []
    names = list(found[0]["branches"][0]["order_parameters"])
    rows = [
        [
            "global" if k == one["global"] else "metastable",
            *(one["model"][name] for name in varied),
            branch["action"],
            *(branch["order_parameters"][name] for name in names),
            branch["loss"],
            branch["gradient_norm"],
            min(branch["curvatures"]),
            branch["converged"],
        ]
        for one in found
        for k, branch in enumerate(one["branches"])
    ]
    return Table(
        f"Minima of the action, lowest first ({in_words(model, estimator, varied=varied)})",
        ["", *varied, "action", *names, "loss", "gradient norm", "lowest curvature", "converged"],
        rows,
        [f"caveat: {found[0]['caveat']}"] if "caveat" in found[0] else [],
    )


def find_minima(models: Model | Grid, estimator: Estimator = "map", *, jobs: int = 1) -> Minima:
    """Find all local minima of the effective action.

    Parameters
    ----------
    models : Model or Grid
        P must be given.
    estimator : "map" or "posterior"
    jobs : int
        Processes to share the models of the posterior out among; the numbers are the same ones.

    Raises
    ------
    InputError
        If P is missing, or there is no theory for the score and estimator.
    ArithmeticError
        If no minimum was found for a single model, or for none of a grid: every action has one, so the search failed.
        Other models of a grid without one have a ``count`` of 0.
    """
    models = given_models(models)
    model = models if isinstance(models, Model) else models.base
    action = action_for(model, estimator)
    parameters = models.parameters()
    if isinstance(action, Listed):
        return _listed(models, action, parameters)
    flat = parameters.ravel()
    if isinstance(action, Posterior):
        action.check_range(flat)
    slices = slices_of(action, flat, jobs)
    if len(slices) < 2:
        found = minima_of(action, flat)
        minima = _assemble(models, estimator, action, parameters, found)
    else:
        parts = map_slices(_in_slice, jobs, [(model, estimator, action, flat[members]) for members in slices])
        minima = _joined(models, parts, slices, parameters)
    if not minima.count.any():
        raise ArithmeticError(f"no minimum was found of {in_words(model, estimator)}: the search failed")
    return minima


def _in_slice(model: Model, estimator: Estimator, action: Action, p: Parameters) -> Minima:
    return _assemble(model, estimator, action, p, minima_of(action, p))


def _joined(
    models: Model | Grid, parts: Sequence[Minima], slices: Sequence[NDArray[np.int64]], parameters: Parameters
) -> Minima:
    """Return the minima of slices of a grid as those of the whole."""
    width = max(part.action.shape[1] for part in parts)
    places = np.argsort(np.concatenate(slices))

    def join(tables: Sequence[Any]) -> Any:
        first = tables[0]
        if isinstance(first, dict):
            return {name: join([table[name] for table in tables]) for name in first}
        if isinstance(first, Covariance):
            return Covariance(*(join(column) for column in zip(*tables, strict=True)))
        if not isinstance(first, np.ndarray):
            return first
        whole = np.concatenate([table if table.ndim == 1 else _widened(table, width) for table in tables])[places]
        return whole.reshape(*parameters.shape, *whole.shape[1:])

    columns = {each.name: join([getattr(part, each.name) for part in parts]) for each in fields(Minima)}
    return Minima(**{**columns, "models": models})


def _widened(table: NDArray[Any], width: int) -> NDArray[Any]:
    """Return a table of branches with so many columns, the new ones NaN or False."""
    missing = np.nan if table.dtype.kind == "f" else False
    more = np.full((table.shape[0], width - table.shape[1], *table.shape[2:]), missing, dtype=table.dtype)
    return np.concatenate([table, more], axis=1)


def _listed(models: Model | Grid, action: Listed, parameters: Parameters) -> Minima:
    """Return minima that are listed, model by model: neighbours in L and P share what they can."""
    p = parameters.ravel()
    found: list[list[Branch]] = [[] for _ in range(p.shape[0])]
    for k in np.lexsort((p.P, p.L)):
        found[k] = action.branches(p[k])
    count = np.array([len(branches) for branches in found])
    longest = max((branches[0].values["positions"].get("copy", ()) for branches in found), key=len)

    def lay(value: Callable[[Branch], Any], *trailing: int) -> Array:
        table = np.full((p.shape[0], count.max(), *(trailing or (1,))), np.nan)
        for k, branches in enumerate(found):
            for rank, branch in enumerate(branches):
                entry = np.atleast_1d(value(branch))
                table[k, rank, : entry.size] = entry
        table = table if trailing else table[..., 0]
        return table.reshape(*parameters.shape, *table.shape[1:])

    def named(group: str, *trailing: int) -> dict[str, Array]:
        names = found[0][0].values[group]
        return {name: lay(lambda branch, name=name: branch.values[group][name], *trailing) for name in names}  # type: ignore[misc]

    gradient_norm, softest = lay(lambda each: each.values["gradient_norm"]), lay(lambda each: each.values["curvature"])
    return Minima(
        models=models,
        estimator="map",
        count=count.reshape(parameters.shape),
        action=lay(lambda branch: branch.values["action"]),
        coordinates=named("coordinates"),
        order_parameters=named("order_parameters"),
        averages=named("averages"),
        copying_share=lay(lambda branch: branch.values["copying_share"]),
        coverage=lay(lambda branch: branch.values["coverage"]),
        covariance=None,
        loss=lay(lambda branch: branch.values["loss"]),
        gradient_norm=gradient_norm,
        curvatures=softest[..., None],
        converged=(gradient_norm <= TOLERANCE) & (softest > 0),
        start=lay(lambda branch: branch.start),
        positions=named("positions", len(longest)),
    )


def minima_of(action: Action, p: Parameters) -> StationaryPoints:
    """Return all local minima for flat parameters: stationary points at which the Hessian is positive definite.

    Exactly at an onset it isn't: the origin's softest curvature vanishes, rounding gives it a sign, and searches end at
    points beside it. Of the points of a model whose curvature vanishes that nearest to the origin counts.
    """
    owner, z, start = stationary_points(action, p)
    softest = action.curvatures(z, p[owner])[..., 0]
    lost = ~np.isin(owner, owner[softest > 0])
    flat = np.flatnonzero((np.abs(softest) < FLAT) & ((softest > 0) | lost))
    flat = flat[np.lexsort((np.asarray(sum(x[flat] ** 2 for x in z)), owner[flat]))]
    flat = flat[np.unique(owner[flat], return_index=True)[1]]
    kept = np.sort(np.concatenate([np.flatnonzero(softest >= FLAT), flat]))
    return StationaryPoints(owner[kept], tuple(x[kept] for x in z), start[kept])


def _assemble(
    models: Model | Grid,
    estimator: Estimator,
    action: Action,
    parameters: Parameters,
    found: StationaryPoints,
) -> Minima:
    owner, z, start = found
    p = parameters.ravel()[owner]
    jet = action.jet(z, p)
    curvatures = eigenvalues(jet.hessian)
    size = np.sqrt(sum(x**2 for x in z))
    scale = np.maximum(1.0, size) * np.maximum(1.0, curvatures[:, -1])
    gradient_norm = np.linalg.norm(jet.gradient, axis=-1) / scale
    converged = (gradient_norm <= TOLERANCE) & (curvatures[:, 0] > -FLAT)

    # Lay the ragged list out as one row of branches per model, lowest action first.
    order = np.lexsort((jet.value, owner))
    rows = owner[order]
    models_count = int(np.prod(parameters.shape, dtype=int))
    count = np.bincount(rows, minlength=models_count)
    rank = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count)
    width = int(count.max(initial=0))

    def lay(values: NDArray[Any], missing: Any = np.nan) -> NDArray[Any]:
        table = np.full((models_count, width, *values.shape[1:]), missing, dtype=values.dtype)
        table[rows, rank] = values[order]
        return table.reshape(*parameters.shape, width, *values.shape[1:])

    covariance = action.covariance(z, p) if isinstance(action, Posterior) else None
    return Minima(
        models=models,
        estimator=estimator,
        count=count.reshape(parameters.shape),
        action=lay(jet.value),
        coordinates={n: lay(v) for n, v in zip(action.coordinates, action.physical(z, p), strict=True)},
        order_parameters={n: lay(v) for n, v in zip(action.order_parameters, action.order(z, p), strict=True)},
        averages={n: lay(v) for n, v in action.averages(z, p)._asdict().items()},
        copying_share=lay(action.copying_share(z, p)),
        coverage=lay(action.coverage(z, p)),
        covariance=None
        if covariance is None
        else Covariance(*(lay(np.broadcast_to(v, rows.shape)) for v in covariance)),
        loss=lay(action.loss(z, p)),
        gradient_norm=lay(gradient_norm),
        curvatures=lay(curvatures),
        converged=lay(converged, False),
        start=lay(start),
        caveat=action.caveat(parameters),
    )


def _plain(value: float | Array) -> float | None:
    """Return a number as JSON can hold it."""
    return float(value) if np.isfinite(value) else None


def _named(values: Mapping[str, Array], index: tuple[int, ...]) -> dict[str, float | None]:
    return {name: _plain(each[index]) for name, each in values.items()}
