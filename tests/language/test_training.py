"""Training: matched arms, transformers' own losses beside ours, what is watched, and runs that were killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.language import LanguageModel, Shape, build, prepare, train_language
from phasekit.language.corpus import CACHE
from phasekit.language.monitor import attention_measures, learned_parameters
from phasekit.language.training import Predictor, held_out_batches, loss_of, mean_loss, training_batch
from phasekit.scores import get_score
from phasekit.transformers import Training
from tests.language.texts import sentences, write

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"layers": 2, "heads": 4, "width": 32, "hidden": 64, "longest": 64}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return str(write(tmp_path_factory.mktemp("text"), "text.txt", sentences(3000)))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv(CACHE, str(tmp_path_factory.getbasetemp() / "texts"))


@pytest.fixture
def subject(text):
    def make(family, **fields):
        corpus = {"text": text, "vocabulary": 320, "held_out": 0.1}
        return LanguageModel(corpus=corpus, **{"shape": Shape(family=family, **SMALL), "score": "ssa", **fields})

    return make


def digests(subject, seed=0, count=20, order="shuffled"):
    batch_at = training_batch(subject, prepare(subject.corpus), Training(batch=8), seed, order)
    return [batch_at(number).digest for number in range(count)]


@pytest.mark.parametrize("family", ["nemotron", "babyberta"])
def test_all_arms_see_the_same_batches(subject, family):
    own = subject(family)
    wanted = digests(own)
    assert len(set(wanted)) == len(wanted)
    for other in (own.at(score="softmax"), own.at(learned="no"), own.at(score="temperature")):
        assert digests(other) == wanted
    assert digests(own, seed=1) != wanted
    assert digests(own, order="given") != wanted


@pytest.mark.parametrize("family", ["nemotron", "gpt2", "babyberta"])
def test_no_batch_has_a_held_out_sentence(subject, family):
    own = subject(family, examples="sentences")
    text = prepare(own.corpus)
    held_out = {tuple(text.held_out[k]) for k in range(len(text.held_out))}
    seen = set()
    batch_at = training_batch(own, text, Training(batch=64), 0, "shuffled")
    for number in range(len(text.train) // 64 + 1):
        batch = batch_at(number)
        rows = batch.targets if own.kind == "encoder" else batch.inputs
        seen |= {tuple(row[visible][1:-1]) for row, visible in zip(rows, batch.visible, strict=True)}
    assert len(held_out) > 20
    assert seen == {tuple(text.train[k]) for k in range(len(text.train))}
    assert not seen & held_out


@pytest.mark.parametrize("family", ["nemotron", "gpt2", "babyberta"])
def test_the_loss_is_that_of_transformers(subject, family):
    own = subject(family)
    text = prepare(own.corpus)
    batch = training_batch(own, text, Training(batch=8), 0, "shuffled")(3)
    model = build(own.shape, text.vocabulary, own.score, dtype=torch.float64)
    labels = torch.from_numpy(np.where(batch.counts, batch.targets, -100))
    given = {"input_ids": torch.from_numpy(batch.inputs), "attention_mask": torch.from_numpy(batch.visible).long()}
    if own.kind == "decoder":  # transformers shifts the labels itself
        labels = torch.from_numpy(np.where(batch.visible, batch.inputs, -100))
    with torch.no_grad():
        theirs, ours = model(**given, labels=labels).loss, loss_of(Predictor(model), batch, CPU)
    assert float(ours) == pytest.approx(float(theirs), rel=1e-6)


def test_the_mean_loss_weighs_tokens_alike(subject):
    own = subject("babyberta")
    text = prepare(own.corpus)
    batches = held_out_batches(own, text)
    network = Predictor(build(own.shape, text.vocabulary, own.score))
    logits = [network.model(torch.from_numpy(b.inputs), torch.from_numpy(b.visible).long()).logits for b in batches]
    logits = [x[torch.from_numpy(b.counts)].detach() for x, b in zip(logits, batches, strict=True)]
    each = [
        torch.nn.functional.cross_entropy(x, torch.from_numpy(b.targets[b.counts]), reduction="none")
        for x, b in zip(logits, batches, strict=True)
    ]
    assert mean_loss(network, batches) == pytest.approx(float(torch.cat(each).mean()), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["nemotron", pytest.param("gpt2", marks=pytest.mark.nightly), "babyberta"])
@pytest.mark.parametrize("score", [pytest.param("softmax", marks=pytest.mark.nightly), "ssa"])
def test_a_grammar_is_learned(subject, family, score):
    """Held-out loss below that of somebody who knows how often each token comes, but no grammar."""
    own = subject(family, score=score, examples="sentences")
    text = prepare(own.corpus)
    _, history = train_language(own, Training(steps=150, batch=32, rate=3e-3), watch_every=50)
    often = np.bincount(text.train.tokens, minlength=text.vocabulary) / len(text.train.tokens)
    nothing_learned = -(often[often > 0] * np.log(often[often > 0])).sum()
    losses = history.watched["loss"]
    assert losses[0] > nothing_learned
    assert losses[-1] < 0.7 * nothing_learned
    if score == "ssa":
        assert np.ptp(history.watched["n 0.0"]) > 1e-3, "its parameters move"


@pytest.mark.parametrize("family", ["nemotron", "gpt2", "babyberta"])
def test_what_is_watched_of_attention_is_what_transformers_attention_does(subject, family):
    """With softmax, against the attention of transformers itself, row by row."""
    own = subject(family, score="softmax", examples="sentences")
    text = prepare(own.corpus)
    batch = held_out_batches(own, text)[0]
    model = build(own.shape, text.vocabulary, own.score, dtype=torch.float64).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    found = attention_measures(model, batch, causal=own.kind == "decoder")
    model.set_attn_implementation("eager")
    given = {"input_ids": torch.from_numpy(batch.inputs), "attention_mask": torch.from_numpy(batch.visible).long()}
    with torch.no_grad():
        layers = model(**given, output_attentions=True).attentions
    for layer, weights in enumerate(layers):
        for head in range(weights.shape[1]):
            rows = []
            for k in range(len(batch.inputs)):
                length = int(batch.visible[k].sum())
                for place in range(length):
                    keys = place + 1 if own.kind == "decoder" else length
                    if keys > 1:
                        row = weights[k, head, place, :keys].numpy()
                        rows.append((1 - row.max(), -(row * np.log(row)).sum() / np.log(keys), row.max() > 0.99))
            for name, wanted in zip(("mass", "entropy", "saturated"), np.mean(rows, axis=0), strict=True):
                assert found[f"{name} {layer}.{head}"] == pytest.approx(wanted, abs=1e-6)  # rotary angles are float32


@pytest.mark.parametrize(("learned", "names"), [("head", 16), ("layer", 4), ("no", 0)])
def test_learned_parameters_are_named_by_layer_and_head(subject, learned, names):
    own = subject("gpt2", learned=learned)
    found = learned_parameters(build(own.shape, 320, get_score("ssa:n=2"), learned=learned))
    assert len(found) == names
    assert all(value == pytest.approx(2.0) for name, value in found.items() if name.startswith("n "))
    assert ("n 1.3" in found, "n 1" in found) == (learned == "head", learned == "layer")


class Stop(Exception):
    """Stands for whatever ends a run."""


@pytest.mark.parametrize(("family", "dropout"), [("nemotron", 0.0), ("gpt2", 0.2), ("babyberta", 0.2)])
def test_a_run_that_was_stopped_goes_on_to_the_last_bit(subject, tmp_path, family, dropout):
    """What is dropped, and masked, too."""
    own = subject(family, shape=Shape(family=family, dropout=dropout, **SMALL))
    settings = Training(steps=25, batch=4)

    def pause(save):
        save()
        raise Stop

    file = tmp_path / "state.npz"
    with pytest.raises(Stop):
        train_language(own, settings, seed=1, checkpoint=file, watch_every=10, pause=pause)
    torch.manual_seed(99)  # whatever torch's own generator did meanwhile
    resumed, part = train_language(own, settings, seed=1, checkpoint=file, watch_every=10)
    whole, history = train_language(own, settings, seed=1, watch_every=10)
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))
    np.testing.assert_array_equal(part.loss, history.loss)
    assert list(part.watched) == list(history.watched)
    if dropout:
        still, _ = train_language(own.at(shape=own.shape.at(dropout=0.0)), settings, seed=1)
        assert not torch.equal(next(still.parameters()), next(whole.parameters()))


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_the_last_bit(tmp_path, text):
    script = f"""
