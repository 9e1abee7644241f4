"""The decoder at its published size, 114 132 480 parameters and SSA's: three steps, and everything after them."""

import resource
import time

import numpy as np
import pytest
import torch

from phasekit.checkpoint import load_checkpoint, save_checkpoint
from phasekit.language import SHAPES, build, load, parameter_count, save
from phasekit.language.batches import following
from phasekit.language.tokenizer import train_tokenizer, wrapped
from phasekit.language.training import Predictor, loss_of
from phasekit.scores import get_score
from phasekit.transformers.training import Training, train
from tests.language.texts import sentences

VOCABULARY, TOKENS, STEPS = 50_256, 256, 3
CPU = torch.device("cpu")


@pytest.mark.nightly
@pytest.mark.parametrize("score", ["softmax", "ssa"])
def test_three_steps_of_the_114_million_decoder(score, tmp_path, capsys):
    model = build(SHAPES["decoder-114m"], VOCABULARY, get_score(score))
    own = {name: p for name, p in model.named_parameters() if "score_norm" in name}
    assert parameter_count(model) == 114_132_480 + (2 * 24 * 12 if score == "ssa" else 0)
    assert sum(p.numel() for p in own.values()) == (576 if score == "ssa" else 0)
    draw = np.random.default_rng(0).integers(5, VOCABULARY, (STEPS, 1, TOKENS))
    batches = [following(tokens, np.ones(tokens.shape, dtype=bool)) for tokens in draw]
    seen, begun = {}, time.perf_counter()

    def loss(network, number):
        return loss_of(network, batches[number], CPU)

    network = Predictor(model)
    for parameter in own.values():
        parameter.register_post_accumulate_grad_hook(
            lambda p: seen.setdefault(id(p), []).append(bool(torch.isfinite(p.grad).all()))
        )
    history = train(network, loss, Training(steps=STEPS, batch=1, rate=1e-4), seed=0, run={})
    seconds = (time.perf_counter() - begun) / STEPS
    assert np.isfinite(history.loss).all()
    assert np.isfinite(history.gradient_norm).all()
    assert all(seen[id(p)] == [True] * STEPS for p in own.values()), "every n and b has a finite gradient in each step"

    model.eval()
    given = torch.from_numpy(draw[0])
    mask = torch.ones_like(given)
    with torch.no_grad():
        wanted = model(input_ids=given, attention_mask=mask).logits
        changed = given.clone()
        changed[:, 200:] = 7
        after = model(input_ids=changed, attention_mask=mask).logits
    assert torch.equal(wanted[:, :200], after[:, :200]), "the future isn't seen"
    assert not torch.equal(wanted[:, 200:], after[:, 200:])

    state = {f"model {name}": value for name, value in network.state_dict().items()}
    save_checkpoint(tmp_path / "state.npz", {"what": "weights"}, state)
    again = Predictor(build(SHAPES["decoder-114m"], VOCABULARY, get_score(score), seed=1))
    found = load_checkpoint(tmp_path / "state.npz", {"what": "weights"})
    again.load_state_dict({name.removeprefix("model "): value for name, value in found.items()})
    with torch.no_grad():
        assert torch.equal(again.model.eval()(input_ids=given, attention_mask=mask).logits, wanted)
    del again, found, state

    save(tmp_path / "folder", model, wrapped(train_tokenizer(sentences(100), 300)))
    reloaded = load(tmp_path / "folder").model
    with torch.no_grad():
        difference = (reloaded(input_ids=given, attention_mask=mask).logits - wanted).abs().amax()
    assert difference < 1e-5
    del reloaded

    keyword = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "attention_mask": mask[:, :32]}
    cached, plain = (model.generate(input_ids=given[:, :32], use_cache=use, **keyword) for use in (True, False))
    assert cached.tolist() == plain.tolist()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    with capsys.disabled():
        print(f"\n114M decoder, {score}: {seconds:.1f} s a step of 1 x {TOKENS} tokens, at most {memory:.1f} GB so far")
