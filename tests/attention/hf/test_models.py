"""Scores inside models: no look into the future, no influence of padding or caches, parameters in use."""

import pytest
import torch
from transformers import DynamicCache, GPT2Config, StaticCache

from phasekit.attention import paths
from phasekit.attention.hf import register
from phasekit.attention.hf.attention import attend
from phasekit.errors import InputError
from phasekit.scores import get_score

CAUSAL = ["gpt2", "llama", "nemotron", "roberta decoder"]
MODELS = [*CAUSAL, "roberta"]
EXACT = {"rtol": 0, "atol": 0}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def logits(model, tokens, **others):
    with torch.no_grad():
        return model(tokens, **others).logits


def padded(tokens, side):
    """Pad the second sequence's last three tokens away; return tokens, mask and positions."""
    short = tokens.clone()
    mask = torch.ones_like(tokens)
    if side == "right":
        short[1, -3:] = mask[1, -3:] = 0
    else:
        short[1] = torch.cat([torch.zeros(3, dtype=torch.long), tokens[1, :-3]])
        mask[1, :3] = 0
    return short, mask, (mask.cumsum(dim=1) - 1).clamp(min=0)


@pytest.mark.parametrize("path", ["explicit", "lean"])
@pytest.mark.parametrize("name", MODELS)
def test_softmax_as_a_score_gives_what_transformers_computes(auto, build, tokens, monkeypatch, name, path):
    monkeypatch.setattr(paths, "SMALL", 0 if path == "lean" else 2**16)
    ours, theirs = build(name, "softmax"), build(name, "eager")
    tokens, mask, _ = padded(tokens, "right")
    torch.testing.assert_close(logits(ours, tokens), logits(theirs, tokens), **CLOSE)
    seen = mask.bool()
    got, wanted = (logits(model, tokens, attention_mask=mask)[seen] for model in (ours, theirs))
    torch.testing.assert_close(got, wanted, **CLOSE)
    taken = {module.last_path.path for module in ours.modules() if hasattr(module, "last_path")}
    assert taken == {path}


def test_a_scale_of_the_models_own_is_kept(auto, tokens):
    results = []
    for implementation in ("softmax", "eager"):
        torch.manual_seed(0)
        config = GPT2Config(
            n_embd=32, n_layer=3, n_head=4, initializer_range=0.25, scale_attn_by_inverse_layer_idx=True
        )
        model = auto("gpt2").from_config(config, attn_implementation=implementation).eval()
        results.append(logits(model, tokens))
    torch.testing.assert_close(*results, **CLOSE)


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("name", CAUSAL)
def test_the_last_token_never_moves_earlier_logits(build, tokens, name, padding):
    model = build(name)
    mask = torch.ones_like(tokens)
    if padding:
        mask[1, :2] = 0
    changed = tokens.clone()
    changed[:, -1] = 3 + (changed[:, -1] - 2) % 37
    before, after = logits(model, tokens, attention_mask=mask), logits(model, changed, attention_mask=mask)
    torch.testing.assert_close(after[:, :-1], before[:, :-1], **EXACT)
    assert (after[:, -1] - before[:, -1]).abs().max() > 1e-3
    changed = tokens.clone()
    changed[:, 4] = 3 + (changed[:, 4] - 2) % 37  # but an earlier token does move the last logits
    assert (logits(model, changed, attention_mask=mask)[:, -1] - before[:, -1]).abs().amax(dim=-1).min() > 1e-4
    unmasked = logits(model, tokens)
    changed[:, 4], changed[:, -1] = tokens[:, 4], 3 + (tokens[:, -1] - 2) % 37
    torch.testing.assert_close(logits(model, changed)[:, :-1], unmasked[:, :-1], **EXACT)


def test_the_last_token_does_move_earlier_logits_of_an_encoder(build, tokens):
    model = build("roberta")
    changed = tokens.clone()
    changed[:, -1] = 3 + (changed[:, -1] - 2) % 37
    assert (logits(model, tokens) - logits(model, changed))[:, 0].abs().amax(dim=-1).min() > 1e-4


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", MODELS)
def test_padded_equals_unpadded(build, tokens, name, side):
    model = build(name)
    alone = logits(model, tokens[1:, :-3])[0]
    short, mask, positions = padded(tokens, side)
    others = {} if "roberta" in name else {"position_ids": positions}  # RoBERTa counts positions itself
    together = logits(model, short, attention_mask=mask, **others)
    torch.testing.assert_close(together[1, mask[1].bool()], alone, **CLOSE)
    assert together.isfinite().all()


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("name", CAUSAL)
def test_a_cache_changes_nothing(build, tokens, name, kind):
    model = build(name)
    whole = logits(model, tokens)
    cache = (
        DynamicCache(config=model.config) if kind == "dynamic" else StaticCache(config=model.config, max_cache_len=16)
    )
    parts = []
    with torch.no_grad():
        for begin, end in ((0, 4), (4, 5), (5, 7), (7, 8), (8, 9)):
            output = model(tokens[:, begin:end], cache=cache, use_cache=True)
            parts.append(output.logits)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, **CLOSE)


