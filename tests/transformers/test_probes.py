"""Saturation inside a network, measured against plain formulas; and what interventions change."""

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.scores import get_score
from phasekit.tasks.in_context import Shift, build_task
from phasekit.transformers import Architecture, Decoder, InContext, Training
from phasekit.transformers.evaluation import grid
from phasekit.transformers.in_context import answer, retune
from phasekit.transformers.interventions import Intervention
from phasekit.transformers.probes import MEASURES, probe

TINY = Architecture(layers=2, heads=2, width=8)
TASK = build_task("every", points=6)
PROMPTS = TASK.draw("test", 0, 0, 20, Shift(x_scale=5.0))


def sharp(score, **settings):
    """A network whose logits are large enough to saturate."""
    model = Decoder(TINY, 1, 1, get_score(score), seed=1, **settings)
    with torch.no_grad():
        for attention in model.attentions:
            attention.qkv.weight.mul_(6)
    return model


def rows_by_hand(model, score):
    """Return logits and weights of the first layer, computed from its weights, (prompts, heads, tokens, tokens)."""
    x = model.read_in(torch.from_numpy(PROMPTS.tokens))
    x = model.blocks[0].attention_norm(x + model.places.weight[: x.shape[1]])
    q, k = (part.reshape(*x.shape[:2], 2, 4) for part in model.blocks[0].attention.qkv(x).split(8, -1)[:2])
    logits = torch.einsum("bihd,bjhd->bhij", q, k) / 2
    past = torch.ones(x.shape[1], x.shape[1]).tril().bool()
    t = {
        "softmax": lambda z: z,
        "ssa": lambda z: 1.5 * z.sign() * (1 + 0.8 * z.abs()).log(),
        "temperature": lambda z: z / 2,
    }[score]
    return logits, t(logits).masked_fill(~past, -torch.inf).softmax(-1)


@pytest.mark.parametrize("score", ["softmax", "ssa", "temperature"])
def test_measures_are_what_they_say(score):
    settings = {"T": 2.0} if score == "temperature" else {}
    model = Decoder(TINY, 1, 1, get_score(score, **settings), seed=1, learned="no")
    with torch.no_grad():
        for attention in model.attentions:
            attention.qkv.weight.mul_(6)
        rows = probe(model, PROMPTS).rows
        logits, weights = rows_by_hand(model.double(), score)
    for answered, place in ((2, 4), (5, 10)):
        for head in range(2):
            p = weights[:, head, place, : place + 1].numpy()
            z = np.sort(logits[:, head, place, : place + 1].numpy(), axis=-1)
            np.testing.assert_allclose(rows["gap"][0, head, :, answered], z[:, -1] - z[:, -2], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(rows["largest"][0, head, :, answered], p.max(-1), rtol=1e-9)
            np.testing.assert_allclose(rows["mass"][0, head, :, answered], 1 - p.max(-1), rtol=1e-6, atol=1e-12)
            entropy = -(p * np.log(p)).sum(-1) / np.log(place + 1)
            np.testing.assert_allclose(rows["entropy"][0, head, :, answered], entropy, rtol=1e-9)


@pytest.mark.parametrize("score", ["softmax", "ssa", "temperature"])
def test_the_theorems_hold_inside_networks(score):
    found = probe(sharp(score), PROMPTS)
    assert found.beyond < 1e-9
    for measure in MEASURES:
        assert np.isnan(found.rows[measure][..., 0]).all(), "one key"
        assert np.isfinite(found.rows[measure][..., 1:]).all(), measure
    assert found.means().shape == (2, 2, len(MEASURES))
    assert found.mass_of_prompts.shape == (20, 2, 2)


@pytest.mark.parametrize("score", ["softmax", "ssa"])
def test_the_gradient_is_that_of_the_winner_s_weight(score):
    found = probe(sharp(score, learned="no"), PROMPTS).rows["gradient"]
    model = sharp(score, learned="no").double()
    logits, _ = rows_by_hand(model, score)
    z = logits[:, 0, 6, :7].detach().requires_grad_()
    weights = get_score(score).rows(z[:, None, :])[:, 0]
    (slope,) = torch.autograd.grad(weights.max(-1).values.sum(), z)
    others = slope.abs().scatter(-1, weights.argmax(-1, keepdim=True), 0.0).sum(-1)
    np.testing.assert_allclose(found[0, 0, :, 3], others, rtol=1e-8, atol=1e-14)


def test_scores_without_theorem_or_logits_have_no_number_there():
    for score, missing in (("sparsemax", {"lower", "upper"}), ("cosformer", {"lower", "upper", "gradient"})):
        found = probe(sharp(score), PROMPTS)
        assert {name for name, rows in found.rows.items() if np.isnan(rows).all()} == missing
        assert np.isnan(found.beyond)


def test_interventions_are_the_scores_that_they_amount_to():
    softmax = sharp("softmax")
    before = answer(softmax, PROMPTS)
    same = {
        "temperature 2": sharp("temperature"),
        "score ssa": sharp("ssa", learned="no"),
        "clip 1e+06": softmax,
    }
    with torch.no_grad():
        for attention in same["temperature 2"].attentions:
            attention.scored.score_parameters.raw_T.fill_(np.log(np.expm1(2.0)))
    changes = [Intervention(temperature=2.0), Intervention(score="ssa"), Intervention(clip=1e6)]
    for change in changes:
        found = answer(change.apply(softmax), PROMPTS)
        np.testing.assert_allclose(found, answer(same[change.words], PROMPTS), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(answer(softmax, PROMPTS), before)
    assert abs(answer(Intervention(clip=0.1).apply(softmax), PROMPTS) - before).max() > 1e-3
    one = answer(Intervention(score="ssa", layer=1).apply(softmax), PROMPTS)
    assert abs(one - answer(Intervention(score="ssa").apply(softmax), PROMPTS)).max() > 1e-4
    learned = sharp("ssa")
    np.testing.assert_allclose(
        answer(Intervention(clip=1e6).apply(learned), PROMPTS), answer(learned, PROMPTS), atol=1e-5
    )


def test_a_changed_network_can_be_trained_on():
    subject = InContext(task=TASK, architecture=TINY)
    changed = Intervention(score="ssa", layer=0, retuned=True).apply(subject.build())
    before = changed.read_in.weight.detach().clone()
    history = retune(changed, subject, Training(batch=4), seed=0, steps=3)
    assert history.loss.shape == (3,)
    assert not torch.equal(changed.read_in.weight, before)


def test_words_and_mistakes():
    assert Intervention().words == ""
    change = Intervention(temperature=2.0, clip=5.0, layer=1, retuned=True)
    assert change.words == "temperature 2 and clip 5 in layer 1, retuned"
    assert Intervention(**change.describe()) == change
    for wrong, words in (
        (lambda: Intervention(clip=0), "clip = 0"),
        (lambda: Intervention(score="none"), "score = 'none': unknown"),
        (lambda: Intervention(layer=2).apply(sharp("softmax")), "layer = 2: must be below 2"),
        (lambda: Intervention(score="cosformer").apply(sharp("softmax")), "no function of the logits"),
    ):
        with pytest.raises(InputError) as refused:
            wrong()
        assert words in str(refused.value)


def test_a_few_shifts_suit_every_task():
    for name in ("every", "linear-functions", "copy"):
        task = build_task(name)
        for shift in grid(task, "few"):
            task.check(shift)
