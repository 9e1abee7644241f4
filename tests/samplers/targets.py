"""Targets whose law, or whose discretised chain's law, is known without sampling."""

import numpy as np
import torch
from scipy.linalg import solve_discrete_lyapunov


class Analytic:
    """Independent coordinates: ``chains`` chains of ``size`` of them, U = Σ u(θ), in tensors "x", "y", … (one a scale).

    Unlike HMC, Langevin samplers move every coordinate by itself, so that a few chains of many coordinates are as good
    as many chains, and faster.
    """

    exact = True
    dtype = torch.float64
    device = torch.device("cpu")

    def __init__(self, u, slope, chains, size=1, scales=(1.0,), span=(-10.0, 10.0)):
        self.u, self.slope, self.chains, self.span = u, slope, chains, span
        self.scales = dict(zip("xyz", scales, strict=False))
        self.shapes = dict.fromkeys(self.scales, (chains, size))

    def bind(self, position, gradient):
        return Bound(self, position, gradient)


class Bound:
    def __init__(self, target, position, gradient):
        self.target, self.position, self.gradient = target, position, gradient

    def __call__(self, step):
        for name, theta in self.position.items():
            self.gradient[name].copy_(self.target.slope(theta))

    def energy(self):
        return torch.stack([self.target.u(theta).sum(1) for theta in self.position.values()]).sum(0)


def gaussian(curvatures, chains, scales=(1.0,)):
    curvature = torch.tensor(curvatures, dtype=torch.float64)
    return Analytic(
        lambda x: 0.5 * curvature * x**2, lambda x: curvature * x, chains, size=len(curvatures), scales=scales
    )


SHAPE = 2.0  # of the log-gamma density exp(aθ - e^θ): skewness -0.78


def skewed(chains, size=1):
    return Analytic(lambda x: x.exp() - SHAPE * x, lambda x: x.exp() - SHAPE, chains, size, span=(-14.0, 3.5))


def double_well(chains, size=1, height=1.0, tilt=0.3):
    """Wells near ±1 of unequal depth, with a barrier of ``height`` between them."""
    return Analytic(
        lambda x: height * (x**2 - 1) ** 2 + tilt * x,
        lambda x: 4 * height * x * (x**2 - 1) + tilt,
        chains,
        size,
        span=(-2.7, 2.7),
    )


def quadrature(target, functions, temperature=1.0):
    """Means of functions of θ under exp(-u/T), by the trapezium rule over where there is any weight."""
    x = torch.linspace(*target.span, 4001, dtype=torch.float64)
    u = target.u(x)
    weight = torch.exp(-(u - u.min()) / temperature)
    return [float((weight * f(x)).sum() / weight.sum()) for f in functions]


def stationary_law_of_sgld(target, step, functions, temperature=1.0):
    """Means under the stationary law of θ' = θ - step u'(θ) + √(2 step T) ξ, the chain as it is discretised.

    The law π solves π(y) = ∫ K(y|x) π(x) dx, with a Gaussian K of width √(2 step T); the trapezium rule with four
    points a width is exact to 1e-16 or so. One equation is traded for the norm.
    """
    width = np.sqrt(2 * step * temperature)
    low, high = target.span
    x = np.linspace(low, high, int((high - low) / (width / 4)) + 1)
    drifted = x - step * target.slope(torch.from_numpy(x)).numpy()
    kernel = np.exp(-((x[:, None] - drifted) ** 2) / (2 * width**2)) * (x[1] - x[0]) / (width * np.sqrt(2 * np.pi))
    equations = np.vstack([kernel - np.eye(len(x)), np.ones(len(x))])
    law = np.linalg.lstsq(equations, np.append(np.zeros(len(x)), 1.0), rcond=None)[0]
    return [float(law @ f(torch.from_numpy(x)).numpy()) for f in functions]


def autocovariance_of_sgld(curvature, step, temperature, lags):
    """γ_k of θ under U = curvature θ²/2: an AR(1) chain."""
    a = step * curvature
    variance = 2 * step * temperature / (2 * a - a * a)
    return variance * (1 - a) ** np.arange(lags)


def autocovariance_of_baoab(curvature, step, friction, temperature, lags):
    """γ_k of θ under U = curvature θ²/2: BAOAB is then a linear map of (θ, p) plus noise."""
    kick, drift = np.array([[1, 0], [-step * curvature / 2, 1]]), np.array([[1, step / 2], [0, 1]])
    c = np.exp(-friction * step)
    one = kick @ drift @ np.diag([1, c]) @ drift @ kick
    entry = kick @ drift @ np.array([0, np.sqrt(temperature * (1 - c * c))])
    covariance = solve_discrete_lyapunov(one, np.outer(entry, entry))
    return np.array([(np.linalg.matrix_power(one, k) @ covariance)[0, 0] for k in range(lags)]), covariance
