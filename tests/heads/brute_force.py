"""The energy of docs/theory.md, section 1, by plain loops over sequences and positions: the tests' own definition."""

import numpy as np

from phasekit.model import Model


def attention_row(model: Model, logits: np.ndarray) -> np.ndarray:
    if model.score.name == "linear":
        return logits / model.L
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def attention(model: Model, sequence: np.ndarray, G: np.ndarray) -> np.ndarray:
    V, L = model.V, model.L
    rows = []
    for i in range(L):
        if model.inputs == "positional":
            logits = G[i]
        else:
            logits = np.zeros(L)
            for j in range(L):
                query, key = np.zeros(V + L), np.zeros(V + L)
                query[sequence[i]] = query[V + i] = 1
                key[sequence[j]] = key[V + j] = 1
                logits[j] = query @ G @ key
        rows.append(attention_row(model, logits))
    return np.array(rows)


def squared_error(model: Model, sequence: np.ndarray, W: np.ndarray, G: np.ndarray) -> float:
    A, total = attention(model, sequence, G), 0.0
    for i in range(model.L):
        output = sum(A[i, j] * W[sequence[j]] for j in range(model.L))
        target = np.eye(model.V)[sequence[i - 1]]
        total += ((target - output) ** 2).sum()
    return total


def energy(model: Model, tokens: np.ndarray, W: np.ndarray, G: np.ndarray) -> float:
    error = sum(squared_error(model, sequence, W, G) for sequence in tokens)
    prior = (W**2).sum() / (2 * model.sigma_w**2) + (G**2).sum() / (2 * model.sigma_g**2)
    return error / (2 * model.kappa * model.L) + prior
