"""Claim C3: the jump of softmax attention."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from figures._sweeps import networks_of_one
from figures.claims._claims import Row, confirmed
from figures.laws._laws import JUMP, length_within, quoted, ratio_to_log_squared
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.scaling import compare_laws, exponent, scaling_law
from phasekit.theory.transitions import find_transitions


def jump(preset: Preset) -> Iterator[Row]:
    """C3: one first-order transition of softmax attention, P* ~ L ln² L at fixed V; a jump, and no stage between."""
    data = JUMP.compute(2 * preset.points)
    local = {L: float(np.interp(np.log(L), np.log(data["L"]), data["local_exponent"])) for L in (64, 1e3, 1e6, 1e9)}
    yield Row(
        "C3",
        "local exponent of P* in L at L = 64, 10^3, 10^6, 10^9 (V = 8)",
        ", ".join(f"{value:.3f}" for value in local.values()),
        local[1e9],
        claimed=", ".join(f"{1 + 2 / math.log(L):.3f}" for L in local) + " (L ln² L)",
        verdict=confirmed(all(local[L] < 1 + 2 / math.log(L) for L in local), "below L ln² L at every L"),
    )
    ratios = [ratio_to_log_squared(math.log10(L), 8) for L in (1e3, 1e6, 1e9)]
    reached = length_within(0.1, 8)
    yield Row(
        "C3",
        "P* over its asymptote V/(4(V−1)) L ln² L at L = 10^3, 10^6, 10^9 (V = 8)",
        ", ".join(f"{ratio:.3f}" for ratio in ratios),
        ratios[-1],
        claimed="1",
        verdict=confirmed(ratios == sorted(ratios)[::-1], f"only as L → ∞ (to 10 % from L = 10^{reached:.0f})"),
    )
    fits = {fit.law: fit for fit in compare_laws(data)}
    exact = float(abs(data["closed_self_consistent"] / data["P_star"] - 1).where(data["L"] >= 1000).max())
    yield Row(
        "C3",
        f"largest error of the self-consistent form, V = {JUMP.model.V}, L = 10^3 to 10^9",
        f"{100 * float(exact):.2g} %",
        float(exact),
        verdict=confirmed(exact < 0.02, "describes P* at usable L"),
    )
    for law in ("L_ln2_L", "power law"):
        yield Row(
            "C3",
            f"rms error of ln P* under the best {law.replace('L_ln2_L', 'L ln² L')}, up to L = 10^9",
            f"{fits[law].rms:.2g}" + (f" (exponent {fits[law].exponent:.3f})" if law == "power law" else ""),
            fits[law].rms,
            verdict=confirmed(fits[law].rms > 5 * fits["self_consistent"].rms, "worse than the self-consistent form"),
        )
    square = [
        float(find_transitions(Model(V=L, L=L)).passage("P_star").P) / (L * math.log(L) ** 2) for L in (64, 1024, 4096)
    ]
    yield Row(
        "C3",
        "P*/(L ln² L) if V = L = 64, 1024, 4096",
        ", ".join(f"{x:.3f}" for x in square),
        square[-1],
        claimed="1 (prefactor ((1 + a)/2)², V = L^a)",
        verdict=confirmed(abs(square[-1] - 1) < 0.1, "holds to 10 %"),
    )
    wide = exponent(scaling_law(Model(V=2, L=64), "P_star", "V", np.geomspace(1e5, 1e8, preset.points).round()))
    yield Row(
        "C3",
        "exponent of P* in V if V ≫ L ln² L (L = 64, V to 10^8)",
        quoted(wide),
        wide.value,
        wide.drift,
        claimed="0 (fixed-V law)",
        verdict=confirmed(abs(wide.value - 0.5) < 0.01, "√(VL) ln L: L ln² L needs fixed V"),
    )
    yield from _jump_at_64(preset)


def _jump_at_64(preset: Preset) -> Iterator[Row]:
    model, networks = networks_of_one(preset, "softmax_transition")
    found = find_transitions(model)
    passage = found.passage("P_star")
    low, high = passage.spinodals
    where = f"V = {model.V}, L = {model.L}"
    yield Row(
        "C3",
        f"P* and spinodals ({where})",
        f"{passage.P:.2f}; two minima for {low:.1f} < P < {high:.1f}",
        passage.P,
        verdict=f"{found.order} order",
    )
    at = networks["P"][(networks["P"] - passage.P).abs().idxmin()]
    here = networks[(networks["P"] == at) & networks["fate"].isin(["kept", "higher energy"])]
    for name in ("aG", "loss"):
        before, after = passage.jump[name]
        uniform, copy = (here[here["aG"] < 0.05][name], here[here["aG"] >= 0.05][name])
        yield Row(
            "C3",
            f"jump of {name} ({where}): theory; networks at P = {at}, both minima",
            f"{before:.4f} to {after:.4f}; {uniform.mean():.4f} to {copy.mean():.4f}",
            after - before,
            claimed="jumps",
            verdict=confirmed(_jumps(before, after) and _jumps(uniform.mean(), copy.mean()), "jumps"),
        )
    most = int(find_minima(model.grid(P=np.geomspace(10, 1e5, 2000))).count.max())
    yield Row(
        "C3",
        f"most minima at any P ({where}): uniform and copying",
        str(most),
        float(most),
        claimed="no pooling stage",
        verdict=confirmed(most == 2, "holds"),
    )


def _jumps(before: float, after: float) -> bool:
    """Whether a quantity changes by more than a factor of 2 at once."""
    return max(before, after) > 2 * min(before, after)
