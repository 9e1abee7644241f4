"""Scores of sentences: how probable a model finds them.

Three ways, in nats:

* decoders: the log-likelihood Σ_t ln p(w_t | <s> w_1 … w_{t−1}) of the words (</s> isn't counted, as in lm-eval);
* encoders, as BabyBERTa's authors score (P. Huebner et al., doi:10.18653/v1/2021.conll-1.49, and their code): the mean
  over all tokens, <s> and </s> too, of −ln p(w_t | the whole sentence), nothing masked. A model that wasn't trained to
  predict what it sees has no reason to be good at that, and one that was sees the answer;
* encoders, as masked models should be scored (J. Salazar et al., arXiv:1910.14659): the pseudo-log-likelihood
  Σ_t ln p(w_t | the sentence with w_t masked) of the words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from phasekit.errors import InputError
from phasekit.language.sentences import examined, is_encoder, marked, of_equal_length, rows_of

Array = NDArray[np.float64]
#: From sentences to a number each, the higher the more probable.
Scorer = Callable[[Sequence[str]], Array]

#: Sentences in a batch.
BATCH = 256


def scorers(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: int = BATCH) -> dict[str, Scorer]:
    """Return the scores by which a model's sentences are compared, by name; for all of them higher is better.

    Encoders: ``mean_cross_entropy`` (with a minus), ``pseudo_log_likelihood``; decoders: ``log_likelihood``.
    """
    if not is_encoder(model):
        return {"log_likelihood": partial(log_likelihood, model, tokenizer, batch=batch)}
    return {
        "mean_cross_entropy": lambda sentences: -mean_cross_entropy(model, tokenizer, sentences, batch),
        "pseudo_log_likelihood": partial(pseudo_log_likelihood, model, tokenizer, batch=batch),
    }


def log_likelihood(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], batch: int = BATCH
) -> Array:
    """Return the log-likelihood of each sentence under a decoder, in nats, without </s>; shape (sentences,).

    Raises
    ------
    InputError
        For an encoder, a sentence longer than the model's positions, and as
        :func:`phasekit.language.sentences.rows_of`.
    """
    _needs(model, encoder=False)
    return _scored(model, tokenizer, sentences, batch, lambda tokens: log_p_next(model, tokens)[:, :-1].sum(axis=1))


def mean_cross_entropy(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], batch: int = BATCH
) -> Array:
    """Return the mean cross-entropy of each unmasked sentence under an encoder, in nats a token; shape (sentences,).

    The lower the better, unlike the other scores.

    Raises
    ------
    InputError
        For a decoder, a sentence longer than the model's positions, and as
        :func:`phasekit.language.sentences.rows_of`.
    """
    _needs(model, encoder=True)
    return _scored(model, tokenizer, sentences, batch, lambda tokens: -_log_p(model, tokens, tokens).mean(axis=1))


def pseudo_log_likelihood(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], batch: int = BATCH
) -> Array:
    """Return the pseudo-log-likelihood of each sentence under an encoder, in nats; shape (sentences,).

    Raises
    ------
    InputError
        For a decoder, a tokenizer without <mask>, a sentence longer than the model's positions, and as
        :func:`phasekit.language.sentences.rows_of`.
    """
    _needs(model, encoder=True)
    mask = marked(tokenizer, "mask_token")
    return _scored(model, tokenizer, sentences, batch, lambda tokens: log_p_masked(model, tokens, mask).sum(axis=1))


def log_p_next(model: PreTrainedModel, tokens: NDArray[np.int64]) -> Array:
    """Return ln p of every token but the first, given those before it.

    Parameters
    ----------
    tokens : integer array, shape (rows, tokens)

    Returns
    -------
    array, shape (rows, tokens − 1)
    """
    return _log_p(model, tokens[:, :-1], tokens[:, 1:])


def log_p_masked(model: PreTrainedModel, tokens: NDArray[np.int64], mask: int) -> Array:
    """Return ln p of every token but the first and the last, each masked alone.

    Parameters
    ----------
    tokens : integer array, shape (rows, tokens)
    mask : int
        The token that hides another.

    Returns
    -------
    array, shape (rows, tokens − 2)
    """
    found = []
    for place in range(1, tokens.shape[1] - 1):
        hidden = tokens.copy()
        hidden[:, place] = mask
        found.append(_log_p(model, hidden, tokens, place))
    return np.concatenate(found, axis=1)


def _log_p(
    model: PreTrainedModel, seen: NDArray[np.int64], wanted: NDArray[np.int64], place: int | None = None
) -> Array:
    """Return ln p of the tokens wanted at each place, or at one, of what the model sees."""
    where = slice(None) if place is None else slice(place, place + 1)
    with examined(model):
        keyword = {} if is_encoder(model) else {"use_cache": False}
        logits: Tensor = model(input_ids=torch.from_numpy(seen).to(model.device), **keyword).logits[:, where]
        chosen = torch.from_numpy(wanted[:, where]).to(model.device)[..., None]
        exact = logits if logits.dtype == torch.float64 else logits.float()
        found = exact.log_softmax(dim=-1).gather(-1, chosen)[..., 0].double().cpu().numpy()
    if not np.isfinite(found).all():
        raise ArithmeticError("the model gave a probability that is 0 or no number")
    return np.asarray(found)


def _scored(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    batch: int,
    score: Callable[[NDArray[np.int64]], Array],
) -> Array:
    """Score each different row of tokens once: equal sentences get equal scores, to the last digit."""
    rows = rows_of(model, tokenizer, sentences)
    found: dict[tuple[int, ...], float] = {}
    for tokens in of_equal_length(model, rows, batch):
        found.update(zip(map(tuple, tokens.tolist()), score(tokens).tolist(), strict=True))
    return np.array([found[row] for row in rows])


def _needs(model: PreTrainedModel, *, encoder: bool) -> None:
    if is_encoder(model) != encoder:
        kind = "guesses masked tokens" if encoder else "predicts the next token"
        raise InputError("model", type(model).__name__, f"this score needs one that {kind}")
