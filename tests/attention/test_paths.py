"""Every path gives the output and the gradients of the definition, for every length, mask and layout."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from phasekit.attention import choose_path, scored_attention
from phasekit.attention.lean import passes as lean
from phasekit.errors import InputError
from phasekit.scores import SSA, Entmax, Softmax, TemperatureSoftmax, get_score, names
from phasekit.scores.elementwise import ElementwiseSoftmax

PATHS = ("explicit", "lean")


def close(got, wanted, rtol=1e-10, atol=1e-11):
    torch.testing.assert_close(got, wanted, rtol=rtol, atol=atol)


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut into so many blocks that every loop runs several times, ends ragged included."""
    monkeypatch.setattr(lean, "CPU_BLOCK", 64)
    monkeypatch.setattr(lean, "KEY_BLOCK", 16)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length", [1, 127, 128, 129, 1025])
def test_lengths(draw, run, by_powers, path, length):
    p = draw(batch=1, heads=2, queries=length, keys=length, dim=4)
    output, gradients = run(p, path)
    wanted = by_powers(*p.all)
    close(output, wanted)
    for got, want in zip(gradients, torch.autograd.grad(wanted, p.all, p.upstream), strict=True):
        close(got, want, rtol=1e-9, atol=1e-10)


CASES = {
    "plain": {},
    "one key": {"keys": 1},
    "one query": {"queries": 1, "keys": 50},
    "grouped heads": {"heads": 6, "shared": 2},
    "one head for all": {"heads": 3, "shared": 1},
    "several matrices in a block": {"heads": 6, "shared": 2, "queries": 4, "keys": 4},
    "long": {"queries": 37, "keys": 53},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES)
