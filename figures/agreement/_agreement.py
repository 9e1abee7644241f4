"""Theory beside Adam and SGLD over P, L and V: which models and P, and the comparisons, one row each (claim C4).

Adam's lowest minimum is compared with the map estimator, SGLD with the posterior, each at multiples of its own
threshold: P1 for linear attention; for softmax attention the P at which aG passes 0.1, which is P* where it jumps.

SGLD has a bias of first order in its step: where a mode has curvature λ it samples 1/(1 − λ step/2) times the variance.
So every P has steps of its own, fixed shares of 1/λ for the stiffest λ of heads that HMC drew, and means are
extrapolated to zero step. From steps 0.4/λ and 0.2/λ this leaves the stiffest mode 3 % too little variance, a mode
that is half as stiff 0.6 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from figures._theory import passing
from figures._trainings import ALL_STARTS, Training, draw_rows, network_rows, trained
from figures.posterior._samplings import BOTH_ENDS, Sampling, over_data, theory_rows, well_rows
from phasekit.drawing.presets import Preset
from phasekit.evidence import to_zero_step
from phasekit.heads import Selection, build_energy
from phasekit.model import Estimator, Model
from phasekit.samplers import HMC, SGLD, HeadsTarget, Samples, stiffest_curvature
from phasekit.samplers.diagnostics import MIXED
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.action import action_for
from phasekit.theory.transitions.onset import onset
from phasekit.theory.transitions.table import parameters_without_P

SCORES = ("linear", "softmax")
#: (V, L) of the models: every V and L of the full preset; of the quick one, those that share V or L with (8, 16).
SIZES = {
    "quick": ((8, 8), (8, 12), (8, 16), (4, 16), (16, 16)),
    "full": tuple((V, L) for V in (4, 8, 16) for L in (8, 16, 32)),
}
#: P over the threshold → how long SGLD runs there, in units of time (updates × step): longer where heads relax slowly.
TIMES = {
    "linear": {0.5: 80.0, 1.5: 200.0, 3.0: 100.0, 6.0: 50.0},
    "softmax": {0.5: 60.0, 0.75: 200.0, 1.25: 80.0, 2.0: 40.0},
}
#: Data sets of Adam and of SGLD, chains on each of these, factor on the times of SGLD.
EFFORT = {"quick": (4, 3, 6, 1.0), "full": (16, 8, 8, 3.0)}
#: Steps times the stiffest curvature, and the longest step: prior modes have curvature 1. Softmax has few stiff modes.
STEPS = {
    ("quick", "linear"): (0.4, 0.2),
    ("quick", "softmax"): (0.6, 0.3),
    ("full", "linear"): (0.4, 0.2, 0.1),
    ("full", "softmax"): (0.6, 0.3, 0.15),
}
LONGEST = 0.1
#: Chains start at both ends, which steps as long as those above don't bear, so they begin where HMC takes them.
BEGIN, BEGIN_WARMUP = HMC(leaps=8), 150
#: Time between two draws, and warm-up as a share of a run.
SPACING, WARMUP = 0.25, 0.15
#: What is compared. Order parameters of linear attention under the posterior: roots of second moments.
QUANTITIES = {
    ("linear", "map"): ("c1", "cG", "loss", "U"),
    ("linear", "posterior"): ("c1", "cG", "loss", "q"),
    ("softmax", "map"): ("aG", "loss", "U"),
    ("softmax", "posterior"): ("aG", "loss", "q"),
}
ROOTS = {"c1": "c1_c1", "cG": "cG_cG"}


def models(preset: Preset) -> Iterator[Model]:
    """Yield every model without P, linear attention first."""
    for score in SCORES:
        for V, L in SIZES[preset.name]:
            yield Model(V=V, L=L, score=score)


def threshold(model: Model, estimator: Estimator) -> float:
    """Return the P whose multiples are compared."""
    if model.score.name == "linear":
        return float(onset(action_for(model, estimator), parameters_without_P(model).ravel())[0])
    return passing(model, estimator)


def comparisons(model: Model, preset: Preset) -> pd.DataFrame:
    """Return one row per estimator, P and quantity.

    Columns V, L, score, estimator, threshold, ratio, P, quantity, theory, mean, error (standard error over data sets,
    at least what the runs' own errors make), data (data sets averaged over), runs, left_out (networks that were
    filtered out, or data sets whose chains disagree), step (the longest), stiffest, difference (relative), sigma.
    """
    parts = []
    estimators: tuple[Estimator, ...] = ("map", "posterior")
    for estimator in estimators:
        at = threshold(model, estimator)
        P = {ratio: round(ratio * at) for ratio in TIMES[model.score.name]}
        measure = adam_rows if estimator == "map" else sgld_rows
        rows = measure(model, P, preset).merge(theory(model, tuple(P.values()), estimator), on=["P", "quantity"])
        ratios = {value: ratio for ratio, value in P.items()}
        parts.append(rows.assign(estimator=estimator, threshold=at, ratio=rows["P"].map(ratios)))
    table = pd.concat(parts, ignore_index=True).assign(V=model.V, L=model.L, score=model.score.name)
    away = table["mean"] - table["theory"]
    unknown = (table["theory"] == 0) | (table["error"] == 0)
    return table.assign(difference=(away / table["theory"]).mask(unknown), sigma=(away / table["error"]).mask(unknown))


def theory(model: Model, P: tuple[float, ...], estimator: Estimator) -> pd.DataFrame:
    """Return the lowest branch at each P: P, quantity, theory."""
    rows = theory_rows(model, P, estimator)
    table = rows[rows["branch"] == 0].pivot(index="P", columns="quantity", values="theory")
    if estimator == "posterior" and model.score.name == "linear":
        table = table.assign(**{name: np.sqrt(table[square]) for name, square in ROOTS.items()})
    found = table[list(QUANTITIES[model.score.name, estimator])]
    return found.melt(ignore_index=False, value_name="theory", var_name="quantity").reset_index()


def adam_rows(model: Model, P: dict[float, int], preset: Preset) -> pd.DataFrame:
    """Return networks at the lowest minimum, averaged over data sets."""
    draws = EFFORT[preset.name][0]
    networks = network_rows(networks_of(model, P, draws))
    kept = draw_rows(networks)
    rows = []
    for each, part in kept.groupby("P"):
        fates = networks[networks["P"] == each]["fate"]
        for name in QUANTITIES[model.score.name, "map"]:
            rows.append(
                {
                    "P": int(each),
                    "quantity": name,
                    "mean": part[name].mean(),
                    "error": part[name].std(ddof=1) / np.sqrt(len(part)),
                    "data": len(part),
                    "runs": len(fates),
                    "left_out": int((fates != "kept").sum()),
                }
            )
    return pd.DataFrame(rows)


def networks_of(model: Model, P: dict[float, int], draws: int) -> Selection:
    """Return the trained networks, from both ends and from the prior."""
    return trained(Training(model, tuple(P.values()), draws=draws, starts=ALL_STARTS))


def sgld_rows(model: Model, P: dict[float, int], preset: Preset) -> pd.DataFrame:
    """Return SGLD at zero step, averaged over the data sets whose chains agree at every step."""
    _, data, _, longer = EFFORT[preset.name]
    names = QUANTITIES[model.score.name, "posterior"]
    sampled = {ROOTS.get(name, name): name for name in names} if model.score.name == "linear" else {n: n for n in names}
    parts = []
    for ratio, each in P.items():
        begin, time = begun(model, each, preset), longer * TIMES[model.score.name][ratio]
        curvature = stiffest(begin.samples())
        steps = steps_from(curvature, STEPS[preset.name, model.score.name])
        runs = [well_rows(sgld(begin, step, time).samples()) for step in steps]
        zero = over_data(at_zero_step(steps, runs))
        zero = zero[zero["quantity"].isin(sampled)].assign(quantity=lambda t: t["quantity"].map(sampled))
        if model.score.name == "linear":
            root = np.sqrt(zero["mean"].clip(lower=0)).where(zero["quantity"].isin(ROOTS), zero["mean"])
            slope = (0.5 / root).where(zero["quantity"].isin(ROOTS), 1.0)
            zero = zero.assign(mean=root, error=zero["error"] * slope)
        parts.append(zero.assign(runs=data, step=max(steps), stiffest=curvature).drop(columns="mcse"))
    return pd.concat(parts, ignore_index=True)


def begun(model: Model, P: int, preset: Preset) -> Sampling:
    """Return the HMC whose last heads SGLD starts from."""
    _, data, chains, _ = EFFORT[preset.name]
    members = chains // len(BOTH_ENDS)
    return Sampling(
        model, (P,), BEGIN, draws=10, thin=1, warmup=BEGIN_WARMUP, data=data, members=members, dtype="float32"
    )


def sgld(begin: Sampling, step: float, time: float) -> Sampling:
    """Return SGLD over a time, with a draw every :data:`SPACING`."""
    thin = max(1, round(SPACING / step))
    draws, warmup = round(time / (thin * step)), round(WARMUP * time / step)
    return replace(begin, method=SGLD(step=step), draws=draws, thin=thin, warmup=warmup, begin=begin)


def steps_from(stiffest: float, shares: tuple[float, ...]) -> tuple[float, ...]:
    """Return the steps at one P, longest first, to two digits."""
    first = min(LONGEST, shares[0] / stiffest)
    return tuple(float(f"{first * share / shares[0]:.2g}") for share in shares)


def stiffest(samples: Samples) -> float:
    """Return the largest curvature of the energy, in units of the prior, at the last heads of all chains."""
    data, model = samples.posterior, samples.model
    labels = zip(data.P.values.tolist(), data.data_seed.values.tolist(), strict=True)
    energy = build_energy([draw_dataset(model.at(P=float(P)), seed) for P, seed in labels], dtype="float64")
    target = HeadsTarget(energy, data.sizes["chain"])
    return stiffest_curvature(target, {name: torch.from_numpy(part) for name, part in samples.final().items()})


def at_zero_step(steps: tuple[float, ...], runs: list[pd.DataFrame]) -> pd.DataFrame:
    """Return rows like those of each run, extrapolated to zero step data set by data set; only where all are mixed."""
    found = []
    for (P, seed, name), part in pd.concat(runs, keys=steps).groupby(["P", "data_seed", "quantity"], sort=False):
        verdicts = part["verdict"].unique().tolist()
        labels = {"P": P, "data_seed": seed, "quantity": name, "mean": np.nan, "mcse": np.nan}
        if verdicts == [MIXED]:
            limit = to_zero_step(steps, part["mean"], part["mcse"])
            labels |= {"mean": limit.value, "mcse": limit.error}
        found.append(labels | {"verdict": MIXED if verdicts == [MIXED] else "; ".join(sorted(verdicts))})
    return pd.DataFrame(found)
