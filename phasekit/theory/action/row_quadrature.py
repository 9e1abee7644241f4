"""Averages over one attention row under the posterior's tilt, by quadrature: rows f(h)/Σf (docs/theory.md, section 6).

With N = e^d the sum of all f(h_j), the weights are y_j = f(h_j) e^(−d); as they add up to 1, g = 1/L + u₁ and
q = 1/L + Σu² with u = y − 1/L. The delta function that fixes d is a Fourier integral, behind which the logits are
independent:

    E exp(θ u₁ + η Σu²) = ∫dd ∫dτ/2π  A Bᴸ⁻¹,      B = E exp(η u² − s u),      A = E exp(θ u + η u² − s u),

with s = σ + iτ and expectations over one logit each. All integrands are smooth, so that sums over even nodes converge
faster than any power. σ is where the mean of Σy is 1 for real s (a saddle point), moved a little to the right, which
damps the images that a sum over τ makes of larger Σy. What the integrand is at y > 1 doesn't matter: it is cut off
there. The averages of g and q come with derivatives of A and B.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.special import erfc

from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.theory.action.base import Array
from phasekit.theory.action.row_averages import ROW_ERROR, Cumulants, Rows, Tilt

#: Gauss-Legendre nodes of a panel of logits; the largest phase that a panel covers.
_X, _W = np.polynomial.legendre.leggauss(16)
_PHASE = 20.0
#: Panels for each standard deviation of the prior, or for each unit of ln f if that is less.
_PANELS = 0.4
#: Logits between which panels lie, in prior standard deviations, and the coarse grid on which they are laid out.
_COARSE = np.linspace(-9.0, 60.0, 553)
_ZERO = int(np.argmin(np.abs(_COARSE)))
#: ln y beyond which nothing is left behind the cut-off.
_NO_MORE = 0.5
#: At how many d panels are laid out; in between they are interpolated.
_LAID_OUT = 5
#: Strength of the cut-off at y > 1.
_CUT, _CUT_FROM = 1e4, 1.25
#: Where the search for ln N begins, relative to the prior's typical value, its nodes, and how often it zooms in; by how
#: much the range of a tilt nearby is widened, and by how much one that ends too early.
_LOWEST, _HIGHEST, _SCAN, _ZOOMS, _WIDER, _FURTHER = -2.0, 4.0, 25, 12, 0.25, 1.5
#: Steps of d in deviations of the integrand, times the root of the digits wanted.
_RESOLVED = 4.0
#: Newton's method for the contour: steps at most, and how close Σy comes to 1 in standard deviations.
_NEWTON_STEPS, _NEAR = 60, 0.1
#: Logits whose weight has a smaller logarithm (negative) than this aren't looked at in the search for the contour.
_FAINT = 150.0
#: Complex numbers in all and at once, and panels on one side of 0, at most.
_MOST, _AT_ONCE, _MOST_PANELS = 2**27, 2**19, 400
#: The period of Σy that images are kept at (at most), and that in standard deviations; the contour's move, in them.
_PERIOD, _IN_DEVIATIONS, _MOVE = 2.6, 16.0, 3.0
#: Errors between which finer quadratures are, that the error of others is known by.
_FINEST, _FINER = 1e-10, 1e-6
#: Least share of the sum of both ends' errors that the error of their difference is stated as.
_BY_CHANCE = 0.1
#: Nodes are left out for a weight whose logarithm is below that of the error by so much.
_LENIENT = 8.0
#: Shortest step of d (relative), and the fewest on each side of those that counted at a tilt nearby.
_NARROWEST, _FEW = 1e-13, 3
#: Steps of d are kept if those that the integrand asks for are between these multiples; how often they are shortened.
_FINE, _COARSER, _REFINEMENTS = 0.8, 2.0, 8
#: A contour for other η at the same θ serves if η has moved by so much, relative, at most.
_BESIDE = 1e-2
#: How often the range of τ may grow, by which factor, and how much shorter the range is that it is compared with.
_REACH, _GROWTHS, _GROWTH, _SHORTER = 2.5, 6, 1.6, 0.8


class Contour(NamedTuple):
    """For nodes in d = ln N: σ, the standard deviation of Σy, and the logarithm of the integrand's size.

    ``step`` from node to node (some that don't count may be left out), ``tilt``: the fields (θ, η) that it was laid
    for; ``grown``: how often the range of τ had to grow there.
    """

    d: Array
    s: Array
    deviation: Array
    size: Array
    step: float
    tilt: tuple[float, float]
    grown: int = 0

    def only(self, which: Any) -> Contour:
        """Return some of the nodes."""
        return self._replace(**{name: getattr(self, name)[which] for name in ("d", "s", "deviation", "size")})

    def serves(self, theta: float, eta: float) -> bool:
        """Whether it still passes near the saddle points of other fields."""
        return self.tilt[0] == theta and abs(self.tilt[1] - eta) <= _BESIDE * (1 + abs(eta))


class RowQuadrature(Rows):
    """Row averages of one system.

    Parameters
    ----------
    score : ElementwiseSoftmax
    L : float
        Keys of a row; any real number from 2 on.
    sigma_g : float
    error : float
        Of ln Z₁, absolute: decides about the number of nodes.
    """

    def __init__(self, score: ElementwiseSoftmax, L: float, sigma_g: float, error: float = ROW_ERROR) -> None:
        self._score, self.L, self._sigma_g, self.error = score, L, sigma_g, error
        self._digits = float(np.log(1 / error))
        self._log_f = self._at(_COARSE)
        self._slope = np.abs(np.gradient(self._log_f, _COARSE))
        prior = np.exp(-(_COARSE**2) / 2)
        top = self._log_f.max()
        prior /= prior.sum()
        with np.errstate(divide="ignore"):  # weights beyond all floats: no contour will be found
            self._typical = float(np.log(L) + top + np.log(prior @ np.exp(self._log_f - top)))
        self._unit = min(1.0, float(np.sqrt(prior @ (self._log_f - prior @ self._log_f) ** 2)))

    @cached_property
    def prior(self) -> Cumulants:  # type: ignore[override]
        """Averages without a tilt."""
        return self.cumulants(0.0, 0.0)[0]

    def cumulants(self, theta: float, eta: float, near: Contour | None = None) -> tuple[Cumulants, Contour]:
        """Return ln Z₁ and its first two derivatives at a tilt, and the contour, from which to begin at one nearby.

        Raises
        ------
        ArithmeticError
            If the quadrature doesn't settle.
        """
        with np.errstate(all="ignore"):  # numbers that are lost don't settle
            return self._settled(theta, eta, self._contour(theta, eta, near))

    def _settled(self, theta: float, eta: float, contour: Contour) -> tuple[Cumulants, Contour]:
        """Integrate as far as it takes."""
        bulk = contour.size > contour.size.max() - 4
        if not bulk.any():
            raise ArithmeticError(f"no contour was found at the tilt ({theta:g}, {eta:g})")
        shortest = _REACH * np.sqrt(2 * self._digits) / float(contour.deviation[bulk].min())
        for grown in range(contour.grown, _GROWTHS):
            found, shorter = self._integrate(theta, eta, contour, shortest * _GROWTH**grown)
            if (
                abs(found.log_Z - shorter.log_Z) <= self.error**0.75 * max(1.0, abs(found.log_Z))
                and 0 < found.g < 1
                and 0 < found.q < 1
                and found.gg > 0 < found.qq
            ):
                return found, contour._replace(grown=grown)
        raise ArithmeticError(f"averages over rows didn't settle at the tilt ({theta:g}, {eta:g})")

    def effective_rows(self, theta: float, eta: float) -> float:
        return np.inf

    def error_of_difference(self, low: Tilt, high: Tilt) -> float:
        """Return how much a finer quadrature differs."""
        error = float(np.clip(self.error**1.5, _FINEST, _FINER))
        finer = RowQuadrature(self._score, self.L, self._sigma_g, error)
        errors = [float(end.log_Z) - float(finer.cumulants(end.theta, end.eta)[0].log_Z) for end in (low, high)]
        # Errors of both ends that cancel by chance say little of what else is neglected.
        return max(abs(errors[1] - errors[0]), _BY_CHANCE * (abs(errors[0]) + abs(errors[1])))

    def _at(self, h: Array) -> Array:
        """Return ln f of logits in units of their prior's standard deviation."""
        import torch

        logits = torch.from_numpy(h * self._sigma_g)
        values: Array = self._score.transform(logits, **self._score.values(None, logits)).numpy()
        return values

    def _contour(self, theta: float, eta: float, near: Contour | None) -> Contour:
        """Return even nodes on the range of d that carries the integral, as many as resolve it.

        They are looked for around those of a tilt nearby; if there is none, or the range has moved out of there, by
        zooming in from everywhere. A peak that is narrower than the steps looks as wide as they are: steps are
        shortened until they find what they were made for.
        """
        if near is not None and near.serves(theta, eta):
            return near
        grown = 0 if near is None else near.grown
        found = None if near is None else self._moved(near, theta, eta)
        if found is None:
            found = self._zoomed(theta, eta)
        elif _FINE * found.step < self._step(found) < _COARSER * found.step:
            return found.only(self._counting(found))._replace(grown=grown)
        for _ in range(_REFINEMENTS):
            low, high, step = found.d[0], found.d[-1], self._step(found)
            if not step > _NARROWEST * max(1.0, abs(high)):
                raise ArithmeticError("sums of weights fluctuate less than rounding")
            nodes = np.linspace(low, high, max(int(np.ceil((high - low) / step)) + 1, 3))
            found = self._saddles(nodes, np.interp(nodes, found.d, found.s), theta, eta)
            if self._step(found) > _FINE * step:
                break
        return found.only(self._counting(found))._replace(grown=grown)

    def _moved(self, near: Contour, theta: float, eta: float) -> Contour | None:
        """Return the nodes that count, with the steps of a tilt nearby; None if they aren't around its own."""
        wider = max(_WIDER * (near.d[-1] - near.d[0]), _FEW * near.step)
        d = np.arange(near.d[0] - wider, near.d[-1] + wider, near.step)
        found = self._saddles(d, np.interp(d, near.d, near.s), theta, eta)
        first, last = self._used(found)
        return found.only(slice(first, last + 1)) if first >= 0 and last < d.size else None

    def _zoomed(self, theta: float, eta: float) -> Contour:
        """Return a few nodes on the range that counts."""
        low, high = self._typical + self._unit * _LOWEST, self._typical + self._unit * _HIGHEST
        s = np.zeros(_SCAN)
        for _ in range(_ZOOMS):
            d = np.linspace(low, high, _SCAN)
            found = self._saddles(d, s, theta, eta)
            first, last = self._used(found)
            beyond = (first < 0, last == _SCAN)
            first, last = max(first, 0), min(last, _SCAN - 1)
            if last - first > 0.6 * _SCAN and not any(beyond):
                break
            further = self._unit * _FURTHER
            low, high = d[first] - further * beyond[0], d[last] + further * beyond[1]
            s = np.interp(np.linspace(low, high, _SCAN), d, found.s)
        return found.only(slice(first, last + 1))

    def _counting(self, contour: Contour) -> NDArray[np.bool_]:
        """Return which nodes aren't in a gap between peaks, and those beside them."""
        counts = np.pad(contour.size > contour.size.max() - self._digits - _LENIENT, 1)
        return np.asarray(counts[:-2] | counts[1:-1] | counts[2:])

    def _used(self, contour: Contour) -> tuple[int, int]:
        """Return the first and the last node that count, with one to spare that there may not be.

        Peaks may lie between nodes.
        """
        size = contour.size
        best = int(size.argmax())
        if not np.isfinite(size[best]):
            raise ArithmeticError("no contour was found")
        between = size[best] - size[max(best - 1, 0) : best + 2].min()
        counts = np.flatnonzero(size > size[best] - 2 * between - self._digits - 3)
        return int(counts[0]) - 1, int(counts[-1]) + 1

    def _step(self, contour: Contour) -> float:
        """Return a step of d that resolves the peaks of the integrand."""
        size = contour.size
        bends = np.diff(size, 2)[size[1:-1] > size.max() - 4]
        sharpest = -float(bends[np.isfinite(bends)].min(initial=-1e-9))
        return float(_RESOLVED / np.sqrt(self._digits) * contour.step / np.sqrt(sharpest))

    def _saddles(self, d: Array, s: Array, theta: float, eta: float) -> Contour:
        """Solve for the real s at which the mean of Σy is 1, by Newton's method on its logarithm within brackets."""
        u, first = self._untilted(d, eta, _sharpness(eta))
        counts = (first + max(theta, 0.0) * u > -_FAINT).any(0)
        u, first = u[:, counts], first[:, counts]
        low, high = np.full(d.shape, -np.inf), np.full(d.shape, np.inf)
        before = np.full(d.shape, np.inf)
        for _ in range(_NEWTON_STEPS):
            other = first - s[:, None] * u
            (log_b, b1, b2), (log_a, a1, a2) = (_tilted(exponent, u) for exponent in (other, other + theta * u))
            deviation = np.sqrt(np.maximum(a2 - a1**2 + (self.L - 1) * (b2 - b1**2), 1e-300))
            mean = 1 + a1 + (self.L - 1) * b1
            low, high = np.where(mean > 1, s, low), np.where(mean > 1, high, s)
            miss = mean * np.log1p(mean - 1) / deviation
            far = ~(np.abs(miss) < _NEAR)
            if not far.any():
                break
            step = np.clip(miss, -6, 6) / deviation
            bracketed = np.isfinite(high - low)
            halve = bracketed & ((s + step < low) | (s + step > high) | (np.abs(step) > 0.5 * np.abs(before)))
            before = np.where(halve, np.where(bracketed, low + high, 0.0) / 2 - s, step)
            s = np.where(far, s + before, s)
        size = log_a + (self.L - 1) * log_b - np.log(deviation)
        return Contour(d, s, deviation, np.where(np.isfinite(size) & ~far, size, -np.inf), d[1] - d[0], (theta, eta))

    def _nodes(self, d: Array, rate: float) -> tuple[Array, Array]:
        """Return y and ln of weight times prior at nodes of the logits, for each d; both of shape (d, nodes).

        Panels are laid so that none covers a larger phase of exp(i · rate · y); none goes across 0, where scores may
        have a kink.
        """
        some = np.linspace(d[0], d[-1], _LAID_OUT)
        log_y = self._log_f - some[:, None]
        y = np.where(log_y < _NO_MORE, np.exp(np.minimum(log_y, _NO_MORE)), 0.0)
        dense = np.hypot(_PANELS * np.maximum(1.0, self._slope), y * self._slope * rate / _PHASE)
        step = _COARSE[1] - _COARSE[0]
        count = np.cumsum((dense[:, 1:] + dense[:, :-1]) / 2 * step, axis=1)
        count = np.concatenate([np.zeros((_LAID_OUT, 1)), count], axis=1)
        left, right = _even(count[:, : _ZERO + 1], _COARSE[: _ZERO + 1]), _even(count[:, _ZERO:], _COARSE[_ZERO:])
        edges = make_interp_spline(some, np.concatenate([left, right[:, 1:]], axis=1), k=1)(d)
        middle, half = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
        h = (middle[..., None] + half[..., None] * _X).reshape(d.size, -1)
        log_weight = (np.log(half)[..., None] + np.log(_W)).reshape(d.size, -1) - h**2 / 2 - np.log(2 * np.pi) / 2
        return np.exp(np.minimum(self._at(h) - d[:, None], 5.0)), log_weight

    def _untilted(self, d: Array, eta: float, rate: float) -> tuple[Array, Array]:
        """Return u at the nodes for each d, and the exponent of B but for s u, with the nodes' weights."""
        y, log_weight = self._nodes(d, rate)
        u = y - 1 / self.L
        return u, log_weight + eta * u**2 - _CUT * np.maximum(y - _CUT_FROM, 0) ** 6

    def _integrate(self, theta: float, eta: float, contour: Contour, reach: float) -> tuple[Cumulants, Cumulants]:
        """Return the averages with τ up to ``reach``, and with a shorter range."""
        L, d = self.L, contour.d
        u, other = self._untilted(d, eta, max(reach, _sharpness(eta)))
        other = other - (contour.s + _MOVE / contour.deviation)[:, None] * u
        copy = other + theta * u
        if copy[int(contour.size.argmax())].argmax() >= copy.shape[1] - _X.size:
            raise ArithmeticError("logits are raised beyond what is integrated over")
        tops = [exponent.max(1, keepdims=True) for exponent in (other, copy)]
        counts = ((other > tops[0] - self._digits - 10) | (copy > tops[1] - self._digits - 10)).any(0)
        u, other, copy = u[:, counts], np.exp(other[:, counts] - tops[0]), np.exp(copy[:, counts] - tops[1])
        norm = other.sum(1, keepdims=True)
        size = tops[1][:, 0] + (L - 1) * (tops[0] + np.log(norm))[:, 0]
        powers = u[..., None] ** np.arange(5)
        parts = np.concatenate([copy[..., None] * powers, (other / norm)[..., None] * powers[..., ::2]], axis=-1)

        step = 2 * np.pi / min(_PERIOD, _IN_DEVIATIONS * float(contour.deviation.max()))
        tau = step * np.arange(int(np.ceil(reach / step)) + 1)
        if tau.size * u.size > _MOST:
            raise ArithmeticError("averages over rows take too many nodes")
        few = max(1, _AT_ONCE // (tau.size * u.shape[1]))
        blocks = [slice(first, first + few) for first in range(0, d.size, few)]
        sums = np.concatenate([_transformed(step * u[block], tau.size, parts[block]) for block in blocks])
        a0, a1, a2, a3, a4, b, b2, b4 = np.moveaxis(sums, -1, 0)
        lead, others = b ** (L - 1) * np.exp(size - size.max())[:, None], L - 1
        b2, b4 = b2 / b, b4 / b
        terms = np.stack(
            [
                (lead * term).real.sum(0)
                for term in (
                    a0,
                    a1,
                    a2 + others * a0 * b2,
                    a2,
                    a3 + others * a1 * b2,
                    a4 + others * (2 * a2 * b2 + a0 * b4 + (others - 1) * a0 * b2**2),
                )
            ]
        )
        unit = np.log(step / (2 * np.pi) * contour.step) + size.max() + (theta + eta) / L
        whole, shorter = (_cumulants(terms @ _window(tau / (reach * share)), unit, L) for share in (1.0, _SHORTER))
        return whole, shorter


def _sharpness(eta: float) -> float:
    """Return the phase for each unit of y that resolves exp(η y²)."""
    return float(1.5 * np.sqrt(1 + 2 * max(-eta, 0.0)))


def _tilted(exponent: Array, u: Array) -> tuple[Array, Array, Array]:
    """Return ln of the sum of exp(exponent) along the last axis, and the first two moments of u under it."""
    top = exponent.max(-1, keepdims=True)
    weight = np.exp(exponent - top)
    total = weight.sum(-1)
    weighted = weight * u
    return top[..., 0] + np.log(total), weighted.sum(-1) / total, (weighted * u).sum(-1) / total


def _even(count: Array, places: Array) -> Array:
    """Return edges of panels at even steps of a cumulative count (rows, places), for each row as many as one needs."""
    most = (count[:, -1] - count[:, 0]).max()
    if not np.isfinite(most):
        raise ArithmeticError("a row's weights are no numbers there")
    number = int(np.ceil(most))
    if number > _MOST_PANELS:
        raise ArithmeticError("logits are spread too widely")
    shares = np.linspace(0.0, 1.0, number + 1)
    return np.stack([np.interp(row[0] + (row[-1] - row[0]) * shares, row, places) for row in count])


def _transformed(phase: Array, count: int, parts: Array) -> Array:
    """Return Σ exp(−i k phase) parts over the nodes, shape (d, count, columns), for k = 0 … count − 1."""
    waves = _powers(np.exp(-1j * phase), count)
    return np.asarray(waves.real @ parts + 1j * (waves.imag @ parts))


def _powers(wave: Array, count: int) -> Array:
    """Return wave⁰ … wave^(count − 1) along a new axis before the last, by repeated squaring."""
    powers = np.empty((wave.shape[0], count, wave.shape[1]), dtype=complex)
    powers[:, 0] = 1
    powers[:, 1:2] = wave[:, None]
    done = 1
    while done < count - 1:
        more = min(done, count - 1 - done)
        np.multiply(powers[:, 1 : more + 1], powers[:, done : done + 1], out=powers[:, done + 1 : done + more + 1])
        done += more
    return powers


def _window(share: NDArray[Any]) -> Array:
    """Return weights of a sum over τ ≥ 0 for an integral over both signs, that end smoothly at a share of 1."""
    weights = np.asarray(erfc(14 * (share - 0.7)))
    weights[0] /= 2
    return weights


def _cumulants(sums: Array, unit: float, L: float) -> Cumulants:
    total = float(sums[0])
    if not total > 0:
        return Cumulants(*[np.nan] * 6)
    g, q, gg, gq, qq = (float(x) for x in sums[1:] / total)
    return Cumulants(unit + float(np.log(total)), 1 / L + g, 1 / L + q, gg - g * g, gq - g * q, qq - q * q)
