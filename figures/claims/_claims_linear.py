"""Claims C1 and C2: onset of pooling and crossover to copying of linear attention."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from figures._sweeps import draw_rows, networks
from figures._tables import with_error
from figures.claims._claims import Row, confirmed
from figures.laws._laws import COPYING_L, COPYING_V, ONSET, ONSET_SHORT, quoted
from phasekit.drawing.presets import Preset
from phasekit.model import Inputs, Model
from phasekit.theory.action.generated import thresholds
from phasekit.theory.action.linear import LinearMap
from phasekit.theory.minima import find_minima
from phasekit.theory.scaling import exponent
from phasekit.theory.transitions import find_transitions, transition_table
from phasekit.theory.transitions.table import parameters_without_P

#: Context lengths at which the largest vocabulary with pooling first is searched.
CONTEXTS = (16, 64, 256, 1024)
_PLATEAU_AT = 192  # of the P at which networks were trained, one on the plateau


def pooling(preset: Preset) -> Iterator[Row]:
    """C1: second-order onset of uniform pooling at P₁ ~ V²; c₁ rises before c_G."""
    found = exponent(ONSET.compute(preset.points))
    yield Row(
        "C1",
        "exponent of P1 in V (token+position, L = 10^7, V to 4·10^4)",
        quoted(found),
        found.value,
        found.drift,
        "2",
        confirmed(abs(found.value - 2) <= max(0.01, found.drift), "holds for V ≪ L"),
    )
    short = exponent(ONSET_SHORT.compute(preset.points))
    yield Row(
        "C1",
        "the same where V outgrows L (L = 10^3, V to 4·10^4)",
        f"{short.last:.3f} (local, at the end)",
        short.last,
        claimed="2",
        verdict="fails for V ≳ L" if short.last < 1.9 else "holds",
    )
    everywhere = transition_table(
        Model(V=2, L=2, score="linear").grid(V=_lengths(1e4, preset), L=_lengths(1e5, preset))
    )
    quartic, beta = everywhere["quartic"].to_numpy(), everywhere["beta"].to_numpy()
    yield Row(
        "C1",
        f"quartic term of the action at P1 is positive, and no distant minimum is lowest just above, of {quartic.size} "
        "models (V to 10^4, L to 10^5)",
        f"{((quartic > 0) & (beta > 0.25)).sum()} models",
        float(((quartic > 0) & (beta > 0.25)).mean()),
        claimed="second order",
        verdict=confirmed(bool(((quartic > 0) & (beta > 0.25)).all()), "second order"),
    )
    close = np.abs(beta - 0.5) < 0.005
    yield Row(
        "C1",
        "exponent β of the order parameter, 10^-5 to 10^-3 above P1, in the same models",
        f"{beta[close].min():.4f} to {beta[close].max():.4f} in {close.sum()}, {beta.max():.3f} at most",
        float(np.median(beta)),
        claimed="1/2",
        verdict=confirmed(
            close.mean() > 0.9, "holds" if close.all() else "holds (closer to P1 where both modes soften: V ≈ L)"
        ),
    )
    inputs: tuple[Inputs, ...] = ("positional", "token+position")
    for kind in inputs:
        last = {L: largest_pooling_vocabulary(L, kind) for L in CONTEXTS}
        most = last[CONTEXTS[-1]] / CONTEXTS[-1]
        yield Row(
            "C1",
            f"c1 rises before cG up to V = (for L = {', '.join(map(str, last))}; {kind})",
            ", ".join(map(str, last.values())),
            most,
            claimed="c1 first",
            verdict=f"holds for V < {most:.1f} L",
        )


def largest_pooling_vocabulary(L: int, inputs: Inputs) -> int:
    """Return the largest V for which the mode that grows at P₁ is pooling: g²/q ≤ 1/2, up to rounding."""
    V = np.arange(2, 4 * L)
    p = parameters_without_P(Model(V=2, L=L, score="linear", inputs=inputs).grid(V=V))
    action = LinearMap()
    _, _, g, q = action.averages(action.whitened(thresholds.critical_mode(p.V, p.L, p.pooling_cost), p), p)
    return int(V[g**2 / q < 0.5 + 1e-9].max())


def copying(preset: Preset) -> Iterator[Row]:
    """C2: smooth crossover to copying at P₂ ~ L^{3/2} V^{1/2}; the loss falls, plateaus, falls gradually."""
    for law, setting in ((COPYING_L, "V = 8, L to 10^6"), (COPYING_V, "L = 10^7, V to 4·10^4")):
        found = exponent(law.compute(preset.points))
        claimed = law.claimed or math.nan
        yield Row(
            "C2",
            f"exponent of P2 in {law.axis} (positional, {setting})",
            quoted(found),
            found.value,
            found.drift,
            f"{claimed:g}",
            confirmed(abs(found.value - claimed) <= max(0.005, found.drift), "holds"),
        )
    model = Model(V=8, L=24, score="linear", inputs="token+position")
    transitions = find_transitions(model)
    P1, P2 = (transitions.passage(name).P for name in ("P1", "P2"))
    P = np.geomspace(P1 * 1.001, 100 * P2, 2000)
    minima = find_minima(model.grid(P=P))
    loss, branches = minima.loss[:, 0], minima.count[np.searchsorted(P, P2)]
    slope = np.gradient(np.log(loss), np.log(P))
    flat = np.flatnonzero((P > 1.5 * P1) & (P < P2))
    k = flat[slope[flat].argmax()]
    where = f"{model.inputs}, V = {model.V}, L = {model.L}"
    yield Row(
        "C2",
        f"minima at P2 ({where})",
        str(branches),
        float(branches),
        claimed="1 (smooth)",
        verdict=confirmed(branches == 1, "crossover"),
    )
    second = P[np.flatnonzero(minima.count > 1)[0]] / P2
    yield Row(
        "C2",
        f"P/P2 from which on there is a second minimum, which is never the lowest ({where})",
        f"{second:.2f}",
        float(second),
        claimed="one minimum throughout",
        verdict=confirmed(np.abs(np.diff(loss)).max() < 0.01, "not so: one at P2, a metastable one beside it above"),
    )
    yield Row(
        "C2",
        f"plateau of the loss ({where}; P1 = {P1:.1f}, P2 = {P2:.1f})",
        f"{loss[k]:.3f} at P = {P[k]:.0f}, where d ln loss/d ln P = {slope[k]:.3f}",
        float(loss[k]),
        claimed=f"near 1 − 1/V = {1 - 1 / model.V:.3f}",
        verdict=confirmed(slope[k] > -0.1 and abs(loss[k] - 1 + 1 / model.V) < 0.03, "plateau"),
    )
    draws = draw_rows(networks(preset, "table_map")[model])
    here = draws[draws["P"] == _PLATEAU_AT]["loss"]
    error = here.std(ddof=1) / math.sqrt(len(here))
    theory = float(find_minima(model.at(P=_PLATEAU_AT)).loss[0])
    yield Row(
        "C2",
        f"loss of networks on the plateau, P = {_PLATEAU_AT}, over data sets",
        f"{with_error(here.mean(), error)} (theory {theory:.4f})",
        here.mean(),
        error,
        verdict=confirmed(abs(here.mean() / theory - 1) < 0.01, "agrees to 1 %"),
    )
    beyond = np.searchsorted(P, [P2, 10 * P2, 100 * P2 * 0.99])
    yield Row(
        "C2",
        "d ln loss/d ln P at P2, 10 P2, 100 P2",
        ", ".join(f"{slope[i]:.2f}" for i in beyond),
        float(slope[beyond[0]]),
        claimed="gradual",
        verdict=confirmed(np.abs(np.diff(loss)).max() < 0.01, "no jump; a power law far above P2"),
    )


def _lengths(last: float, preset: Preset) -> NDArray[np.float64]:
    """Return V or L of the grid of models: 12 at the quick preset."""
    return np.unique(np.geomspace(2, last, preset.points // 4).round())