@pytest.mark.parametrize("mask", ["none", "causal", "causal from 3", "bool", "padding", "added", "added and causal"])
def test_masks(draw, run, by_powers, small_blocks, path, sizes, mask):
    p = draw(**sizes)
    heads, queries, keys = p.q.shape[1], p.q.shape[2], p.k.shape[2]
    arguments, keep, bias = {"enable_gqa": True}, None, None
    if "causal" in mask:
        arguments |= {"is_causal": True, "offset": 3 if mask.endswith("3") else 0}
        keep = torch.arange(keys) <= torch.arange(queries)[:, None] + arguments["offset"]
    if mask == "bool":
        keep = torch.rand(2, 1, queries, keys, generator=p.generator) < 0.4
        keep[0, :, queries // 2] = False  # a row that sees nothing
        arguments["attn_mask"] = keep
    if mask == "padding":
        keep = torch.arange(keys) < torch.tensor([keys, max(1, keys // 3)])[:, None, None, None]
        arguments["attn_mask"] = keep
    wrt = p.all
    if mask.startswith("added"):
        bias = torch.randn(heads, queries, keys, generator=p.generator, dtype=torch.float64, requires_grad=True)
        arguments["attn_mask"] = bias
        wrt = (*p.all, bias)
    output, gradients = run(p, path, wrt, **arguments)
    wanted = by_powers(*p.all, keep=keep, bias=bias)
    close(output, wanted)
    for got, want in zip(gradients, torch.autograd.grad(wanted, wrt, p.upstream), strict=True):
        close(got, want)


@pytest.mark.parametrize("shape", [(7,), (5, 1), (2, 1, 1, 7), (1, 4, 5, 7), (2, 4, 1, 7), (2, 1, 5, 7)])
def test_additive_masks_of_any_shape_can_be_learned(draw, run, small_blocks, shape):
    p = draw()
    bias = torch.randn(shape, generator=p.generator, dtype=torch.float64, requires_grad=True)
    explicit = run(p, "explicit", (*p.all, bias), attn_mask=bias)
    lean_run = run(p, "lean", (*p.all, bias), attn_mask=bias)
    close(lean_run[0], explicit[0])
    for got, want in zip(lean_run[1], explicit[1], strict=True):
        close(got, want)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("hidden", ["-inf", "lowest", "0.6 lowest", "half", "bfloat16", "float64", "bool"])
def test_rows_that_see_nothing_are_zero_with_finite_gradients(draw, run, path, hidden):
    p = draw(dtype=torch.float32)
    keep = torch.rand(5, 7, generator=p.generator) < 0.5
    keep[1] = keep[4] = False
    mask = keep
    if hidden != "bool":
        dtype = getattr(torch, hidden, torch.float32)
        number = {"-inf": -torch.inf, "float64": -1e300}.get(hidden, torch.finfo(dtype).min)
        mask = torch.zeros(5, 7, dtype=dtype).masked_fill(~keep, number * 0.6 if hidden.startswith("0.6") else number)
    output, gradients = run(p, path, attn_mask=mask)
    assert (output[:, :, [1, 4]] == 0).all()
    assert (output[:, :, [0, 2, 3]] != 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][:, :, [1, 4]] == 0).all()
    bool_output, bool_gradients = run(p, "explicit", attn_mask=keep)
    close(output, bool_output, rtol=1e-5, atol=1e-6)
    for got, want in zip(gradients, bool_gradients, strict=True):
        close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("path", PATHS)
def test_a_hidden_key_has_no_weight_however_large_its_logit(draw, run, path):
    """Hazard 1: a mask in front of the transform leaks (1 + 1e4 b)^-n to every hidden key."""
    p = draw(batch=1, heads=1, queries=1, keys=1024, dtype=torch.float32)
    with torch.no_grad():
        p.k[:, :, 0] = -20 * p.q[:, :, 0] / p.q.pow(2).sum() * 8**0.5  # the visible key has logit -20
        p.k[:, :, 1:] = 1e4 * p.q[:, :, :1]
    mask = torch.full((1024,), -1e4)
    mask[0] = 0
    for hide in (mask, mask == 0):
        output, gradients = run(p, path, attn_mask=hide)
        close(output, p.v[:, :, :1].detach(), rtol=1e-6, atol=1e-6)
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_gradients_by_finite_differences(draw, small_blocks, path):
    p = draw(batch=1, heads=2, queries=3, keys=20, dim=2, shared=1)
    bias = torch.randn(3, 20, generator=p.generator, dtype=torch.float64, requires_grad=True)

    def attention(q, k, v, n, b, bias):
        return scored_attention(
            q, k, v, bias, is_causal=True, offset=9, enable_gqa=True, parameters={"n": n, "b": b}, path=path
        )

    assert torch.autograd.gradcheck(attention, (*p.all, bias))


def test_the_slope_at_a_logit_of_zero_is_right(draw, run, by_powers):
    """Hazard 2: differentiating sgn(z)·log1p(b|z|) as written gives slope 0 where z is exactly 0."""
    p = draw(batch=1, heads=1, queries=2, keys=3)
    with torch.no_grad():
        p.q[:, :, 0] = 0
    step = 1e-6
    for path in PATHS:
        _, gradients = run(p, path)
        shift = torch.zeros_like(p.q)
        shift[0, 0, 0, 3] = step
        above, below = (by_powers(p.q + sign * shift, p.k, p.v, p.n, p.b) for sign in (1, -1))
        slope = ((above - below) * p.upstream).sum() / (2 * step)
        close(gradients[0][0, 0, 0, 3], slope.detach(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("path", PATHS)
def test_layouts_and_leading_axes(draw, run, by_powers, path):
    p = draw(queries=6, keys=6, dim=6)
    wanted = by_powers(*p.all)
    strange = draw(queries=6, keys=6, dim=6)
    strange.q = p.q.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()  # as projections leave them
    strange.k = p.k.detach().mT.contiguous().mT.requires_grad_()
    strange.v = p.v.detach().repeat_interleave(2, dim=3)[..., ::2].requires_grad_()
    strange.all = (strange.q, strange.k, strange.v, strange.n, strange.b)
    assert not any(tensor.is_contiguous() for tensor in strange.all[:3])
    output, gradients = run(strange, path)
    close(output, wanted)
    for got, want in zip(gradients, torch.autograd.grad(wanted, p.all, p.upstream), strict=True):
        close(got, want)
    many = scored_attention(
        p.q.view(2, 1, 1, 4, 6, 6), p.k[None, :, None], p.v[None, :, None], parameters={"n": p.n, "b": p.b}, path=path
    )
    assert many.shape == (2, 2, 1, 4, 6, 6)
    close(many[0, 0, 0], wanted[0])
    single = {"n": p.n[:1], "b": p.b[:1]}
    close(scored_attention(p.q[0, 0], p.k[0, 0], p.v[0, 0], parameters=single, path=path), wanted[0, 0])


@pytest.mark.parametrize("score", [Softmax(), TemperatureSoftmax(T=0.7), SSA(n=2.0, b=0.5)], ids=lambda s: s.name)
@pytest.mark.parametrize("causal", [False, True])
def test_paths_agree_with_torch_on_what_torch_has(draw, score, causal):
    p = draw(queries=9, keys=6)
    scale = 0.3
    for path in PATHS:
        output = scored_attention(p.q, p.k, p.v, is_causal=causal, scale=scale, score=score, path=path)
        if score.name == "ssa":
            keep = torch.ones(9, 6, dtype=torch.bool).tril() if causal else None
            q, k, v, scaled = (p.q * scale) @ p.k.mT, None, p.v, None
            t = score.transform(q, n=torch.tensor(2.0), b=torch.tensor(0.5))
            t = t if keep is None else t.masked_fill(~keep, -torch.inf)
            wanted = t.softmax(dim=-1) @ v
            del k, scaled
        else:
            temperature = getattr(score, "T", 1.0)
            wanted = torch.nn.functional.scaled_dot_product_attention(
                p.q, p.k, p.v, is_causal=causal, scale=scale / temperature
            )
        close(output, wanted)


def test_a_learned_temperature(draw, small_blocks):
    p = draw(queries=20, keys=30)
    t = torch.linspace(0.4, 2, 4, dtype=torch.float64)[:, None, None].requires_grad_()
    wrt = (p.q, p.k, p.v, t)
    z = p.q @ p.k.mT / 8**0.5
    wanted = torch.softmax(z / t, dim=-1) @ p.v
    for path in PATHS:
        output = scored_attention(p.q, p.k, p.v, score="temperature", parameters={"T": t}, path=path)
        close(output, wanted)
        wanted_gradients = torch.autograd.grad(wanted, wrt, p.upstream, retain_graph=True)
        for got, want in zip(torch.autograd.grad(output, wrt, p.upstream), wanted_gradients, strict=True):
            close(got, want)


class Cubic(ElementwiseSoftmax):
    """A score that the paths have never heard of: t(z) = az + z³/100, with a learned."""

    name = "cubic"
    learnable = {"a": 0.0}  # noqa: RUF012

    a: float = 0.5

    def transform(self, z, **values):
        return values["a"] * z + z**3 / 100


def test_any_score_of_the_family_runs_on_the_lean_path(draw, small_blocks):
    p = draw(queries=20, keys=30)
    a = torch.linspace(0.2, 0.9, 4, dtype=torch.float64)[:, None, None].requires_grad_()
    results = []
    for path in PATHS:
        output = scored_attention(p.q, p.k, p.v, score=Cubic(), parameters={"a": a}, path=path)
        results.append((output, *torch.autograd.grad(output, (p.q, p.k, p.v, a), p.upstream)))
    for got, want in zip(*results, strict=True):
        close(got, want)


@pytest.mark.parametrize("name", names())
def test_every_score_gives_its_own_weights_times_the_values(draw, name):
    p = draw(queries=6, keys=6)
    score = get_score(name)
    output = scored_attention(p.q, p.k, p.v, score=score, is_causal=True)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    close(output, score.attention_weights(p.q, p.k, mask=mask) @ p.v)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 4e-2), (torch.float16, 6e-3), (torch.float32, 2e-5)])
def test_low_precision(draw, run, by_powers, path, dtype, tolerance):
    p = draw(queries=33, keys=40, dim=16, dtype=dtype)
    wide = tuple(tensor.detach().double().requires_grad_() for tensor in p.all)
    output, gradients = run(p, path)
    wanted = by_powers(*wide)
    assert output.dtype == dtype
    assert [gradient.dtype for gradient in gradients] == [tensor.dtype for tensor in p.all]
    close(output.double(), wanted, rtol=tolerance, atol=tolerance)
    for got, want in zip(gradients, torch.autograd.grad(wanted, wide, p.upstream), strict=True):
        error = (got.double() - want).norm() / want.norm()
        assert error < 2 * tolerance


@pytest.mark.parametrize("score", ["softmax", "ssa", "temperature", "sparsemax", "entmax", "mixture"])
def test_logits_beyond_float16(score):
    """Products up to 3e5; float16 ends at 65504. The wanted output is that of the same numbers in float64."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 16, dim, generator=generator).half() for dim in (64, 64, 8))
    tensors = [tensor.requires_grad_() for tensor in (300 * q, 300 * k, v)]
    assert (tensors[0].double() @ tensors[1].double().mT / 8).abs().max() > 2e5
    output = scored_attention(*tensors, score=score, path="explicit")
    wanted = scored_attention(*(tensor.double() for tensor in tensors), score=score, path="explicit")
    close(output.double(), wanted, rtol=2e-3, atol=2e-3)
    for gradient in torch.autograd.grad(output.sum(), tensors):
        assert gradient.dtype == torch.float16
        assert gradient.isfinite().all()


def test_autocast_changes_nothing_inside_the_lean_path(draw, run):
    p = draw(queries=20, keys=20, dtype=torch.float32)
    plain = run(p, "lean")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = run(p, "lean")
    close(cast[0], plain[0], rtol=0, atol=0)
    for got, want in zip(cast[1], plain[1], strict=True):
        close(got, want, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_dropout_falls_on_the_weights_with_the_stated_probability(small_blocks, path):
    """With V = 1 the output is Σ_j weight_j·kept_j/(1 − p): its mean is 1, its variance p/(1 − p)·Σ weight².

    Keys, queries or heads that shared what they draw would change the one or the other.
    """
    torch.manual_seed(3)
    heads, queries, keys, probability = 64, 125, 32, 0.3
    q, k, v = torch.zeros(1, heads, queries, 8), torch.zeros(1, heads, keys, 8), torch.ones(1, heads, keys, 1)
    output = scored_attention(q, k, v, dropout_p=probability, path=path)
    variance = probability / (1 - probability) / keys  # weights are 1/keys
    count = output.numel()
    assert abs(output.mean() - 1) < 4 * (variance / count) ** 0.5
    assert abs(output.mean(dim=1).var() / (variance / heads) - 1) < 4 * (2 / queries) ** 0.5
    assert abs(output.var() / variance - 1) < 4 * (2 / count) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_the_backward_pass_drops_the_same_weights(draw, small_blocks, path):
    p = draw(batch=1, heads=2, queries=4, keys=20, dim=2)

    def attention(*tensors):
        torch.manual_seed(5)
        q, k, v, n, b = tensors
        return scored_attention(q, k, v, dropout_p=0.4, parameters={"n": n, "b": b}, path=path)

    assert torch.autograd.gradcheck(attention, p.all)
    assert not torch.equal(attention(*p.all), scored_attention(*p.all[:3], parameters={"n": p.n, "b": p.b}, path=path))


@pytest.mark.parametrize("path", PATHS)
def test_parameters_are_in_use(draw, run, path):
    """Hazard 4: a fast path that silently runs plain softmax."""
    p = draw(queries=40, keys=40)
    output, gradients = run(p, path)
    assert all((gradient != 0).all() for gradient in gradients[3:])
    for name in ("n", "b"):
        changed = {"n": p.n, "b": p.b} | {name: getattr(p, name) * 1.5}
        moved = scored_attention(p.q, p.k, p.v, parameters=changed, path=path)
        assert (moved - output).abs().amax(dim=(0, 2, 3)).min() > 1e-3  # in every head


@pytest.mark.parametrize("wanted", [("q",), ("n",), ("b",), ("k", "b"), ("v",)])
def test_gradients_of_some_inputs_only(draw, run, wanted):
    p = draw(queries=20, keys=20)
    full = dict(zip("qkvnb", run(p, "explicit")[1], strict=True))
    for name in set("qkvnb") - set(wanted):
        getattr(p, name).requires_grad_(False)
    leaves = tuple(getattr(p, name) for name in wanted)
    for name, gradient in zip(wanted, run(p, "lean", leaves)[1], strict=True):
        close(gradient, full[name])


def test_second_derivatives_are_exact_on_the_explicit_path_and_refused_on_the_lean_one(draw, run):
    p = draw(batch=1, heads=1, queries=2, keys=3, dim=2)

    def attention(*tensors, path="explicit"):
        return scored_attention(*tensors[:3], parameters={"n": tensors[3], "b": tensors[4]}, path=path)

    assert torch.autograd.gradgradcheck(attention, p.all)
    output = attention(*p.all, path="lean")
    (gradient,) = torch.autograd.grad(output.sum(), p.q, create_graph=True)
    with pytest.raises(InputError, match="path = 'lean': has no second derivatives"):
        gradient.sum().backward()


def test_functional_transforms(draw):
    p = draw(batch=3, queries=4, keys=4)

    def loss(q, path):
        return scored_attention(q, p.k[0], p.v[0], path=path).square().sum()

    close(torch.func.grad(loss)(p.q[0], "lean"), torch.func.grad(loss)(p.q[0], "explicit"))
    each = torch.func.vmap(lambda q: loss(q, "explicit"))(p.q)
    close(each, torch.stack([loss(q, "lean") for q in p.q]))
    with pytest.raises(InputError, match=r"path = 'lean': can't be vectorised by torch\.func\.vmap"):
        torch.func.vmap(lambda q: loss(q, "lean"))(p.q)


class Largest(TorchDispatchMode):
    """Watch every operation, and remember the largest tensor that one returned."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.numel())
        return result


@pytest.mark.parametrize("mask", [None, "padding", "full"])
def test_the_lean_path_never_holds_the_query_key_matrix(draw, run, monkeypatch, mask):
    monkeypatch.setattr(lean, "CPU_BLOCK", 2**12 // torch.get_num_threads())
    p = draw(batch=1, heads=2, queries=300, keys=300, dim=8, dtype=torch.float32)
    masks = {None: None, "padding": torch.ones(300, dtype=torch.bool), "full": torch.ones(1, 1, 300, 300).bool()}
    largest = {}
    for path in PATHS:
        with Largest() as watch:
            run(p, path, attn_mask=masks[mask])
        largest[path] = watch.numel
    assert largest["explicit"] == 2 * 300 * 300
    assert largest["lean"] <= (
        300 * 300 if mask == "full" else 2 * 300 * 8
    )  # the user's own mask, or a tensor of inputs


def test_the_choice_is_visible_and_has_a_reason(draw):
    p = draw()
    large = torch.zeros(1, 8, 512, 8)
    assert choose_path(SSA(), p.q, p.k, p.v).path == "explicit"
    assert choose_path(SSA(), large, large, large).path == "lean"
    assert choose_path(Entmax(), large, large, large) == (
        "explicit",
        "score entmax is no softmax of an elementwise map, so its rows can't be joined from blocks",
    )
    assert choose_path(SSA(), p.q, p.k, p.v, path="lean") == ("lean", "asked for")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "fast"}, "path = 'fast': must be one of auto, explicit, lean, flex"),
        ({"score": "entmax", "path": "lean"}, "path = 'lean': score entmax is no softmax of an elementwise map"),
        ({"path": "flex"}, "path = 'flex': FlexAttention's compiled kernels have no float64"),
        ({"path": "flex", "dropout_p": 0.1}, "path = 'flex': FlexAttention has no dropout"),
        ({"dropout_p": 1.0}, "dropout_p = 1.0: must be at least 0 and below 1"),
        ({"attn_mask": torch.ones(3, 7)}, r"attn_mask = \(3, 7\): its shape must broadcast"),
        ({"attn_mask": torch.ones(5, 7, dtype=torch.int64)}, "attn_mask = 'torch.int64': must be boolean"),
        (
            {"key": torch.zeros(2, 3, 7, 8)},
            r"key = \(2, 3, 7, 8\): must have 4 heads; for fewer heads: enable_gqa=True",
        ),
        ({"key": torch.zeros(2, 4, 7, 9)}, "its last axis must be the query's, 8"),
        ({"key": torch.zeros(3, 4, 7, 8)}, "the axes before the heads must broadcast"),
        ({"value": torch.zeros(2, 4, 6, 8)}, r"value = \(2, 4, 6, 8\): heads and length must be the key's, \(4, 7\)"),
        ({"parameters": {"n": torch.ones(4, 1, 1)}}, r"parameters = \['n'\]: must be exactly: n, b"),
        ({"score": "soft"}, "score = 'soft': unknown"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(draw, arguments, message):
    p = draw()
    given = {"query": p.q, "key": p.k, "value": p.v} | arguments
    given = {name: x.double() if isinstance(x, torch.Tensor) and x.dim() == 4 else x for name, x in given.items()}
    with pytest.raises(InputError, match=message):
        scored_attention(**given)
