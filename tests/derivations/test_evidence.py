"""W integrated out or minimised over, against dense linear algebra on vec(W)."""

import numpy as np
import pytest
import sympy as sp

from phasekit.derivations import evidence
from phasekit.derivations.symbols import P, T, V, g, kappa, q, s, s2, sigma_w, t
from tests.derivations.reference import attention_averages, exact_moments


def dense(A: np.ndarray, V: int, P: float, sigma_w: float, kappa: float) -> tuple[float, float, float]:
    """Return min_W U, −ln ∫ dW prior(W) exp(−U), and the loss at the minimum, all with expected second moments."""
    collected, target = exact_moments(A, V)
    precision = np.kron(P / kappa * collected, np.eye(V)) + np.eye(V * V) / sigma_w**2
    force = (P / kappa * target).reshape(-1)
    best = np.linalg.solve(precision, force)
    minimum = P / (2 * kappa) - force @ best / 2
    sign, logarithm = np.linalg.slogdet(precision * sigma_w**2)
    assert sign == 1
    W = best.reshape(V, V)
    return minimum, minimum + logarithm / 2, 1 - 2 * np.sum(W * target) + np.trace(W.T @ collected @ W)


@pytest.mark.parametrize("seed", range(6))
def test_dense_gaussian(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vocabulary, L = [(2, 3), (3, 4), (4, 4)][seed % 3]
    A = rng.normal(size=(L, L)) * 10 ** rng.uniform(-1, 1)
    numbers = {"P": 10 ** rng.uniform(0, 4), "sigma_w": 10 ** rng.uniform(-1, 1), "kappa": 10 ** rng.uniform(-1, 1)}
    minimum, log_evidence, loss = dense(A, vocabulary, **numbers)
    values = dict(zip((s, s2, g, q), attention_averages(A), strict=True)) | {V: vocabulary}
    values |= {P: numbers["P"], sigma_w: numbers["sigma_w"], kappa: numbers["kappa"]}

    def number(expression: sp.Expr) -> float:
        return float(expression.subs(t, T).subs(values))

    assert number(evidence.data_action()) == pytest.approx(minimum, rel=1e-11)
    assert number(evidence.data_action(delta=1)) == pytest.approx(log_evidence, rel=1e-11)
    assert number(evidence.loss()) == pytest.approx(loss, rel=1e-9)


def test_drawn_data_fluctuate_by_the_root_of_P_around_the_expectation() -> None:
    """At fixed A, one draw of data moves min_W U by √P times the spread of a sequence's error at the best W."""
    rng = np.random.default_rng(0)
    vocabulary, L, draws = 4, 6, 40
    A = 0.3 * np.full((L, L), 1 / L) + 0.4 * np.roll(np.eye(L), -1, axis=1) + 0.02 * rng.normal(size=(L, L))
    for sequences in (400, 40_000):
        values = dict(zip((s, s2, g, q), attention_averages(A), strict=True)) | {V: vocabulary, P: sequences}
        expected = float(evidence.data_action().subs(t, T).subs(values | {sigma_w: 1, kappa: 1}))
        shifts = []
        for _ in range(draws):
            X = np.eye(vocabulary)[rng.integers(vocabulary, size=(sequences, L))]
            features, targets = A @ X, np.roll(X, 1, axis=1)
            C, M = np.einsum("nia,nib->ab", features, features) / L, np.einsum("nia,nib->ab", features, targets) / L
            W = np.linalg.solve(C + np.eye(vocabulary), M)
            shifts.append(sequences / 2 - np.sum(M * W) / 2 - expected)
        errors = ((targets - features @ W) ** 2).sum(axis=(1, 2)) / (2 * L)  # of the last draw
        spread = np.sqrt(sequences) * errors.std(ddof=1)
        assert abs(np.mean(shifts)) < 4.5 * spread / np.sqrt(draws)
        assert abs(np.std(shifts, ddof=1) / spread - 1) < 4 / np.sqrt(2 * draws)
