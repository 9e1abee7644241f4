"""SSA: two independent implementations, exact derivatives everywhere, and the mistakes others have made with it."""

import mpmath
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from phasekit.errors import InputError
from phasekit.scores import SSA, Softmax, elementwise_rows, get_score, parameter_groups
from phasekit.scores import blocks as blocks_module
from phasekit.scores.masks import read_mask

SCORE = SSA()
F64 = torch.float64


def random(*shape, seed=0, scale=1.0, dtype=F64):
    return (scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)).to(dtype)


def per_head(heads, seed=0):
    """Values of n and b for each head, as leaves."""
    draw = torch.rand(2, heads, 1, 1, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return {"n": (1 + 2 * draw[0]).requires_grad_(), "b": (0.2 + draw[1]).requires_grad_()}


def power_form(row, n, b):
    """w(x) = (1 + b|x|)^(n sgn x), normalised, in 50 digits: the definition, no logarithm and no softmax."""
    with mpmath.workdps(50):
        n, b = mpmath.mpf(n), mpmath.mpf(b)
        weights = [(1 + b * abs(mpmath.mpf(x))) ** (n * mpmath.sign(x)) for x in row]
        return [float(w / mpmath.fsum(weights)) for w in weights]


@pytest.mark.parametrize(("n", "b"), [(1.0, 1.0), (1.5, 0.8), (2.0, 0.01), (5.0, 30.0)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_power_form_in_50_digits_agrees(n, b, scale):
    z = random(4, 9, seed=3, scale=scale)
    z[0, 0] = z[1, 3] = 0
    weights = SSA(n=n, b=b).rows(z)
    for row, expected in zip(weights, z.tolist(), strict=True):
        assert row.tolist() == pytest.approx(power_form(expected, n, b), rel=1e-12, abs=0)


def test_the_exponential_limit_is_softmax():
    """b = 1/m, n = m: |t(x) - x| ≤ x²/(2m), so weights agree within exp(±x²/m)."""
    z, m = random(20, 9), 1000.0
    ratio = SSA(n=m, b=1 / m).rows(z) / Softmax().rows(z)
    bound = z.square().max() / m
    assert ratio.log().abs().max() < bound
    assert ratio.log().abs().max() > bound / 50  # and it isn't softmax itself


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_both_orders(masked):
    z = random(2, 2, 3, 4)
    z[0, 0, 0, 0] = z[1, 1, 2, 3] = 0  # second derivatives jump at 0; finite differences see their mean, as we return
    keep = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=torch.bool) if masked else None
    values = per_head(2)
    inputs = (z.requires_grad_(), values["n"], values["b"])

    def weights(z, n, b):
        return SCORE.rows(z, keep, {"n": n, "b": b})

    assert gradcheck(weights, inputs, check_forward_ad=True)
    assert gradgradcheck(weights, inputs, check_fwd_over_rev=True)


def test_third_derivatives_follow_from_the_second():
    z = random(1, 4).requires_grad_()
    values = per_head(1)
    n, b = values["n"], values["b"]

    def slope(z, n, b):
        out = SCORE.rows(z, None, {"n": n[0], "b": b[0]}).square().sum()
        return torch.autograd.grad(out, (z, n, b), create_graph=True)

    assert gradgradcheck(lambda *inputs: torch.cat([g.flatten() for g in slope(*inputs)]), (z, n, b))


def test_the_lean_kernels_are_the_formulas():
    z, upstream = random(3, 5, 6), random(3, 5, 6, seed=1)
    z[0, 0, 0] = 0
    values = {name: value.detach() for name, value in per_head(3).items()}
    assert torch.allclose(SCORE.transform_into(z, torch.empty_like(z), **values), SCORE.transform(z, **values))
    gradient, sums = SCORE.pull_back_over(z, upstream.clone(), ("n", "b"), **values)
    assert torch.allclose(gradient, upstream * SCORE.slope(z, **values))
    for name, slope in SCORE.parameter_slopes(z, **values).items():
        assert torch.allclose(sums[name], (upstream * slope).sum(dim=(1, 2), keepdim=True))


# Sizes above and below one block, and a block that ends within a matrix.
@pytest.mark.parametrize("block", [8, 64, 200, 10**6])
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "bias"])
def test_blocks_give_what_plain_operations_give(block, mask, monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK", block)
    z = random(3, 2, 13, 17, seed=1, scale=3.0).requires_grad_()
    values = per_head(2)
    bias = random(3, 1, 13, 17, seed=2).requires_grad_()
    shown = {
        "none": None,
        "causal": torch.ones(13, 17, dtype=torch.bool).tril(2),
        "padding": torch.arange(17) < torch.tensor([17, 3, 0])[:, None, None, None],  # the last sequence is empty
        "bias": bias.masked_fill(torch.arange(17) == 4, -torch.inf),
    }[mask]
    upstream = random(3, 2, 13, 17, seed=3)
    inputs = [z, *values.values()] + ([bias] if mask == "bias" else [])
    found = []
    for rows in (elementwise_rows.elementwise_rows, elementwise_rows.plain_rows):
        weights = rows(SCORE, z, read_mask(shown, z), values)
        found.append((weights, *torch.autograd.grad(weights, inputs, upstream, retain_graph=True)))
    for lean, plain in zip(*found, strict=True):
        assert torch.allclose(lean, plain, rtol=1e-12, atol=1e-14)


def test_repeated_backward_passes_agree_though_logits_are_overwritten():
    q, k = random(2, 3, 5, 4).requires_grad_(), random(2, 3, 6, 4, seed=1).requires_grad_()
    values = per_head(3)
    inputs = (q, k, *values.values())
    weights = SCORE.attention_weights(q, k, parameters=values)
    upstream = random(2, 3, 5, 6, seed=2)
    logits = (q / 2) @ k.mT
    expected = torch.autograd.grad(SCORE.rows(logits, None, values), inputs, upstream)
    for graph in (False, False, True, False):
        found = torch.autograd.grad(weights, inputs, upstream, retain_graph=True, create_graph=graph)
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)
    assert gradgradcheck(lambda *inputs: SCORE.attention_weights(*inputs), (q[:1, :1], k[:1, :1]))


