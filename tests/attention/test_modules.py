"""The modules: learned parameters of their own, torch's interface, and no way back to softmax unnoticed."""

import copy

import pytest
import torch
from torch import nn

from phasekit.attention import ScoredAttention, ScoredMultiheadAttention, scored_attention
from phasekit.errors import InputError
from phasekit.scores import SSA, parameter_groups


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
        (lambda: ScoredMultiheadAttention(12, 5), "num_heads = 5: must divide embed_dim = 12"),
        (lambda: ScoredMultiheadAttention(12, 3, score="nothing"), "score = 'nothing': unknown"),
        (lambda: ScoredAttention(0), "heads = 0: must be a positive integer"),
        (
            lambda: ScoredMultiheadAttention(12, 3)(torch.zeros(1, 2, 7), *[torch.zeros(1, 2, 12)] * 2),
            "dim = 7: must be 12",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()
