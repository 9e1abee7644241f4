"""The modules: learned parameters of their own, torch's interface, and no way back to softmax unnoticed."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from phasekit.attention import ScoredAttention, ScoredMultiheadAttention, scored_attention
from phasekit.errors import InputError
from phasekit.scores import SSA, learned_values, parameter_groups


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return [torch.randn(2, 4, 6, 8) for _ in range(3)]


def test_a_module_holds_the_parameters_and_says_which_path_ran(tensors):
    attention = ScoredAttention(4, SSA(n=2.0, b=0.5))
    assert attention.last_path is None
    output = attention(*tensors, is_causal=True)
    torch.testing.assert_close(output, scored_attention(*tensors, is_causal=True, score=SSA(n=2.0, b=0.5)))
    assert attention.last_path.path == "explicit"
    attention.path = "lean"
    torch.testing.assert_close(attention(*tensors, is_causal=True), output)
    assert attention.last_path == ("lean", "asked for")
    fixed = ScoredAttention(4, SSA(n=1.0), learn=False)
    assert not list(fixed.parameters())
    torch.testing.assert_close(fixed(*tensors), scored_attention(*tensors, score=SSA(n=1.0)))


@pytest.mark.parametrize("path", ["explicit", "lean"])
def test_parameters_learn_in_float32_without_decay_in_a_bfloat16_model(tensors, path):
    attention = ScoredAttention(4, path=path).to(torch.bfloat16)
    assert {parameter.dtype for parameter in attention.parameters()} == {torch.float32}
    decayed, kept = parameter_groups(nn.ModuleList([attention, nn.Linear(2, 2)]), weight_decay=0.1)
    assert len(decayed["params"]) == len(kept["params"]) == 2
    optimiser = torch.optim.AdamW([decayed, kept], lr=1e-4)
    before = copy.deepcopy(attention.state_dict())
    output = attention(*(tensor.bfloat16() for tensor in tensors))
    assert output.dtype == torch.bfloat16
    output.float().square().sum().backward()
    optimiser.step()
    for name, now in attention.state_dict().items():
        moved = (now - before[name]).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, 1e-4), rtol=1e-2, atol=0)  # Adam's first step is ±lr


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compiling_keeps_values_and_gradients(tensors, backend):
    attention = ScoredAttention(4)
    results = []
    for run in (attention, torch.compile(attention, backend=backend, fullgraph=True)):
        output = run(*tensors, is_causal=True)
        results.append((output, *torch.autograd.grad(output.square().sum(), list(attention.parameters()))))
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager)


@pytest.fixture
def twins():
    """Torch's layer and ours with softmax, with the same weights, in float64."""

    def make(**options):
        torch.manual_seed(1)
        torchs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64, **options)
        nn.init.normal_(torchs.in_proj_bias)
        ours = ScoredMultiheadAttention(12, 3, dtype=torch.float64, score="softmax", **options)
        ours.load_state_dict(torchs.state_dict())
        return torchs, ours

    return make


@pytest.mark.parametrize("assign", [False, True])
def test_what_torch_s_layer_saved_loads(assign):
    torch.manual_seed(1)
    torchs, ours = nn.MultiheadAttention(12, 3, batch_first=True), ScoredMultiheadAttention(12, 3, score="ssa")
    ours.load_state_dict({name: value.clone() for name, value in torchs.state_dict().items()}, assign=assign)
    assert torch.equal(ours.in_proj_weight, torchs.in_proj_weight)
    (values,) = learned_values(ours).values()
    torch.testing.assert_close(values["n"], torch.full((3,), 1.5))
    assert all(isinstance(parameter, nn.Parameter) for parameter in ours.parameters())
    saved = ours.state_dict()
    del saved["attention.score_parameters.raw_n"]  # its own, but not whole
    with pytest.raises(RuntimeError, match="raw_n"):
        ours.load_state_dict(saved)