def test_vmap_of_gradients_over_every_argument():
    z, keep = random(4, 2, 3, 5), torch.rand(3, 5, generator=torch.Generator().manual_seed(0)) > 0.3
    n, b = 1 + torch.rand(4, 2, 1, 1, dtype=F64), torch.rand(2, 1, 1, dtype=F64)
    bias = random(4, 1, 1, 5, seed=4).masked_fill(torch.arange(5) == 2, -torch.inf)

    def loss(z, n, b, mask):
        return SCORE.rows(z, mask, {"n": n, "b": b}).pow(3).sum()

    for mask, dim in ((keep, None), (bias, 0)):
        gradient = torch.func.grad(loss, argnums=(0, 1, 2))
        batched = torch.func.vmap(gradient, in_dims=(0, 0, None, dim))(z, n, b, mask)
        for i in range(4):
            one = gradient(z[i], n[i], b, mask if dim is None else mask[i])
            for many, single in zip(batched, one, strict=True):
                assert torch.allclose(many[i], single, rtol=1e-12, atol=1e-14)
    second = torch.func.vmap(
        torch.func.grad(lambda *a: torch.func.grad(loss, 1)(*a).sum(), 1), in_dims=(0, 0, None, None)
    )
    assert second(z, n, b, keep).shape == n.shape


def test_hessian_by_forward_over_reverse():
    z = random(1, 4)
    loss = lambda z: SCORE.rows(z).pow(3).sum()  # noqa: E731
    by_functions = torch.func.hessian(loss)(z)
    assert torch.allclose(by_functions, torch.autograd.functional.hessian(loss, z), rtol=1e-12, atol=1e-14)


# What torch itself does when its compiler is imported.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("backend", "masked"), [("inductor", False), ("aot_eager", True)])
def test_compiled_equals_eager(backend, masked):
    """In one graph. The real compiler runs on the smaller function: C++ takes its time."""
    z = random(2, 3, 5, 7, dtype=torch.float32)
    module = SCORE.make_parameters(3)
    keep = torch.ones(5, 7, dtype=torch.bool).tril() if masked else None
    if keep is not None:
        keep[1] = False

    def loss(z):
        return SCORE.rows(z, keep, module()).square().sum()

    found = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend=backend)):
        leaf = z.clone().requires_grad_()
        value = function(leaf)
        found.append((value, *torch.autograd.grad(value, [leaf, *module.parameters()])))
    for eager, compiled in zip(*found, strict=True):
        assert torch.allclose(eager, compiled, rtol=1e-5, atol=1e-6)


