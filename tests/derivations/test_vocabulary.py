"""Moments of the collected tokens, by enumeration and by sampling."""

import numpy as np
import pytest

from phasekit.derivations import vocabulary
from phasekit.derivations.symbols import V as V_symbol
from phasekit.derivations.symbols import g, q, s, s2
from tests.derivations.reference import attention_averages, exact_moments


def predicted(A: np.ndarray, V: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = dict(zip((s, s2, g, q), attention_averages(A), strict=True)) | {V_symbol: V}
    constant = np.full((V, V), 1 / V)
    return tuple(
        float(moment.bulk.subs(numbers)) * (np.eye(V) - constant) + float(moment.constant.subs(numbers)) * constant
        for moment in (vocabulary.collected_moment(), vocabulary.target_moment())
    )


@pytest.mark.parametrize(("V", "L"), [(2, 2), (3, 4), (4, 3)])
def test_moments_by_enumeration(V: int, L: int) -> None:
    A = np.random.default_rng(V).normal(size=(L, L))
    for moment, exact in zip(predicted(A, V), exact_moments(A, V), strict=True):
        np.testing.assert_allclose(moment, exact, atol=1e-13)


def test_moments_by_sampling() -> None:
    rng = np.random.default_rng(1)
    V, L, sequences = 6, 9, 40_000
    A = rng.normal(size=(L, L)) / L
    X = np.eye(V)[rng.integers(V, size=(sequences, L))]
    features, targets = A @ X, np.roll(X, 1, axis=1)
    for moment, other in zip(predicted(A, V), (features, targets), strict=True):
        samples = np.einsum("nia,nib->nab", features, other) / L  # one independent matrix per sequence
        error = samples.std(axis=0, ddof=1) / np.sqrt(sequences)
        z = (samples.mean(axis=0) - moment) / error
        assert np.abs(z).max() < 4.5  # 36 entries: above with probability 2.4e-4
        wrong = (samples.mean(axis=0) - moment * 1.2) / error
        assert np.abs(wrong).max() > 6  # the test can fail
