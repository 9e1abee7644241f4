"""The cheapest logits of a pattern, against least squares over all entries of G."""

import itertools

import numpy as np
import pytest
from scipy.linalg import null_space

from phasekit.derivations import prior
from phasekit.derivations.symbols import L as L_symbol
from phasekit.derivations.symbols import V as V_symbol
from phasekit.derivations.symbols import c1 as c1_symbol
from phasekit.derivations.symbols import cG as cG_symbol
from phasekit.derivations.symbols import gap as gap_symbol
from phasekit.derivations.symbols import lam, sigma_g


def logit_constraints(V: int, L: int) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """Rows that map G (token+position) to every logit H_ij(token a at i, token b at j); the rows' (i, j, a)."""
    size = V + L
    rows, places = [], []
    for i, j, a, b in itertools.product(range(L), range(L), range(V), range(V)):
        if i == j and a != b:
            continue  # one position holds one token
        row = np.zeros((size, size))
        for query, key in itertools.product((a, V + i), (b, V + j)):
            row[query, key] += 1
        rows.append(row.reshape(-1))
        places.append((i, j, a))
    return np.array(rows), places


@pytest.mark.parametrize(("V", "L"), [(2, 3), (3, 4), (4, 3), (2, 5)])
def test_token_position_pattern_cost(V: int, L: int) -> None:
    c1, cG = 0.7, -1.3
    constraints, places = logit_constraints(V, L)
    wanted = np.array([c1 + L * cG * (j == (i - 1) % L) for i, j, _ in places])
    cheapest, *_ = np.linalg.lstsq(constraints, wanted, rcond=None)
    np.testing.assert_allclose(constraints @ cheapest, wanted, atol=1e-12)
    cost = prior.pattern_cost().subs(lam, prior.pooling_cost("token+position"))
    numbers = {V_symbol: V, L_symbol: L, c1_symbol: c1, cG_symbol: cG, sigma_g: 1}
    assert float(cost.subs(numbers)) == pytest.approx(cheapest @ cheapest / 2, rel=1e-12)


@pytest.mark.parametrize("L", [2, 3, 7])
def test_positional_pattern_cost(L: int) -> None:
    c1, cG = -0.4, 1.1
    H = c1 * np.ones((L, L)) + L * cG * np.roll(np.eye(L), -1, axis=1)
    cost = prior.pattern_cost().subs(lam, prior.pooling_cost("positional"))
    numbers = {L_symbol: L, c1_symbol: c1, cG_symbol: cG, sigma_g: 1}
    assert float(cost.subs(numbers)) == pytest.approx(np.sum(H**2) / 2, rel=1e-13)


@pytest.mark.parametrize(("V", "L"), [(2, 3), (3, 4), (4, 3)])
def test_softmax_gap_cost_is_the_same_for_both_inputs(V: int, L: int) -> None:
    """Minimise over G and over one free shift per query position and query token."""
    gap = 1.7
    constraints, places = logit_constraints(V, L)
    shifts = np.zeros((len(places), L * V))
    for row, (i, _, a) in enumerate(places):
        shifts[row, i * V + a] = 1
    wanted = np.array([gap * (j == (i - 1) % L) for i, j, _ in places])
    system = np.hstack([constraints, -shifts])  # logits minus shift = pattern
    start, *_ = np.linalg.lstsq(system, wanted, rcond=None)
    np.testing.assert_allclose(system @ start, wanted, atol=1e-12)
    entries = constraints.shape[1]
    free = null_space(system)
    step, *_ = np.linalg.lstsq(free[:entries], -start[:entries], rcond=None)
    cheapest = start[:entries] + free[:entries] @ step
    cost = float(prior.gap_cost().subs({L_symbol: L, gap_symbol: gap, sigma_g: 1}))
    assert cost == pytest.approx(cheapest @ cheapest / 2, rel=1e-11)
