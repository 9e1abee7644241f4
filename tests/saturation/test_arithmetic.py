"""Balls and intervals contain the true result, gradients are derivatives, and all agree with the score object."""

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from phasekit.saturation.arithmetic.balls import Ball, Balls
from phasekit.saturation.arithmetic.gradients import Gradients
from phasekit.saturation.arithmetic.intervals import Intervals, digits
from phasekit.scores import SSA

BALLS, INTERVALS = Balls(), Intervals()


def signed(rng, rows, keys=1):
    return rng.choice([-1.0, 1.0], (rows, keys)) * np.exp(rng.uniform(-12, 12, (rows, keys)))


def above_zero(rng, rows, keys=1):
    return np.exp(rng.uniform(-12, 12, (rows, keys)))


def moderate(rng, rows, keys=1):
    return rng.uniform(-30, 30, (rows, keys))


class Truth:
    """mpmath with the methods of an arithmetic."""

    exp, log, log1p, absolute = staticmethod(mp.exp), staticmethod(mp.log), staticmethod(mp.log1p), staticmethod(abs)

    @staticmethod
    def ssa(x, n, b):
        return n * mp.sign(x) * mp.log(1 + b * abs(x))


#: How inputs are drawn, and a formula over an arithmetic. Formulas chain operations, so that radii travel.
FORMULAS = {
    "sum": ([signed, signed], lambda xp, x, y: (x + y) - 2.0 * x),
    "product": ([signed, signed], lambda xp, x, y: (x * y) * (x - y)),
    "quotient": ([signed, signed], lambda xp, x, y: (x + y) / (x * x) + 1 / y),
    "exp": ([moderate, moderate], lambda xp, x, y: xp.exp(x + y) - xp.exp(x)),
    "log": ([above_zero, above_zero], lambda xp, x, y: xp.log(x * y) / xp.log(x)),
    "log near 1": ([moderate], lambda xp, x: xp.log(1 + x * x * 1e-9)),
    "log1p": ([above_zero, above_zero], lambda xp, x, y: xp.log1p(x * y) - xp.log1p(x)),
    "absolute": ([signed, signed], lambda xp, x, y: xp.absolute(x - y)),
    "ssa": ([signed, above_zero], lambda xp, x, b: xp.ssa(x * b, b + 1.0, b)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_balls_contain_the_truth_and_are_tight(name):
    draws, formula = FORMULAS[name]
    rng = np.random.default_rng(1)
    inputs = [draw(rng, 2000) for draw in draws]
    ball = formula(BALLS, *map(BALLS.lift, inputs))
    lowest, highest = ball.lowest[:, 0], ball.highest[:, 0]
    with mp.workdps(60):
        for row, numbers in enumerate(zip(*(x[:, 0] for x in inputs), strict=True)):
            true = formula(Truth(), *map(mpf, numbers))
            assert mpf(lowest[row]) <= true <= mpf(highest[row]), (name, numbers)
    assert np.median(ball.rad / np.abs(ball.mid)) < (1e-8 if name == "log near 1" else 1e-14)


def test_balls_contain_sums_over_keys():
    rng = np.random.default_rng(2)
    x = moderate(rng, 300, 7)
    mask = rng.random(x.shape) < 0.6
    mask[:, 0] = True
    ball, masked = BALLS.logsumexp(BALLS.lift(x) * 3.0), BALLS.logsumexp(BALLS.lift(x), mask)
    with mp.workdps(60):
        for row in range(len(x)):
            true = mp.log(mp.fsum(mp.exp(3 * mpf(e)) for e in x[row]))
            assert mpf(ball.lowest[row, 0]) <= true <= mpf(ball.highest[row, 0])
            true = mp.log(mp.fsum(mp.exp(mpf(e)) for e in x[row][mask[row]]))
            assert mpf(masked.lowest[row, 0]) <= true <= mpf(masked.highest[row, 0])


def test_balls_would_notice_a_missing_radius():
    # 0.1 + 0.2 − 0.3 isn't 0 in floats; the ball says that it may be anything up to a few units of rounding
    ball = (BALLS.lift(np.array([[0.1]])) + BALLS.lift(np.array([[0.2]]))) - BALLS.lift(np.array([[0.3]]))
    with mp.workdps(40):
        true = mpf(0.1) + mpf(0.2) - mpf(0.3)
        assert mpf(ball.lowest[0, 0]) <= true <= mpf(ball.highest[0, 0])
        assert true != mpf(ball.mid[0, 0])


def test_division_by_a_ball_around_zero_has_no_bound():
    around_zero = Ball(np.array([[1e-20]]), np.array([[1e-16]]))
    with np.errstate(divide="ignore"):
        assert np.isinf((1 / around_zero).rad).all()
        assert np.isinf(BALLS.log(around_zero).rad).all()


@pytest.mark.parametrize("name", FORMULAS)
def test_intervals_contain_the_truth(name):
    draws, formula = FORMULAS[name]
    rng = np.random.default_rng(3)
    inputs = [draw(rng, 40) for draw in draws]
    with digits(40), mp.workdps(80):
        found = formula(INTERVALS, *map(INTERVALS.lift, inputs))
        for row, numbers in enumerate(zip(*(x[:, 0] for x in inputs), strict=True)):
            true, interval = formula(Truth(), *map(mpf, numbers)), found[row, 0]
            low, high = mp.mpf(interval._mpi_[0]), mp.mpf(interval._mpi_[1])
            assert low <= true <= high
            assert high - low <= mpf(10) ** -30 * abs(true) + mpf(10) ** -36


def test_the_precision_of_intervals_ends_with_its_block():
    from mpmath import iv

    before = iv.prec
    with digits(70):
        assert iv.prec > 230
    assert iv.prec == before


@pytest.mark.parametrize("xp", [BALLS, INTERVALS])
def test_roots_are_enclosed(xp):
    x = xp.lift(np.array([[2.0], [3.0]]))
    estimate = np.sqrt([[2.0], [3.0]]) * (1 + 1e-9)
    with digits(50), mp.workdps(80):
        root = xp.root(estimate, lambda r: r * r - x, lambda r: 2.0 * r)
        for row, square in enumerate((2, 3)):
            if isinstance(root, Ball):
                low, high = mpf(root.lowest[row, 0]), mpf(root.highest[row, 0])
                assert high - low < 1e-14
            else:
                low, high = (mp.mpf(end) for end in root[row, 0]._mpi_)
                assert high - low < mpf(10) ** -45
            assert low <= mp.sqrt(square) <= high


def test_a_wrong_estimate_of_a_root_proves_nothing():
    estimate, x = np.array([[1.5]]), 2.0
    ball = BALLS.root(estimate, lambda r: r * r - x, lambda r: 2.0 * r)
    assert np.isinf(ball.rad).all()
    with pytest.raises(ArithmeticError), digits(40):
        INTERVALS.root(estimate, lambda r: r * r - x, lambda r: 2.0 * r)


def test_all_arithmetics_agree_with_the_score_object():
    rng = np.random.default_rng(4)
    x, b = signed(rng, 50), np.full((50, 1), 0.8)
    expected = SSA(n=1.5, b=0.8).transform(torch.tensor(x), n=torch.tensor(1.5).double(), b=torch.tensor(b)).numpy()
    for xp in (BALLS, Gradients()):
        found = xp.ssa(xp.lift(x), xp.lift(np.full((50, 1), 1.5)), xp.lift(b))
        np.testing.assert_allclose(found.mid if isinstance(found, Ball) else found.numpy(), expected, rtol=1e-14)
    with digits(40):
        found = INTERVALS.ssa(INTERVALS.lift(x), 1.5, INTERVALS.lift(b))
    np.testing.assert_allclose([float(interval.mid) for interval in found[:, 0]], expected[:, 0], rtol=1e-14)


def test_the_derivative_of_a_root_is_that_of_the_implicit_function():
    x = torch.tensor([[2.0]], dtype=torch.float64, requires_grad=True)
    root = Gradients().root(np.sqrt([[2.0]]), lambda r: r * r - x, lambda r: 2.0 * r)
    (slope,) = torch.autograd.grad(root.sum(), x)
    assert slope.item() == pytest.approx(0.5 / np.sqrt(2), rel=1e-12)