import os, signal
from pathlib import Path
from phasekit.language import LanguageModel, Shape, train_language
from phasekit.transformers import Training
count = []
def pause(save):
    save()
    count.append(1)
    if len(count) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
corpus = {{"text": {text!r}, "vocabulary": 320, "held_out": 0.1}}
subject = LanguageModel(corpus=corpus, shape=Shape(**{SMALL!r}), score="ssa")
file = Path({str(tmp_path / "s.npz")!r})
train_language(subject, Training(steps=30, batch=4), seed=3, checkpoint=file, pause=pause)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    corpus = {"text": text, "vocabulary": 320, "held_out": 0.1}
    own, settings = LanguageModel(corpus=corpus, shape=Shape(**SMALL), score="ssa"), Training(steps=30, batch=4)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        resumed, _ = train_language(own, settings, seed=3, checkpoint=tmp_path / "s.npz")
        whole, _ = train_language(own, settings, seed=3)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))


def test_a_checkpoint_of_another_run_is_refused(subject, tmp_path):
    own, settings, file = subject("nemotron"), Training(steps=25, batch=4), tmp_path / "state.npz"

    def pause(save):
        save()
        raise Stop

    with pytest.raises(Stop):
        train_language(own, settings, checkpoint=file, pause=pause)
    for other, plan in ((own, settings.at(steps=50)), (own.at(score="softmax"), settings)):
        with pytest.raises(InputError, match="belongs to a run with other"):
            train_language(other, plan, checkpoint=file)


def test_accumulated_batches_are_one_batch(subject):
    """For blocks, whose batches all have the same number of tokens."""
    own = subject("nemotron", length=16)
    one, _ = train_language(own, Training(steps=5, batch=8, precision="float64"))
    two, _ = train_language(own, Training(steps=5, batch=4, accumulate=2, precision="float64"))
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert (a - b).abs().amax() < 1e-5  # Adam divides by tiny gradients


def test_what_does_not_fit_is_refused_before_any_work(subject):
    with pytest.raises(InputError, match="positions of the model"):
        subject("nemotron", length=65)
    with pytest.raises(InputError, match="lengths of their own"):
        subject("babyberta", length=16)
    own = subject("babyberta", shape=Shape(family="babyberta", **{**SMALL, "longest": 8}))
    with pytest.raises(InputError, match="the longest document has"):
        train_language(own, Training(steps=1))
    whole = subject("nemotron")
    text = prepare(whole.corpus.at(held_out=0.0))
    with pytest.raises(InputError, match="no document was held out"):
        held_out_batches(whole, text)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # of torch's own compiler
def test_compiled_training_is_training(subject):
    own = subject("babyberta")
    plain, _ = train_language(own, Training(steps=3, batch=4, precision="float64"))
    compiled, _ = train_language(own, Training(steps=3, batch=4, precision="float64", compile=True))
    for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
        assert (a - b).abs().amax() < 1e-6
