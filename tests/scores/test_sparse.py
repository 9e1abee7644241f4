"""Sparsemax and α-entmax: the package's values and gradients, its limits, and what it can't do."""

import entmax
import mpmath
import pytest
import torch

from phasekit.scores import Entmax, Softmax, Sparsemax
from phasekit.scores.sparse_rows import NEAR_SOFTMAX

F64 = torch.float64
PACKAGE = {
    "sparsemax": (Sparsemax(), lambda z: entmax.sparsemax(z, -1)),
    "entmax 1.5": (Entmax(alpha=1.5), lambda z: entmax.entmax15(z, -1)),
    "entmax 1.5 by bisection": (Entmax(alpha=1.5), lambda z: entmax.entmax_bisect(z, 1.5, -1)),
    "entmax 2": (Entmax(alpha=2), lambda z: entmax.sparsemax(z, -1)),
    "entmax 1.2": (Entmax(alpha=1.2), lambda z: entmax.entmax_bisect(z, 1.2, -1)),
    "entmax 3": (Entmax(alpha=3), lambda z: entmax.entmax_bisect(z, 3, -1)),
}


def random(*shape, seed=0, scale=1.0, dtype=F64):
    return (scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)).to(dtype)


def entmax_in_50_digits(row, alpha):
    """Solve Σ [(α-1)z - τ]₊^{1/(α-1)} = 1 by bisection in 50 digits."""
    with mpmath.workdps(50):
        excess = mpmath.mpf(alpha) - 1
        scaled = [excess * mpmath.mpf(x) for x in row]
        power = lambda tau: [max(x - tau, mpmath.mpf(0)) ** (1 / excess) for x in scaled]  # noqa: E731
        low, high = max(scaled) - 1, max(scaled)
        for _ in range(180):
            middle = (low + high) / 2
            low, high = (middle, high) if mpmath.fsum(power(middle)) >= 1 else (low, middle)
        return [float(p) for p in power(low)]


@pytest.mark.parametrize("name", PACKAGE)
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_values_and_gradients_are_the_packages(name, scale):
    score, package = PACKAGE[name]
    z = random(2, 3, 20, 11, scale=scale).requires_grad_()
    upstream = random(2, 3, 20, 11, seed=1)
    ours, theirs = score.rows(z), package(z)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-10)
    gradients = [torch.autograd.grad(weights, z, upstream)[0] for weights in (ours, theirs)]
    assert torch.allclose(*gradients, rtol=0, atol=1e-10)


