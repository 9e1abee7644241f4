"""Attention written down once more, in another form and in float64: the judge of every path."""

from types import SimpleNamespace

import pytest
import torch

from phasekit.attention import scored_attention
from phasekit.scores import SSA


def ssa_by_powers(q, k, v, n, b, keep=None, bias=None, scale=None):
    """Σ_j w_j v_j / Σ_j w_j with w = (1 + b|z|)^(n sgn z)·exp(bias) on visible keys; zero where nothing is visible."""
    sharing = q.shape[-3] // k.shape[-3]
    k, v = (torch.stack([x] * sharing, dim=-3).flatten(-4, -3) for x in (k, v))
    z = torch.einsum("...qd,...kd->...qk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = torch.where(z > 0, (1 + b * z.abs()) ** n, (1 + b * z.abs()) ** -n)
    if bias is not None:
        weights = weights * bias.exp()
    if keep is not None:
        weights = weights * keep
    total = weights.sum(dim=-1, keepdim=True)
    return weights / torch.where(total == 0, 1, total) @ v


@pytest.fixture
def by_powers():
    return ssa_by_powers


@pytest.fixture
def draw():
    """Draw a problem with one learned n and b for each head, as float64 leaves that require gradients."""

    def make(batch=2, heads=4, queries=5, keys=7, dim=8, shared=None, seed=0, dtype=torch.float64):
        generator = torch.Generator().manual_seed(seed)

        def leaf(*shape):
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

        shared = heads if shared is None else shared
        q, k, v = leaf(batch, heads, queries, dim), leaf(batch, shared, keys, dim), leaf(batch, shared, keys, dim)
        n = (1.1 + torch.rand(heads, 1, 1, generator=generator, dtype=torch.float64)).requires_grad_()
        b = (0.3 + torch.rand(heads, 1, 1, generator=generator, dtype=torch.float64)).requires_grad_()
        upstream = torch.randn(batch, heads, queries, dim, generator=generator, dtype=torch.float64)
        return SimpleNamespace(q=q, k=k, v=v, n=n, b=b, upstream=upstream, all=(q, k, v, n, b), generator=generator)

    return make


@pytest.fixture
def run():
    """Run a path; return its output and the gradients of everything that requires them."""

    def attention(p, path, wrt=None, **arguments):
        output = scored_attention(p.q, p.k, p.v, score=SSA(), parameters={"n": p.n, "b": p.b}, path=path, **arguments)
        return output, torch.autograd.grad(output, wrt or p.all, p.upstream.to(output.dtype))

    return attention