MASKS = {
    "none": {},
    "attn": {"attn_mask": torch.rand(5, 7, generator=torch.Generator().manual_seed(2)) < 0.3},
    "attn added": {"attn_mask": torch.randn(5, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)},
    "each head": {"attn_mask": torch.rand(6, 5, 7, generator=torch.Generator().manual_seed(3)) < 0.3},
    "padding": {"key_padding_mask": torch.arange(7) >= torch.tensor([[7], [4]])},
    "both": {
        "attn_mask": torch.rand(5, 7, generator=torch.Generator().manual_seed(4)) < 0.2,
        "key_padding_mask": torch.arange(7) >= torch.tensor([[7], [5]]),
    },
    "added and padding": {
        "attn_mask": torch.randn(5, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64),
        "key_padding_mask": torch.where(torch.arange(7) >= torch.tensor([[7], [5]]), -torch.inf, 0.0).double(),
    },
}


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", [{}, {"kdim": 4, "vdim": 6}], ids=["joint", "separate"])
def test_softmax_gives_torchs_layer(twins, masks, options):
    torchs, ours = twins(**options)
    torch.manual_seed(5)
    q = torch.randn(2, 5, 12, dtype=torch.float64)
    k = torch.randn(2, 7, options.get("kdim", 12), dtype=torch.float64)
    v = torch.randn(2, 7, options.get("vdim", 12), dtype=torch.float64)
    for average in (True, False):
        wanted = torchs(q, k, v, average_attn_weights=average, **masks)
        got = ours(q, k, v, need_weights=True, average_attn_weights=average, **masks)
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
    assert ours(q, k, v, **masks)[1] is None
    causal = torch.ones(5, 7, dtype=torch.bool).triu(1)
    wanted = torchs(q, k, v, attn_mask=causal)[0]
    torch.testing.assert_close(ours(q, k, v, is_causal=True)[0], wanted, rtol=1e-11, atol=1e-12)
    unbatched = ours(q[0], k[0], v[0], need_weights=True)
    wanted = torchs(q[0], k[0], v[0])
    for a, b in zip(unbatched, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


def test_a_row_that_sees_nothing_gives_the_bias_of_the_projection(twins):
    torchs, ours = twins()
    x = torch.randn(1, 4, 12, dtype=torch.float64)
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask[2] = True
    assert torchs(x, x, x, attn_mask=mask)[0][0, 2].isnan().all()
    torch.testing.assert_close(ours(x, x, x, attn_mask=mask)[0][0, 2], ours.out_proj.bias)


@pytest.mark.parametrize("training", [True, False])
def test_an_encoder_layer_of_torch_keeps_using_the_score(training):
    """Hazard 4: in evaluation mode torch's encoder layer runs a fused softmax if it takes ours for torch's layer."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(12, 2, 16, dropout=0.0, batch_first=True)
    layer.self_attn = ScoredMultiheadAttention(12, 2)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    x = torch.randn(2, 5, 12)
    padding = torch.arange(5) >= torch.tensor([[5], [3]])
    with torch.no_grad():
        before = encoder(x, src_key_padding_mask=padding)
        for module in encoder.modules():
            if isinstance(module, ScoredAttention):
                module.score_parameters.raw_n += 2
        after = encoder(x, src_key_padding_mask=padding)
        alone = encoder(x[1:, :3])
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(after[1, :3], alone[0])


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    layer = ScoredMultiheadAttention(12, 2, dropout=0.5)
    x = torch.randn(1, 6, 12)
    assert not torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])
    layer.eval()
    torch.testing.assert_close(layer(x, x, x)[0], layer(x, x, x)[0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScoredAttention(2, path="fast"), "path = 'fast': must be one of auto, explicit, lean, flex"),
        (lambda: ScoredMultiheadAttention(12, 2.0), "num_heads = 2.0: must be a whole number"),
        (lambda: ScoredMultiheadAttention(12, 3, dropout=1.0), "dropout = 1.0: must be at least 0 and below 1"),
        (lambda: ScoredAttention(3)(*[torch.zeros(1, 2, 4, 8)] * 3), r"query = \(1, 2, 4, 8\): must have 3 heads"),
        (lambda: ScoredAttention(3)(*[torch.zeros(4, 8)] * 3), r"query = \(4, 8\): must have 3 heads"),
        (
            lambda: scored_attention(
                *[torch.zeros(1, 2, 4, 8)] * 3, parameters={"n": torch.ones(3, 1, 1), "b": torch.ones(3, 1, 1)}
            ),
            r"score ssa: n = \(3, 1, 1\): its shape must be \(\) or \(..., heads, 1, 1\), for 2 heads",
        ),
        (lambda: ScoredMultiheadAttention(12, 5), "num_heads = 5: must divide embed_dim = 12"),
        (lambda: ScoredMultiheadAttention(12, 3, score="nothing"), "score = 'nothing': unknown"),
        (lambda: ScoredAttention(0), "heads = 0: must be a whole number of at least 1"),
        (
            lambda: ScoredMultiheadAttention(12, 3)(torch.zeros(1, 2, 7), *[torch.zeros(1, 2, 12)] * 2),
            "dim = 7: must be 12",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("options", [{}, {"vdim": 6}], ids=["joint", "separate"])
@pytest.mark.parametrize("sizes", [(0, 5, 7), (2, 0, 7), (2, 5, 0), (0, 0, 0)])
def test_empty_axes_give_what_torchs_layer_gives(twins, sizes, options, weights):
    torchs, ours = twins(**options)
    batch, queries, keys = sizes
    q = torch.zeros(batch, queries, 12, dtype=torch.float64)
    k, v = (torch.zeros(batch, keys, dim, dtype=torch.float64) for dim in (12, options.get("vdim", 12)))
    padding = torch.zeros(batch, keys, dtype=torch.bool)
    heads = torch.zeros(3 * batch, queries, keys, dtype=torch.bool)
    for masks in ({}, {"key_padding_mask": padding}, {"attn_mask": heads}):
        output, found = ours(q, k, v, need_weights=weights, **masks)
        assert output.shape == (batch, queries, 12)
        torch.testing.assert_close(output, torchs(q, k, v)[0])
        assert found.shape == (batch, queries, keys) if weights else found is None


SCORES = ["ssa", "temperature", "entmax", "mixture", "per-head"]
LAYERS = {
    **{score: lambda score=score: ScoredMultiheadAttention(12, 3, score=score) for score in SCORES},
    "separate": lambda: ScoredMultiheadAttention(12, 3, vdim=6),
}


X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))


def whole(layer, values=None):
    """Output on fixed inputs, as a function of all parameters."""
    inputs = (X, X, X[..., : layer.vdim])
    return (layer(*inputs) if values is None else torch.func.functional_call(layer, values, inputs))[0]


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_may_be_other_tensors(name):
    """``functional_call``, ``vmap`` over an ensemble, and replicas of DataParallel put plain tensors in their place."""
    torch.manual_seed(0)
    layers = [LAYERS[name]() for _ in range(3)]
    for layer in layers:
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=0.5)
    wanted = torch.stack([whole(layer) for layer in layers])
    values = {key: value.detach().clone() for key, value in layers[1].named_parameters()}
    torch.testing.assert_close(whole(layers[0], values), wanted[1])
    stacked, _ = torch.func.stack_module_state(layers)
    torch.testing.assert_close(torch.func.vmap(lambda values: whole(layers[0], values))(stacked), wanted)
    replicas = {path: module._replicate_for_data_parallel() for path, module in layers[2].named_modules()}
    for path, module in layers[2].named_modules():  # as torch.nn.parallel.replicate does, which needs GPUs
        for key, _ in module.named_children():
            replicas[path]._modules[key] = replicas[f"{path}.{key}".lstrip(".")]
        for key, parameter in module._parameters.items():
            if parameter is None:
                replicas[path]._parameters[key] = None
            else:
                setattr(replicas[path], key, parameter * 1)
    assert not list(replicas[""].parameters())
    torch.testing.assert_close(whole(replicas[""]), wanted[2])


@pytest.mark.parametrize("change", ["prune", "weight_norm", "old weight_norm", "spectral_norm"])
@pytest.mark.parametrize("where", ["in_proj_weight", "q_proj_weight", "raw_n"])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_parameters_may_be_pruned_and_parametrised(where, change):
    layer = LAYERS["separate" if where == "q_proj_weight" else "ssa"]()
    module = layer.attention.score_parameters if where == "raw_n" else layer
    before = whole(layer)
    utils = nn.utils
    if change == "spectral_norm" and where == "raw_n":
        pytest.skip("a vector has no spectral norm")
    if change == "prune":
        prune.l1_unstructured(module, where, amount=0.5)
    elif change == "old weight_norm":
        utils.weight_norm(module, where, dim=None)
    else:
        getattr(utils.parametrizations, change)(module, where, **({"dim": None} if change == "weight_norm" else {}))
    after = whole(layer)
    if "weight_norm" in change:
        torch.testing.assert_close(after, before)
    else:
        assert (after - before).abs().max() > 1e-4
    after.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_learned_values_can_be_looked_at():
    layer = nn.ModuleDict({"a": ScoredMultiheadAttention(12, 3, score=SSA(n=2.0)), "b": ScoredAttention(2, "mixture")})
    values = learned_values(layer)
    assert list(values) == ["a.attention.score_parameters", "b.score_parameters"]
    torch.testing.assert_close(values["a.attention.score_parameters"]["n"], torch.full((3,), 2.0))
    assert {name: value.shape for name, value in values["b.score_parameters"].items()} == {
        "1.n": (2,),
        "1.b": (2,),
        "shares": (2, 2),
    }
    assert not any(value.requires_grad for one in values.values() for value in one.values())


@pytest.mark.parametrize("score", ["ssa", "softmax", "entmax", "linear", "cosformer", "mixture"])
@pytest.mark.parametrize("path", ["auto", "explicit", "lean"])
def test_the_meta_device(score, path):
    """Shapes without numbers, and never a result of unlike devices."""
    if path == "lean" and score not in ("ssa", "softmax"):
        pytest.skip("has no lean path")
    x, meta = torch.zeros(1, 2, 300, 4), torch.zeros(1, 2, 300, 4, device="meta")
    mask = torch.ones(300, 300, dtype=torch.bool, device="meta")
    for given in (None, mask, torch.zeros(300, 300, device="meta")):
        output = scored_attention(meta, meta, meta, given, is_causal=True, score=score, path=path)
        assert (output.shape, output.device.type) == (meta.shape, "meta")
    for q, k, v, given, field in (
        (meta, x, x, None, "key"),
        (x, meta, x, None, "key"),
        (x, x, meta, None, "value"),
        (x, x, x, mask, "attn_mask"),
        (meta, meta, meta, torch.zeros(300, 300), "attn_mask"),
    ):
        with pytest.raises(InputError, match=f"{field} = '.*': must be on the query's device"):
            scored_attention(q, k, v, given, score=score, path=path)
    with pytest.raises(InputError, match="must be on the query's device"):
        ScoredAttention(2, "temperature").to("meta")(x, x, x)


@pytest.mark.parametrize("score", ["ssa", "softmax", "entmax", "linear", "cosformer", "mixture"])
@pytest.mark.parametrize("length", [4, 300])
def test_autocast_gives_every_length_the_same_dtype(score, length):
    x = torch.randn(1, 2, length, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    wanted = scored_attention(x, x, x, score=score)
    (gradient,) = torch.autograd.grad(wanted.sum(), x, retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = scored_attention(x, x, x, score=score)
        torch.testing.assert_close(output, wanted, rtol=0, atol=0)
        assert scored_attention(x, x.bfloat16(), x, score=score).dtype == torch.bfloat16
        layer = ScoredMultiheadAttention(8, 2, score=score)
        assert layer(x[0], x[0], x[0])[0].dtype == torch.bfloat16  # its projections are lowered
    torch.testing.assert_close(torch.autograd.grad(output.sum(), x)[0], gradient)


@pytest.mark.parametrize("path", ["auto", "explicit", "lean"])
def test_export(path):
    attention, x = ScoredAttention(2, path=path), torch.randn(1, 2, 300, 8)
    if path == "lean":
        with pytest.raises(InputError, match="path = 'lean': can't be exported"):
            torch.export.export(attention, (x, x, x))
        return
    torch.testing.assert_close(torch.export.export(attention, (x, x, x)).module()(x, x, x), attention(x, x, x))