@pytest.mark.parametrize("masked", [False, True])
def test_learned_alpha_has_the_packages_gradient(masked):
    alpha = torch.tensor([1.05, 1.5, 2.5], dtype=F64)[:, None, None].requires_grad_()
    z, upstream = random(2, 3, 6, 8).requires_grad_(), random(2, 3, 6, 8, seed=1)
    keep = torch.arange(8) < 6 if masked else torch.ones(8, dtype=torch.bool)
    ours = Entmax().rows(z, keep, {"alpha": alpha})
    theirs = entmax.entmax_bisect(z.masked_fill(~keep, -torch.inf), alpha, -1)
    # The package expands alpha itself and returns one gradient a row.
    ours_gradient = torch.autograd.grad(ours, (z, alpha), upstream)
    theirs_gradient = torch.autograd.grad(theirs, (z, alpha), upstream)
    for one, other in zip(ours_gradient, theirs_gradient, strict=True):
        assert torch.allclose(one, other.sum_to_size(one.shape), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("excess", [0.0, 1e-9, 1e-6, 0.99 * NEAR_SOFTMAX, 1.01 * NEAR_SOFTMAX, 1e-3, 0.1])
def test_alpha_near_one(excess):
    """The package gives NaN at 1 and loses digits near it; softmax is the limit, and both sides of the switch agree."""
    z = random(5, 7, scale=3.0)
    alpha = torch.full((1, 1), 1 + excess, dtype=F64).requires_grad_()
    upstream = random(5, 7, seed=1)
    for weights in (Entmax(alpha=1 + excess).rows(z), Entmax().rows(z, None, {"alpha": alpha})):
        if excess == 0:
            assert torch.allclose(weights, Softmax().rows(z), rtol=0, atol=1e-15)
        else:
            exact = torch.tensor([entmax_in_50_digits(row, 1 + excess) for row in z.tolist()], dtype=F64)
            assert torch.allclose(weights, exact, rtol=0, atol=3e-12)
    (gradient,) = torch.autograd.grad(weights, alpha, upstream)
    step = 1e-5
    difference = [
        sum(
            p * g
            for row, out in zip(z.tolist(), upstream.tolist(), strict=True)
            for p, g in zip(entmax_in_50_digits(row, 1 + excess + move), out, strict=True)
        )
        for move in (step, 2 * step)
    ]
    here = float((weights.detach() * upstream).sum())
    forward = (4 * difference[0] - difference[1] - 3 * here) / (2 * step)  # one-sided: alpha can't go below 1
    assert float(gradient) == pytest.approx(forward, abs=2e-6)


def test_heads_on_both_sides_of_the_switch():
    z = random(2, 3, 4, 6)
    alpha = torch.tensor([1.0, 1 + NEAR_SOFTMAX / 2, 1.7], dtype=F64)[:, None, None].requires_grad_()
    weights = Entmax().rows(z, None, {"alpha": alpha})
    for head in range(3):
        own = Entmax(alpha=float(alpha[head].detach())).rows(z[:, head])
        assert torch.allclose(weights[:, head], own, rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(weights.square().sum(), alpha)
    assert gradient.isfinite().all()
    assert (gradient.abs() > 1e-3).all()


@pytest.mark.parametrize("alpha", [1.0, 1 + NEAR_SOFTMAX / 2, 1.2, 1.5, 2.0])
def test_blind_rows_where_the_package_gives_nan(alpha):
    z, keep = random(3, 4).requires_grad_(), torch.tensor([[True] * 4, [False] * 4, [False, True, False, False]])
    weights = Entmax(alpha=alpha).rows(z, keep)
    assert entmax.entmax_bisect(torch.full((1, 4), -torch.inf), 1.5, -1).isnan().all()
    assert weights[1].tolist() == [0.0] * 4
    assert weights[2].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert torch.autograd.grad(weights.square().sum(), z)[0].isfinite().all()


@pytest.mark.parametrize("alpha", [1, 1.00001, 1.2, 1.5, 2, torch.tensor([[[1.0]], [[1.7]]], dtype=F64)])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_rows_without_a_finite_maximum_are_nan_and_leave_the_others_alone(alpha, wrong):
    z = random(2, 4, 5)
    spoilt = z.clone()
    spoilt[:, 1, 2], spoilt[:, 3] = wrong, -torch.inf
    learned = isinstance(alpha, torch.Tensor)
    score, parameters = (Entmax(), {"alpha": alpha}) if learned else (Entmax(alpha=alpha), None)
    weights = score.rows(spoilt, parameters=parameters)
    assert weights[:, [1, 3]].isnan().all()
    torch.testing.assert_close(weights[:, [0, 2]], score.rows(z, parameters=parameters)[:, [0, 2]])


def test_float32_is_computed_well_near_one():
    """Bisection in float32 would have errors of 6e-8/(α-1) in the weights, and their square in the gradient of α."""
    single, alpha32 = random(20, 7, scale=3.0).float(), torch.full((1, 1), 1.003).requires_grad_()
    z, alpha = single.double(), alpha32.detach().double().requires_grad_()
    exact = Entmax().rows(z, None, {"alpha": alpha})
    weights = Entmax().rows(single, None, {"alpha": alpha32})
    assert (weights - exact).abs().max() < 1e-6
    upstream = random(20, 7, seed=1)
    (expected,) = torch.autograd.grad(exact, alpha, upstream)
    (found,) = torch.autograd.grad(weights, alpha32, upstream.float())
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("alpha", [2.5, 6.0, 10.0, 50.0, 300.0])
def test_large_alpha(alpha):
    """Bisection for τ is off by 0.02 at α = 10, 0.33 at 50. Weights obey (p_i^ε − p_j^ε)/ε = z_i − z_j exactly."""
    z = torch.cat([random(10, 8, seed=k, scale=scale) for k, scale in enumerate((1e-3, 0.03, 0.1, 1.0, 10.0))])
    z[5, 3], z[7] = z[5].max(), 0.0
    weights = Entmax(alpha=alpha).rows(z)
    learned = Entmax().rows(z, None, {"alpha": torch.full((1, 1), alpha, dtype=F64)})
    torch.testing.assert_close(learned, weights, rtol=0, atol=1e-15)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(50, dtype=F64), rtol=0, atol=1e-15)
    torch.testing.assert_close(weights[7], torch.full((8,), 0.125, dtype=F64), rtol=0, atol=1e-15)
    assert (weights.gather(-1, z.argsort(dim=-1)).diff(dim=-1) >= 0).all()
    with mpmath.workdps(50):
        excess = mpmath.mpf(alpha) - 1
        for row, p in zip(z.tolist(), weights.tolist(), strict=True):
            best = max(range(8), key=lambda i: row[i])
            for i in range(8):
                gap = mpmath.mpf(row[best]) - mpmath.mpf(row[i])
                found = (mpmath.mpf(p[best]) ** excess - mpmath.mpf(p[i]) ** excess) / excess
                assert abs(found - gap) < 1e-15 if p[i] else found <= gap + 1e-15


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [2.5, 10.0, 50.0])
def test_gradients_at_large_alpha(alpha):
    z, value = random(10, 6).requires_grad_(), torch.full((1, 1), alpha, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, value: Entmax().rows(z, None, {"alpha": value}), (z, value))
    close = random(20, 6, scale=1e-6).requires_grad_()  # slopes up to 6^(α−2)
    for weights in (Entmax(alpha=alpha).rows(close), Entmax().rows(close, None, {"alpha": value})):
        gradients = torch.autograd.grad(weights.square().sum(), close)
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_heads_below_and_above_the_switch_to_weights():
    z, alpha = random(2, 3, 4, 6), torch.tensor([1.5, 2.0, 30.0], dtype=F64)[:, None, None]
    weights = Entmax().rows(z, None, {"alpha": alpha})
    for head, own in enumerate((1.5, 2.0, 30.0)):
        torch.testing.assert_close(weights[:, head], Entmax(alpha=own).rows(z[:, head]), rtol=0, atol=1e-12)


