"""The decoder: its parts, its weights at the start, and what it may see."""

import pytest
import torch

from phasekit.errors import InputError
from phasekit.scores import get_score, names
from phasekit.transformers import PRESETS, Architecture, Decoder, InContext, get_architecture, parameter_count
from tests.transformers.plain import Plain

SCORES = [get_score(name) for name in names() if name not in ("mixture", "per-head")]
SCORES += [get_score("mixture", scores=("softmax", "ssa")), get_score("per-head", scores=("softmax", "ssa"))]
TINY = Architecture(layers=2, heads=2, width=8, longest=32)


def test_the_paper_s_network_has_9_6_million_parameters():
    paper = PRESETS["paper"]
    subject = InContext(task="linear-functions", architecture=paper)
    d, h = paper.width, paper.hidden * paper.width
    layer = 2 * 2 * d + (d + 1) * 3 * d + (d + 1) * d + (d + 1) * h + (h + 1) * d
    assert parameter_count(subject.build()) == 12 * layer + 2 * d + (1 + 1) * d + (d + 1) + 512 * d == 9_609_473
    ssa = subject.at(score="ssa")
    assert parameter_count(ssa.build()) == 9_609_473 + 2 * 12 * 8
    assert parameter_count(ssa.at(learned="layer").build()) == 9_609_473 + 2 * 12
    assert parameter_count(ssa.at(learned="no").build()) == 9_609_473


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
@pytest.mark.parametrize("positions", ["learned", "rotary", "none"])
def test_no_answer_sees_what_comes_later(score, positions):
    model = Decoder(TINY.at(positions=positions), 3, 2, score, seed=1).double()
    tokens = torch.randn(2, 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    other = tokens.clone()
    other[:, 5:] = 7.0
    # CosFormer's distances and nothing else depend on the number of keys
    torch.testing.assert_close(model(tokens)[:, :5], model(other)[:, :5], rtol=0, atol=1e-12)
    assert not torch.allclose(model(tokens)[:, 5:], model(other)[:, 5:])


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_arms_begin_with_the_same_weights(score):
    softmax = Decoder(TINY, 1, 1, seed=3).state_dict()
    arm = Decoder(TINY, 1, 1, score, seed=3).state_dict()
    assert all(torch.equal(arm[name], value) for name, value in softmax.items())
    other = Decoder(TINY, 1, 1, score, seed=4).state_dict()
    assert not torch.equal(other["read_in.weight"], arm["read_in.weight"])


def test_weights_have_their_scale():
    model = InContext(task="every", architecture="paper").build()
    for name, fan_in, more in (("qkv", 256, 1), ("out", 256, 24), ("up", 256, 1), ("down", 1024, 24)):
        part = getattr(model.blocks[5].attention, name, None) or getattr(model.blocks[5].mlp, name)
        assert float(part.weight.detach().std()) == pytest.approx((3 * fan_in * more) ** -0.5, rel=0.02)
        assert not part.bias.any()


def test_softmax_is_the_plain_transformer():
    model = Decoder(Architecture(), 1, 1).double()
    plain = Plain(1, 1).double().take(model)
    tokens = torch.randn(4, 21, 1, dtype=torch.float64)
    torch.testing.assert_close(model(tokens), plain(tokens), rtol=0, atol=1e-12)


def test_rotary_logits_know_distances_only():
    attention = Decoder(TINY.at(positions="rotary"), 1, 1).attentions[0].double()
    x = torch.randn(1, 1, 8, dtype=torch.float64).expand(1, 12, 8)
    query, key, _ = attention.project(x)
    logits = query @ key.transpose(-1, -2)
    torch.testing.assert_close(logits[..., 1:, 1:], logits[..., :-1, :-1], rtol=0, atol=1e-12)
    assert not torch.allclose(logits[..., 5, 1], logits[..., 5, 2])


def test_parts_can_be_left_out():
    tokens = torch.randn(2, 6, 1)
    alone = Decoder(PRESETS["mlp-only"], 1, 1)
    assert alone.attentions == []
    other = tokens.clone()
    other[:, :5] = 3.0
    torch.testing.assert_close(alone(tokens)[:, 5], alone(other)[:, 5], msg="an MLP sees no other token")
    without = Decoder(PRESETS["attention-only"], 1, 1)
    assert not torch.allclose(without(tokens)[:, 5], without(other)[:, 5])
    raw = Decoder(TINY.at(attention_norm=False), 1, 1)
    assert not [name for name, _ in raw.named_parameters() if "attention_norm" in name]
    squashed = Decoder(TINY.at(squash=True), 1, 1)
    torch.testing.assert_close(squashed(tokens.sinh()), Decoder(TINY, 1, 1)(tokens), rtol=1e-4, atol=1e-5)
    tied = Decoder(TINY.at(tied=True), 4, 4)
    assert tied(torch.randn(1, 3, 4)).shape == (1, 3, 4)
    assert not hasattr(tied, "read_out")


def test_mistakes_are_one_line():
    for make, words in (
        (lambda: get_architecture("huge"), "architecture = 'huge': must be one of"),
        (lambda: get_architecture({"preset": "small", "depth": 3}), "depth = 3: unknown"),
        (lambda: Architecture(heads=3), "heads = 3: must divide width = 64"),
        (lambda: Architecture(width=6, heads=2, positions="rotary"), "must be even"),
        (lambda: Decoder(Architecture(tied=True), 1, 2), "as many outputs as inputs"),
        (lambda: Decoder(TINY, 1, 1)(torch.randn(1, 33, 1)), "tokens = 33: must be at most 32"),
        (lambda: InContext(task="nothing"), "task = 'nothing': unknown"),
        (lambda: InContext(task="every", score="nothing"), "score = 'nothing': unknown"),
        (lambda: InContext(task="every", learned="sometimes"), "learned = 'sometimes': must be one of"),
        (lambda: InContext(task="every").check_points(300), "points = 300: make 599 tokens, but there are 512"),
    ):
        with pytest.raises(InputError) as refused:
            make()
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)
