"""Scores of sentences against the same numbers computed one token at a time: no batches, no padding."""

import numpy as np
import pytest
import torch

from phasekit import InputError
from phasekit.language.likelihood import log_likelihood, mean_cross_entropy, pseudo_log_likelihood, scorers
from phasekit.language.perplexity import perplexity
from phasekit.language.sentences import longest, of_equal_length, rows_of
from tests.language.conftest import POSITIONS, SENTENCES

SCORES = ("sdpa", "ssa", "sparsemax")
DECODERS = ("nemotron", "gpt2")


def p_of(model, tokens):
    """ln p of every token of the vocabulary at every place of one row of tokens."""
    was = model.training
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens])).logits[0]
    model.train(was)
    return (logits - logits.logsumexp(-1, keepdim=True)).numpy()


def tokens_of(tokenizer, sentence):
    return [tokenizer.bos_token_id, *tokenizer(sentence, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]


def next_by_hand(model, tokens):
    """ln p of each token from the prefix before it alone: what comes later isn't there."""
    return np.array([p_of(model, tokens[:k])[-1, tokens[k]] for k in range(1, len(tokens))])


def masked_by_hand(model, tokenizer, tokens):
    found = []
    for k in range(1, len(tokens) - 1):
        hidden = [*tokens[:k], tokenizer.mask_token_id, *tokens[k + 1 :]]
        found.append(p_of(model, hidden)[k, tokens[k]])
    return np.array(found)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("family", DECODERS)
def test_log_likelihood_token_by_token(build, tokenizer, family, score):
    model = build(family, score)
    expected = [next_by_hand(model, tokens_of(tokenizer, sentence))[:-1].sum() for sentence in SENTENCES]
    for batch in (1, 2, 256):
        np.testing.assert_allclose(log_likelihood(model, tokenizer, SENTENCES, batch), expected, rtol=1e-9)


@pytest.mark.parametrize("score", SCORES)
def test_pseudo_log_likelihood_masking_by_hand(build, tokenizer, score):
    model = build("roberta", score)
    expected = [masked_by_hand(model, tokenizer, tokens_of(tokenizer, sentence)).sum() for sentence in SENTENCES]
    for batch in (1, 2, 256):
        np.testing.assert_allclose(pseudo_log_likelihood(model, tokenizer, SENTENCES, batch), expected, rtol=1e-9)


@pytest.mark.parametrize("score", SCORES)
def test_mean_cross_entropy_sentence_by_sentence(build, tokenizer, score):
    model = build("roberta", score)
    expected = []
    for sentence in SENTENCES:
        tokens = tokens_of(tokenizer, sentence)
        expected.append(-np.mean([row[token] for row, token in zip(p_of(model, tokens), tokens, strict=True)]))
    np.testing.assert_allclose(mean_cross_entropy(model, tokenizer, SENTENCES), expected, rtol=1e-9)


def test_a_padded_batch_gives_the_same(build, tokenizer):
    """Nothing is padded here, but others do: the masks of registered attention must make that the same."""
    for family in (*DECODERS, "roberta"):
        model = build(family).eval()
        padded = tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
        rows = rows_of(model, tokenizer, SENTENCES)
        with torch.no_grad():
            logits = model(input_ids=padded["input_ids"], attention_mask=padded["attention_mask"]).logits
        for row, wide, found in zip(rows, padded["input_ids"], logits, strict=True):
            assert wide[: len(row)].tolist() == list(row)
            log_p = found.log_softmax(-1)[: len(row)].numpy()
            np.testing.assert_allclose(log_p, p_of(model, list(row)), rtol=1e-8)


def test_scorers_are_higher_for_better_sentences(build, tokenizer):
    encoder, decoder = build("roberta"), build("nemotron")
    assert set(scorers(decoder, tokenizer)) == {"log_likelihood"}
    found = scorers(encoder, tokenizer)
    assert set(found) == {"mean_cross_entropy", "pseudo_log_likelihood"}
    np.testing.assert_allclose(
        found["mean_cross_entropy"](SENTENCES), -mean_cross_entropy(encoder, tokenizer, SENTENCES), rtol=1e-12
    )
    np.testing.assert_allclose(
        found["pseudo_log_likelihood"](SENTENCES), pseudo_log_likelihood(encoder, tokenizer, SENTENCES), rtol=1e-12
    )


def test_examining_leaves_the_mode_of_a_model(build, tokenizer):
    model = build("gpt2")  # has dropout
    assert model.training
    first, again = (log_likelihood(model, tokenizer, SENTENCES) for _ in range(2))
    assert model.training
    np.testing.assert_array_equal(first, again)


def test_equal_sentences_get_equal_scores(build, tokenizer):
    model = build("nemotron").float()
    one, *others = log_likelihood(model, tokenizer, ["a dog barks .", *SENTENCES, "a dog barks ."], batch=3)
    assert one == others[2] == others[-1]
    rows = rows_of(model, tokenizer, [*SENTENCES, *SENTENCES])
    batches = list(of_equal_length(model, rows, batch=2))
    assert sorted(tuple(row) for tokens in batches for row in tokens.tolist()) == sorted(set(rows))
    assert max(map(len, batches)) <= 2


@pytest.mark.parametrize("length", [None, 12])
@pytest.mark.parametrize("family", DECODERS)
def test_perplexity_by_a_loop(build, tokenizer, family, length):
    model = build(family)
    documents = [*SENTENCES, SENTENCES[0]]
    rows = [tokens_of(tokenizer, document) for document in documents]
    if length is not None:
        stream = [token for row in rows for token in row]
        rows = [stream[k * length : (k + 1) * length] for k in range(len(stream) // length)]
    losses = [-next_by_hand(model, row) for row in rows]
    found = perplexity(model, tokenizer, documents, length=length, batch=3)
    assert found.unit == ("document" if length is None else "block")
    assert found.value == pytest.approx(np.exp(np.concatenate(losses).mean()), rel=1e-9)
    np.testing.assert_allclose(found.nats.sum(axis=1), [loss.sum() for loss in losses], rtol=1e-9)
    for first, last, value, low, high in found.by_position():
        here = [x for loss in losses for position, x in enumerate(loss, 1) if first <= position <= last]
        assert value == pytest.approx(np.exp(np.mean(here)), rel=1e-9)
        assert not low > value
        assert not high < value
    positions = [(first, last) for first, last, *_ in found.by_position()]
    assert positions[:5] == [(1, 1), (2, 2), (3, 3), (4, 5), (6, 7)]
    assert positions[-1][1] >= max(map(len, losses)) >= positions[-1][0]


def test_pseudo_perplexity_by_a_loop(build, tokenizer):
    model = build("roberta")
    losses = [-masked_by_hand(model, tokenizer, tokens_of(tokenizer, sentence)) for sentence in SENTENCES]
    found = perplexity(model, tokenizer, SENTENCES)
    assert found.value == pytest.approx(np.exp(np.concatenate(losses).mean()), rel=1e-9)


@pytest.mark.parametrize("family", [*DECODERS, "roberta"])
def test_documents_longer_than_the_positions_are_cut(build, tokenizer, family):
    model, most = build(family), POSITIONS
    documents = [" ".join([*SENTENCES, *SENTENCES]), SENTENCES[0], " ".join(SENTENCES[:5])]
    found = perplexity(model, tokenizer, documents)
    assert found.nats.shape[0] == 3
    for nats, count, document in zip(found.nats, found.tokens, documents, strict=True):
        row, loss = tokens_of(tokenizer, document), []
        if family == "roberta":
            words = row[1:-1]
            for start in range(0, len(words), most - 2):
                loss += [*-masked_by_hand(model, tokenizer, [row[0], *words[start : start + most - 2], row[-1]])]
        else:
            for place in range(1, len(row)):  # what a token sees: from the last place where a piece begins
                begin = (place - 1) // (most - 1) * (most - 1)
                loss.append(-p_of(model, row[begin:place])[-1, row[place]])
        assert len(loss) == count.sum() == len(row) - (2 if family == "roberta" else 1)
        assert nats.sum() == pytest.approx(np.sum(loss), rel=1e-9)
    assert len(tokens_of(tokenizer, documents[0])) > 2 * most


def test_the_interval_is_that_of_drawn_documents(build, tokenizer):
    model = build("nemotron")
    draws = np.random.default_rng(0)
    words = ["the", "a", "cat", "dog", "cats", "dogs", "sleep", "bark", "near", "at", "old", "door"]
    documents = [" ".join(draws.choice(words, draws.integers(1, 12))) for _ in range(60)]
    found = perplexity(model, tokenizer, documents)
    nats, tokens = found.nats.sum(1), found.tokens.sum(1)
    chosen = draws.integers(60, size=(20_000, 60))
    means = nats[chosen].sum(1) / tokens[chosen].sum(1)
    low, high = np.log(found.interval)
    assert found.loss == pytest.approx((low + high) / 2)
    error = means.std() * np.sqrt(60 / 59)
    assert (high - low) / 2 == pytest.approx(2.001 * error, rel=0.05)  # Student's, 59 degrees of freedom
    alone = perplexity(model, tokenizer, documents[:1])
    assert np.isnan(alone.interval).all()


def test_longer_contexts_where_positions_go_on(build, tokenizer):
    documents = SENTENCES * 8
    rotary, learned = build("nemotron"), build("gpt2")
    assert (longest(rotary), longest(learned), longest(build("roberta"))) == (None, POSITIONS, POSITIONS)
    assert np.isfinite(perplexity(rotary, tokenizer, documents, length=4 * POSITIONS).value)
    assert np.isfinite(perplexity(learned, tokenizer, documents, length=POSITIONS).value)
    with pytest.raises(InputError, match=f"length = {POSITIONS + 1}: the model has learned {POSITIONS} positions"):
        perplexity(learned, tokenizer, documents, length=POSITIONS + 1)
    long = " ".join(["cat"] * POSITIONS)
    for model, score in ((learned, log_likelihood), (build("roberta"), pseudo_log_likelihood)):
        with pytest.raises(InputError, match="learned 48 positions"):
            score(model, tokenizer, [long])


def test_mistakes_are_one_line(build, tokenizer):
    decoder, encoder = build("gpt2"), build("roberta")
    small = build("gpt2")
    small.resize_token_embeddings(20)
    bare = tokenizer.__class__(tokenizer_object=tokenizer.backend_tokenizer, bos_token="<s>", eos_token="</s>")
    for make, words in (
        (lambda: log_likelihood(encoder, tokenizer, SENTENCES), "needs one that predicts the next token"),
        (lambda: mean_cross_entropy(decoder, tokenizer, SENTENCES), "needs one that guesses masked tokens"),
        (lambda: pseudo_log_likelihood(decoder, tokenizer, SENTENCES), "needs one that guesses masked tokens"),
        (lambda: pseudo_log_likelihood(encoder, bare, SENTENCES), "has no mask_token"),
        (lambda: log_likelihood(small, tokenizer, SENTENCES), "the model has tokens 0 to 19; it belongs to another"),
        (lambda: log_likelihood(decoder, tokenizer, [""]), "sentence = '': has no tokens"),
        (lambda: perplexity(decoder, tokenizer, []), "has no documents"),
        (lambda: perplexity(decoder, tokenizer, ["a"], length=40), "too few for one block"),
        (lambda: perplexity(encoder, tokenizer, ["a"], length=2), "encoders see sentences"),
    ):
        with pytest.raises(InputError) as refused:
            make()
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)
    broken = build("gpt2")
    torch.nn.init.constant_(broken.transformer.ln_f.weight, float("nan"))
    with pytest.raises(ArithmeticError, match="no number"):
        log_likelihood(broken, tokenizer, SENTENCES)
