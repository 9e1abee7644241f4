"""Mixtures within a head, different scores in different heads, and CosFormer's positions."""

import pytest
import torch

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.scores import CosFormer, Mixture, PerHead, get_score

F64 = torch.float64
Q = torch.randn(2, 5, 4, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
K = torch.randn(2, 5, 6, 3, generator=torch.Generator().manual_seed(1), dtype=F64)
KEEP = torch.rand(2, 5, 4, 6, generator=torch.Generator().manual_seed(2)) > 0.3
PARTS = ["ssa", "cosformer", "sparsemax"]


def test_a_mixture_is_the_weighted_sum():
    weights = Mixture(scores=PARTS, shares=(0.5, 0.2, 0.3)).attention_weights(Q, K, mask=KEEP)
    parts = [get_score(name).attention_weights(Q, K, mask=KEEP) for name in PARTS]
    expected = 0.5 * parts[0] + 0.2 * parts[1] + 0.3 * parts[2]
    assert torch.allclose(weights, expected, rtol=0, atol=1e-15)
    equal = Mixture(scores="ssa,cosformer,sparsemax").attention_weights(Q, K, mask=KEEP)
    assert torch.allclose(equal, sum(parts) / 3, rtol=0, atol=1e-15)


def test_learned_shares_differ_between_heads():
    mixture = Mixture(scores=PARTS)
    module = mixture.make_parameters(5).double()
    with torch.no_grad():
        module.raw_shares[1, 2] += 50
    weights = mixture.attention_weights(Q, K, parameters=module())
    assert torch.allclose(weights[:, 2], CosFormer().attention_weights(Q, K)[:, 2], rtol=0, atol=1e-12)
    other = mixture.attention_weights(Q, K)
    assert torch.allclose(weights[:, [0, 1, 3, 4]], other[:, [0, 1, 3, 4]], rtol=0, atol=1e-7)


@pytest.mark.parametrize("mask", [None, KEEP, KEEP[:, :1], KEEP[0, 0]])
def test_each_head_has_its_own_score(mask):
    weights = PerHead(scores=PARTS).attention_weights(Q, K, mask=mask)
    for head in range(5):
        own = None if mask is None else mask.expand(2, 5, 4, 6)[:, head]
        expected = get_score(PARTS[head % 3]).attention_weights(Q[:, head], K[:, head], mask=own)
        assert torch.allclose(weights[:, head], expected, rtol=0, atol=1e-15)


def test_learned_parameters_of_heads_go_to_their_heads():
    score = PerHead(scores="ssa,softmax")
    values = score.make_parameters(5).double()()
    assert {key: value.shape[0] for key, value in values.items()} == {"0.n": 3, "0.b": 3}
    values = {key: value * torch.tensor([1.0, 1.3, 2.0], dtype=F64)[:, None, None] for key, value in values.items()}
    weights = score.attention_weights(Q, K, parameters=values)
    ssa = get_score("ssa", n=values["0.n"][2].item(), b=values["0.b"][2].item())
    assert torch.allclose(weights[:, 4], ssa.attention_weights(Q[:, 4], K[:, 4]), rtol=0, atol=1e-14)


def test_what_composites_refuse():
    z = torch.zeros(4, 6)
    with pytest.raises(InputError, match="axis of heads"):
        PerHead().rows(z)
    with pytest.raises(InputError, match="at least 2"):
        PerHead().make_parameters(1)
    with pytest.raises(InputError, match="row map for each head"):
        PerHead().symbolic_two_level(1, 0, 5)
    with pytest.raises(InputError, match="no function of the logits"):
        Mixture(scores=PARTS).rows(z)
    with pytest.raises(InputError, match="must contain shares"):
        Mixture().rows(z, None, {"1.n": torch.tensor(1.5), "1.b": torch.tensor(0.8)})
    with pytest.raises(InputError, match="component's number"):
        PerHead().rows(z[None], None, {"n": torch.tensor(1.5)})
    with pytest.raises(InputError, match="must start above 0"):
        Mixture(shares=(0.0, 1.0)).make_parameters(2)


def test_a_mixture_describes_a_model():
    model = Model(V=8, L=16, P=64, score={"name": "mixture", "scores": ["softmax", {"name": "ssa", "n": 2.0}]})
    assert Model(**model.describe()) == model
    assert model.score.normalised


def test_cosformer_by_hand():
    weights = CosFormer(M=9).attention_weights(Q, K, offset=2)
    for query in range(4):
        raw = [
            (Q[1, 3, query].relu() * K[1, 3, key].relu()).sum()
            * torch.cos(torch.tensor(torch.pi * (query + 2 - key) / 18, dtype=F64))
            for key in range(6)
        ]
        total = sum(raw)
        expected = torch.stack(raw) / (total if total else 1)
        assert torch.allclose(weights[1, 3, query], expected, rtol=0, atol=1e-14)


def test_cosformer_with_a_cache_and_with_padding():
    """Given M, the last query alone at its position, and a longer padded sequence, give the same weights."""
    score, q = CosFormer(M=16), torch.cat([Q, Q[..., :2, :]], dim=-2)
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    weights = score.attention_weights(q, K, mask=causal)
    cached = score.attention_weights(q[..., 5:, :], K, offset=5)
    assert torch.allclose(cached, weights[..., 5:, :], rtol=0, atol=1e-15)
    padded = torch.cat([K, K], dim=-2)
    keep = torch.arange(12) < 6
    padded_weights = score.attention_weights(q[..., 5:, :], padded, mask=keep, offset=5)
    assert torch.allclose(padded_weights[..., :6], cached, rtol=0, atol=1e-15)


def test_cosformer_refuses_distances_beyond_its_reach():
    CosFormer(M=5).attention_weights(Q, K)
    with pytest.raises(InputError, match="at least 5"):
        CosFormer(M=4).attention_weights(Q, K)
    assert (CosFormer(M=5).attention_weights(Q, K) >= 0).all()
