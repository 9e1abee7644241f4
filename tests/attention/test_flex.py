"""FlexAttention's forward pass with our gradients. On a CPU one compiled case (a compilation takes ten seconds)."""

import shutil

import pytest
import torch

from phasekit.attention import scored_attention
from phasekit.scores import SSA


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="torch has no FlexAttention for such a CPU"
)
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch 2.13 imports its own deprecated parts
def test_flex_agrees_with_the_definition(draw, run):
    p = draw(heads=4, shared=2, queries=129, keys=129, dim=16, dtype=torch.float32)
    keep = torch.rand(2, 1, 129, 129, generator=p.generator) < 0.7
    keep[0, 0, 5] = False
    arguments = {"attn_mask": keep, "is_causal": True, "enable_gqa": True}
    output, gradients = run(p, "flex", **arguments)
    wanted, wanted_gradients = run(p, "explicit", **arguments)
    assert (output[0, :, 5] == 0).all()
    torch.testing.assert_close(output, wanted, rtol=1e-5, atol=1e-5)
    for got, want in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    moved = scored_attention(
        p.q, p.k, p.v, score=SSA(), parameters={"n": p.n * 1.5, "b": p.b}, path="flex", **arguments
    )
    assert (moved - output).abs().amax(dim=(0, 2, 3)).min() > 1e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("path", ["lean", "flex"])
@pytest.mark.parametrize("length", [1, 127, 128, 129, 1025])
@pytest.mark.parametrize("causal", [False, True])
def test_paths_on_a_gpu(draw, run, path, length, causal):
    p = draw(heads=4, shared=2, queries=length, keys=length, dim=32, dtype=torch.float32)
    wanted, wanted_gradients = run(p, "explicit", is_causal=causal, enable_gqa=True)
    for name in ("q", "k", "v", "n", "b"):
        setattr(p, name, getattr(p, name).detach().cuda().requires_grad_())
    p.all, p.upstream = (p.q, p.k, p.v, p.n, p.b), p.upstream.cuda()
    output, gradients = run(p, path, is_causal=causal, enable_gqa=True)
    torch.testing.assert_close(output.cpu(), wanted, rtol=1e-2, atol=2e-3)  # TF32 products, where they are allowed
    for got, want in zip(gradients, wanted_gradients, strict=True):
        assert (got.cpu() - want).norm() < 1e-2 * want.norm()
