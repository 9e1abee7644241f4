"""Two-token heads of two positions, summed over every weight: W in closed form, the four logits on a grid."""

import numpy as np

from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

#: Nodes of the trapezium rule in units of the prior: on smooth densities exact to far below any Monte Carlo error.
#: The copy pattern is the direction in which data make the law of linear attention narrow.
COARSE = np.linspace(-6.0, 6.0, 61), *[np.linspace(-6.0, 6.0, 19)] * 3
#: Two incommensurate rules, so that no edge of a bin runs along a line of nodes.
FINE = np.linspace(-6.0, 6.0, 701), np.linspace(-6.1, 6.1, 607)
#: Orthonormal coordinates of G: the first one is the copy pattern, the second the overall mean, then rows and columns.
AXES = np.array([[[-1, 1], [1, -1]], [[1, 1], [1, 1]], [[1, 1], [-1, -1]], [[1, -1], [1, -1]]]) / 2


def linear_head(P, data_seed=0):
    """Return points of the posterior over G of linear attention on one data set: weight, cG, c1, loss of each."""
    model = Model(V=2, L=2, P=P, score="linear")
    grids = np.meshgrid(*COARSE, indexing="ij")
    x = np.stack([grid.ravel() for grid in grids], axis=-1)
    A = np.einsum("nk,kij->nij", x, AXES) / 2
    log_weight, loss = _integrated(model, data_seed, A)
    log_weight -= (x**2).sum(-1) / 2
    return np.exp(log_weight - log_weight.max()), *_order(A), loss


def softmax_head(P, data_seed=0):
    """Return the same for softmax attention, whose rows know the difference of two logits only: variance 2."""
    model = Model(V=2, L=2, P=P, score="softmax")
    u, v = (grid.ravel() for grid in np.meshgrid(*FINE, indexing="ij"))
    first, second = 1 / (1 + np.exp(-np.sqrt(2) * u)), 1 / (1 + np.exp(-np.sqrt(2) * v))
    A = np.stack([np.stack([1 - first, first], -1), np.stack([second, 1 - second], -1)], axis=1)
    log_weight, loss = _integrated(model, data_seed, A)
    log_weight -= (u**2 + v**2) / 2
    return np.exp(log_weight - log_weight.max()), *_order(A), loss


def _order(A):
    """Return cG (aG) and c1 (a1), docs/theory.md section 3 with L = 2."""
    g, s = (A[:, 0, 1] + A[:, 1, 0]) / 2, A.sum((1, 2)) / 2
    copying = (g - s / 2) / (1 - 1 / 2)
    return copying, s - copying


def _integrated(model, data_seed, A):
    """Return ln of the integral over W of exp(-U) without the prior of G, and W's mean of the loss per sequence."""
    V, L, P = model.V, model.L, int(model.P)
    X = np.eye(V)[np.asarray(draw_dataset(model, data_seed).tokens)]  # (P, L, V)
    Y = np.roll(X, 1, axis=1)
    pairs, crossed = np.einsum("pja,pkb->jkab", X, X), np.einsum("pja,pib->ijab", X, Y)
    C = np.einsum("nij,nik,jkab->nab", A, A, pairs, optimize=True) / L
    B = np.einsum("nij,ijab->nab", A, crossed, optimize=True) / L
    precision = C + np.eye(V)
    mean = np.linalg.solve(precision, B)
    log_weight = (mean * B).sum((1, 2)) / 2 - V / 2 * np.log(np.linalg.det(precision))
    noise = V * np.trace(np.linalg.solve(precision, C), axis1=1, axis2=2)
    total = P - 2 * (mean * B).sum((1, 2)) + (mean * (C @ mean)).sum((1, 2)) + noise
    return log_weight, total / P