@pytest.mark.parametrize("name", CAUSAL)
def test_generation_with_a_cache_equals_generation_without(build, tokens, name):
    model = build(name)
    prompt, mask, _ = padded(tokens[:, :6], "left")
    options = {"attention_mask": mask, "max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    with_cache, without = (model.generate(prompt, use_cache=use, **options) for use in (True, False))
    assert with_cache.shape == (2, 12)
    assert torch.equal(with_cache, without)


@pytest.mark.parametrize("name", MODELS)
def test_n_and_b_of_every_layer_and_head_learn_and_matter(build, tokens, score_parameters, name):
    model = build(name)
    output = model(tokens).logits
    torch.nn.functional.cross_entropy(output.flatten(0, 1), tokens.flatten()).backward()
    own = score_parameters(model)
    assert len(own) == 4
    for raw in own.values():
        assert raw.shape == (4,)
        assert (raw.grad.abs() > 1e-7).all()
        with torch.no_grad():
            raw[2] += 1
            assert (logits(model, tokens) - output).abs().max() > 1e-3
            raw[2] -= 1


@pytest.mark.parametrize("score", ["entmax", "linear", "mixture", "per-head", "sa-softmax", "sparsemax", "temperature"])
def test_every_other_score_runs_causally_and_with_a_cache(build, tokens, score):
    model = build("llama", score)
    whole = logits(model, tokens)
    changed = tokens.clone()
    changed[:, -1] = 3 + (changed[:, -1] - 2) % 37
    torch.testing.assert_close(logits(model, changed)[:, :-1], whole[:, :-1], **EXACT)
    cache = DynamicCache(config=model.config)
    parts = [logits(model, part, cache=cache, use_cache=True) for part in tokens.split((5, 1, 3), dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, **CLOSE)


COSFORMER = get_score("cosformer", M=100)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("pads", [(3, 3), (2, 4), (0, 3)])
@pytest.mark.parametrize("score", [COSFORMER, get_score("mixture", scores=["ssa", COSFORMER])], ids=lambda s: s.name)
def test_padding_does_not_move_the_positions_that_scores_know(build, tokens, score, pads, side, cached):
    """Even if every row of the batch is padded."""
    (name,) = register(score, f"positions-{score.name}")
    model = build("llama", name)
    mask = torch.stack(
        [torch.arange(9) < 9 - pad if side == "right" else torch.arange(9) >= pad for pad in pads]
    ).long()
    padded = torch.zeros_like(tokens).masked_scatter(mask.bool(), torch.cat([tokens[r, : 9 - pads[r]] for r in (0, 1)]))
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    cache, parts = DynamicCache(config=model.config) if cached else None, []
    for begin, end in ((0, 5), (5, 6), (6, 9)) if cached else ((0, 9),):
        others = {"cache": cache, "use_cache": True} if cached else {}
        at = {"attention_mask": mask[:, :end], "position_ids": positions[:, begin:end]}
        parts.append(logits(model, padded[:, begin:end], **at, **others))
    together = torch.cat(parts, dim=1)
    for row, pad in enumerate(pads):
        alone = logits(model, tokens[row : row + 1, : 9 - pad])[0]
        torch.testing.assert_close(together[row, mask[row].bool()], alone, **CLOSE)


@pytest.mark.parametrize("side", ["right", "left"])
def test_positions_in_an_encoder_whose_rows_are_all_padded(build, tokens, side):
    (name,) = register(COSFORMER, "positions-encoder")
    model = build("roberta", name)
    pad, mask = torch.zeros(2, 3, dtype=torch.long), torch.ones_like(tokens)
    parts = [[tokens, pad], [mask, pad]]
    padded, mask = (torch.cat(part if side == "right" else part[::-1], dim=1) for part in parts)
    together = logits(model, padded, attention_mask=mask)
    seen = together[:, :9] if side == "right" else together[:, 3:]
    torch.testing.assert_close(seen, logits(model, tokens), **CLOSE)


def test_positions_in_two_sequences_are_refused(build):
    q, k = torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 5, 8)
    module = torch.nn.Module()
    with pytest.raises(InputError, match="queries and keys of two sequences"):
        attend(COSFORMER, False, module, q, k, k, torch.ones(3, 5, dtype=torch.bool), is_causal=False)


def test_autocast(build, tokens):
    """Rotary embeddings leave queries in float32 while values are lowered; every length gives the same dtype."""
    model = build("llama")
    wanted = logits(model, tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(logits(model, tokens).float(), wanted, rtol=0.1, atol=0.2)
        assert logits(model, tokens[:, :1].expand(2, 60)).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_positions_in_a_cache_reach_the_scores_that_look_at_them(build, tokens, kind):
    (name,) = register(get_score("cosformer", M=100), "cosformer-100")
    model = build("llama", name)
    whole = logits(model, tokens)
    cache = (
        DynamicCache(config=model.config) if kind == "dynamic" else StaticCache(config=model.config, max_cache_len=16)
    )
    parts = [logits(model, part, cache=cache, use_cache=True) for part in tokens.split((5, 1, 3), dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, **CLOSE)


@pytest.mark.slow
def test_compiling_a_model_or_a_layer_in_one_piece(build, tokens):
    model = build("llama")
    wanted = logits(model, tokens, use_cache=False)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(logits(compiled, tokens, use_cache=False), wanted, rtol=1e-5, atol=1e-5)
    for layer in model.model.layers:
        layer.forward = torch.compile(layer.forward, backend="eager", fullgraph=True)
    torch.testing.assert_close(logits(model, tokens, use_cache=False), wanted, rtol=1e-5, atol=1e-5)
    torch._dynamo.reset()
