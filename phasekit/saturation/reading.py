"""How to read the theorems: where "SSA saturates polynomially" holds, where it never saturates, where it is sharper."""

from __future__ import annotations

from phasekit.saturation.theorems.crossover import crossover_gap

#: Published starting values of SSA (arXiv:2508.14685): (n, b).
PUBLISHED = ((1.5, 0.8), (2.0, 0.8))


def one_hot_share(keys: int) -> float:
    """Return the share of rows of independent symmetric logits on which SSA becomes one-hot under magnification.

    That needs exactly one positive logit: m of the 2^m patterns of signs. (Softmax does on every row.)
    """
    return keys / 2.0**keys


def crossover_gaps() -> list[dict[str, float]]:
    """Return the gap below which SSA is sharper than softmax, for the published starting values."""
    return [{"n": n, "b": b, "gap": float(crossover_gap(n, b))} for n, b in PUBLISHED]


def reading() -> list[str]:
    """Return the reading, a sentence or two an entry."""
    shares = ", ".join(f"{100 * one_hot_share(m):.2g} % (m = {m})" for m in (4, 8, 16))
    gaps = ", ".join(f"Δ < {entry['gap']:.4f} (n = {entry['n']:g}, b = {entry['b']:g})" for entry in crossover_gaps())
    return [
        "The published reading, SSA saturates only polynomially, holds on every row as a lower bound: no ratio falls "
        "faster than λ^(−2n). As a law, 1 − p_i* ~ λ^(−n) … λ^(−2n), it holds where exactly one logit is positive, or "
        "where the largest logit is 0 and alone there.",
        "On all other rows the limit law is sharper: SSA never becomes one-hot, p_j ∝ (z_j)₊ⁿ (or |z_j|⁻ⁿ if all are "
        f"negative), and b drops out. Of rows with independent symmetric logits, only {shares} become one-hot.",
        f"SSA is sharper than softmax at small gaps: {gaps}, the other logits at 0; flatter only beyond. "
        "Where nb ≤ 1 it is flatter at every gap.",
        "At large gaps the winner's own gradient falls as Δ^(−n−1), those of the keys it beats as Δ^(−n); with softmax "
        "all fall as e^(−Δ).",
    ]