# The mistakes that people made who implemented SSA, one test each.


def test_hazard_1_masks_act_behind_the_transform():
    """1023 hidden keys and a visible one at logit -20: masking the logits with -1e4 leaks 9 % of the mass."""
    z = torch.full((1, 1024), 0.0, dtype=F64)
    z[0, 0] = -20
    keep = torch.arange(1024) == 0
    leaky = SCORE.rows(z.masked_fill(~keep, -1e4))
    hidden, visible = 1023 * (1 + 0.8e4) ** -1.5, (1 + 0.8 * 20) ** -1.5
    assert leaky[0, 1:].sum() == pytest.approx(hidden / (hidden + visible), rel=1e-12)
    assert leaky[0, 1:].sum() > 0.09
    z.requires_grad_()
    values = {name: torch.full((1, 1), value, dtype=F64).requires_grad_() for name, value in (("n", 1.5), ("b", 0.8))}
    weights = SCORE.rows(z, keep, values)
    assert weights[0].tolist() == [1.0] + [0.0] * 1023
    for gradient in torch.autograd.grad(weights.square().sum(), (z, *values.values())):
        assert gradient.isfinite().all()


def test_hazard_2_the_slope_at_zero():
    """dp_0/dz_0 = p(1 - p) nb at z = 0; the formula as written gives 0 under automatic differentiation."""
    z = torch.zeros(1, 2, dtype=F64).requires_grad_()
    (gradient,) = torch.autograd.grad(SCORE.rows(z)[0, 0], z)
    assert gradient[0].tolist() == pytest.approx([0.25 * 1.2, -0.25 * 1.2], rel=1e-14)
    plain = elementwise_rows.plain_rows(SCORE, z, read_mask(None, z), SCORE.values(None, z))
    assert torch.allclose(torch.autograd.grad(plain[0, 0], z)[0], gradient, rtol=1e-14, atol=0)
    naive = (1.5 * z.sign() * torch.log1p(0.8 * z.abs())).softmax(-1)
    assert (torch.autograd.grad(naive[0, 0], z)[0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_hazard_3_large_logits_in_reduced_precision(dtype):
    z = torch.tensor([[3e4, 1.5e4, -3e4, 6e4]], dtype=dtype)
    b, n = 0.8, 3.0
    power = (1 + b * z.abs()) ** (n * z.sign())
    if dtype == torch.float16:
        assert not (power / power.sum()).isfinite().all()
    weights = SSA(n=n, b=b).rows(z)
    assert weights.dtype == dtype
    assert weights[0].tolist() == pytest.approx(power_form(z[0].tolist(), n, b), abs=2 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("path", ["rows", "attention_weights"])
def test_hazard_4_the_parameters_take_part(path):
    """A path that quietly runs softmax gives n and b no gradient, and ignores their values."""
    q, k = random(2, 3, 5, 4), random(2, 3, 6, 4, seed=1)

    def weights(values):
        if path == "rows":
            return SCORE.rows((q / 2) @ k.mT, None, values)
        return SCORE.attention_weights(q, k, parameters=values)

    values = per_head(3)
    base = weights(values)
    for gradient in torch.autograd.grad(base.square().sum(), values.values()):
        assert (gradient.abs() > 1e-3).all()
    for name in values:
        changed = weights({**values, name: values[name] * 1.1})
        assert ((changed - base).abs().amax(dim=(0, 2, 3)) > 1e-3).all()
    assert (base - Softmax().attention_weights(q, k)).abs().max() > 1e-2


def test_hazard_5_learned_n_stays_above_one_and_b_above_zero():
    module = SCORE.make_parameters(4)
    start = module()
    assert torch.allclose(start["n"], torch.tensor(1.5))
    assert torch.allclose(start["b"], torch.tensor(0.8))
    for raw in (-80.0, -5.0, 0.0, 50.0):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(raw)
        values = module()
        assert (values["n"] >= 1).all()
        assert (values["b"] > 0).all()
    order = torch.tensor([[-3.0, -1.0, 0.0, 0.5, 4.0]])
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(-3.0)
    assert (SCORE.rows(order.expand(4, 1, 5), None, module()).diff(dim=-1) > 0).all()
    with pytest.raises(InputError, match="must start above"):
        SSA(n=1).make_parameters(2)


def test_hazard_6_parameters_stay_in_float32_and_out_of_weight_decay():
    """Steps of 1e-4 on a raw value near 0.5 vanish in bfloat16, whose grid there is 2⁻⁹ ≈ 2e-3."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.projection = torch.nn.Linear(4, 4)
            self.score_parameters = SCORE.make_parameters(2)

    model = Layer().to(torch.bfloat16)
    assert model.projection.weight.dtype == torch.bfloat16
    before = {name: value.detach().clone() for name, value in model.score_parameters().items()}
    assert all(parameter.dtype == torch.float32 for parameter in model.score_parameters.parameters())
    groups = parameter_groups(model, weight_decay=0.1)
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert len(groups[0]["params"]) == 2
    assert {id(p) for p in groups[1]["params"]} == {id(p) for p in model.score_parameters.parameters()}
    optimiser = torch.optim.AdamW(groups, lr=1e-4)
    z = random(2, 3, 5, dtype=torch.bfloat16)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()  # without a gradient only decay could move them
    assert all(torch.equal(value, before[name]) for name, value in model.score_parameters().items())
    optimiser.zero_grad()
    SCORE.rows(z, None, model.score_parameters())[..., 0].sum().backward()
    optimiser.step()
    assert all((value != before[name]).all() for name, value in model.score_parameters().items())


@pytest.mark.parametrize("keys", [1, 127, 129])
def test_hazard_7_lengths_strides_and_shared_keys(keys):
    """Lengths that are no multiple of 128, (batch, length, heads, dim) layout, three query heads for a key head."""
    q, k = random(2, 5, 6, 4).transpose(1, 2), random(2, keys, 2, 4, seed=1).transpose(1, 2)
    assert not q.is_contiguous()
    shared = k.repeat_interleave(3, dim=1)
    values = per_head(6)
    keep = torch.arange(keys) < torch.tensor([keys, keys // 2])[:, None, None, None]
    weights = SCORE.attention_weights(q, shared, mask=keep, parameters=values)
    for batch in range(2):
        visible = int(keep[batch].sum())
        for head in range(6):
            logits = q[batch, head] @ k[batch, head // 3, :visible].T / 2
            own = {name: value[head] for name, value in values.items()}
            expected = SCORE.rows(logits, None, own) if visible else logits
            assert torch.allclose(weights[batch, head, :, :visible], expected, rtol=0, atol=1e-13)
            assert (weights[batch, head, :, visible:] == 0).all()


def test_hazard_8_dropout_on_the_weights_keeps_the_mean():
    """Dropout acts on the weights: its mean is the attention without it. Dropping logits would set them to 0."""
    z, values = random(1, 6, 5), random(1, 5, 3, seed=1)
    weights = SCORE.rows(z)
    torch.manual_seed(0)
    draws = torch.nn.functional.dropout(weights.expand(20_000, 6, 5), 0.25) @ values
    error = draws.std(dim=0) / draws.shape[0] ** 0.5
    assert ((draws.mean(dim=0) - weights @ values).abs() < 4.5 * error).all()
    dropped_logits = SCORE.rows(torch.nn.functional.dropout(z.expand(20_000, 6, 5), 0.25)) @ values
    error = dropped_logits.std(dim=0) / draws.shape[0] ** 0.5
    assert ((dropped_logits.mean(dim=0) - weights @ values).abs() > 4.5 * error).any()


def test_not_invariant_under_a_shift():
    z = random(3, 5)
    assert (SCORE.rows(z + 1) - SCORE.rows(z)).abs().max() > 1e-2
    assert torch.allclose(get_score("softmax").rows(z + 1), get_score("softmax").rows(z), rtol=0, atol=1e-15)