def test_two_level_rows_of_entmax_for_any_alpha():
    """The gap as a function of the weight is the inverse of the row map."""
    for alpha in (1.0, 1.3, 1.5, 2.0, 2.4):
        score = Entmax(alpha=alpha)
        for weight, m in ((0.3, 5), (0.6, 4), (0.9, 9)):
            gap = float(score.symbolic_gap(weight, m))
            row = score.rows(torch.tensor([[gap] + [0.0] * (m - 1)], dtype=F64))
            assert float(row[0, 0]) == pytest.approx(weight, abs=1e-12)


def test_vmap_over_alpha():
    z, alpha = random(4, 3, 2, 5), 1.2 + torch.rand(4, 3, 1, 1, generator=torch.Generator().manual_seed(0), dtype=F64)
    loss = lambda z, alpha: Entmax().rows(z, None, {"alpha": alpha}).pow(3).sum()  # noqa: E731
    gradient = torch.func.grad(loss, argnums=(0, 1))
    for in_dims in ((0, 0), (0, None), (None, 0)):
        arguments = [x if dim == 0 else x[0] for x, dim in zip((z, alpha), in_dims, strict=True)]
        batched = torch.func.vmap(gradient, in_dims=in_dims)(*arguments)
        for i in range(4):
            one = gradient(*(x[i] if dim == 0 else x for x, dim in zip(arguments, in_dims, strict=True)))
            for many, single in zip(batched, one, strict=True):
                assert torch.allclose(many[i], single, rtol=0, atol=1e-13)
