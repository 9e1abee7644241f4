"""Attention in blocks of keys, for long contexts: memory grows with the length, not with its square.

:func:`attention_in_blocks` is all that the rest of the package uses.
"""

import torch
from torch import Tensor

from phasekit.attention.call import Call
from phasekit.attention.lean.autograd import lean_attention
from phasekit.attention.lean.flex import flex_attention
from phasekit.attention.lean.passes import Fixed
from phasekit.scores import ElementwiseSoftmax

__all__ = ["attention_in_blocks"]


def attention_in_blocks(path: str, call: Call) -> Tensor:
    """Return the output of a call, (..., heads, queries, value dim), without a matrix of weights.

    Parameters
    ----------
    path : "lean" or "flex"
    call : Call
        Of a score of the softmax family, and with at least one logit.
    """
    assert isinstance(call.score, ElementwiseSoftmax)
    seed = int(torch.empty((), dtype=torch.int64).random_(2**62)) if call.dropout else 0
    names = tuple(call.score.learnable)
    fixed = Fixed(call.score, names, call.scale, call.causal, call.offset, call.dropout, seed)
    attention = lean_attention if path == "lean" else flex_attention
    output = attention(fixed, *call.batched())
    return output.reshape(*call.lead, *output.shape[1:])
