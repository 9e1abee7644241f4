"""Scaled dot-product attention with any score, in the place of torch's own."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from phasekit.attention.call import Call, alike, read_call
from phasekit.attention.explicit import explicit_attention
from phasekit.attention.lean import attention_in_blocks
from phasekit.attention.paths import PATHS, Choice, choose_path
from phasekit.checks import one_of, whole_number
from phasekit.errors import InputError
from phasekit.scores import Score, get_score


def scored_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    score: Score | str = "ssa",
    parameters: Mapping[str, Tensor] | None = None,
    offset: int = 0,
    path: str = "auto",
) -> Tensor:
    """Return ``dropout(score(scale · query·key)) @ value``: torch's ``scaled_dot_product_attention`` for any score.

    Parameters
    ----------
    query : Tensor, shape (..., heads, queries, dim)
    key : Tensor, shape (..., heads or key heads, keys, dim)
    value : Tensor, shape (..., heads or key heads, keys, value dim)
        Leading axes broadcast; without an axis of heads there is one head.
    attn_mask : Tensor, optional, broadcasting to (..., heads, queries, keys)
        Boolean (True: may attend) or additive. It acts behind the score's transform of the logits, never before it.
        A query that may attend nowhere gives zeros.
    dropout_p : float
        Probability with which a weight is dropped. Applied whenever it isn't 0, in training or not, as in torch.
    is_causal : bool
        Query i sees the keys up to ``i + offset`` only. May be combined with a mask, which torch refuses.
    scale : float, optional
        Factor on q·k, 1/√dim by default.
    enable_gqa : bool
        Grouped queries: ``heads`` may be a multiple of ``key heads``; consecutive heads share a key head.
    score : Score or str
    parameters : mapping of str to Tensor, optional
        The score's learned parameters, as ``score.make_parameters(heads)()`` returns them. By default the values in the
        score's fields.
    offset : int
        Position of the first query, counted from the first key: what a cache holds already.
    path : "auto", "explicit", "lean" or "flex"
        How it is computed; the result is the same (dropout draws other numbers). See :func:`choose_path`.

    Returns
    -------
    Tensor, shape (..., heads, queries, value dim), of the query's dtype

    Raises
    ------
    InputError
        For arguments that don't fit together, or a path that can't serve them.
    """
    score = score if isinstance(score, Score) else get_score(score)
    choice = choose_path(score, query, key, value, attn_mask, dropout_p=dropout_p, path=path)
    query, key, value = alike(query, key, value)
    call = read_call(score, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, parameters, offset)
    output, _ = run(call, choice.path)
    return output[0] if query.dim() == key.dim() == value.dim() == 2 else output


def run(call: Call, path: str) -> tuple[Tensor, Tensor | None]:
    """Return the output of a call, and its weights before dropout if the path has them."""
    if path == "explicit" or call.empty or call.query.is_meta:  # without numbers nothing can be cut into blocks
        return explicit_attention(call)
    return attention_in_blocks(path, call), None


class ScoredAttention(nn.Module):
    """Scaled dot-product attention with a score whose parameters are learned, one set for each head.

    Called like ``torch.nn.functional.scaled_dot_product_attention``. Parameters stay in float32, and
    :func:`phasekit.scores.parameter_groups` keeps them out of weight decay.

    Parameters
    ----------
    heads : int
        Query heads.
    score : Score or str
    learn : bool
        Whether the score's parameters are learned, starting from the score's fields, or stay there.
    path : "auto", "explicit", "lean" or "flex"

    Attributes
    ----------
    score_parameters : nn.Module or None
    last_path : Choice or None
        Which path the last call took, and why.

    Raises
    ------
    InputError
        For an unknown score, or one that can't be learned from where its fields start.
    """

    def __init__(self, heads: int, score: Score | str = "ssa", *, learn: bool = True, path: str = "auto") -> None:
        super().__init__()
        self.score = score if isinstance(score, Score) else get_score(score)
        self.heads = whole_number("heads", heads, least=1)
        self.score_parameters = self.score.make_parameters(self.heads) if learn else None
        self.path = one_of("path", path, PATHS)
        self.last_path: Choice | None = None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        *,
        offset: int = 0,
    ) -> Tensor:
        """Return the output; arguments and errors as in :func:`scored_attention`."""
        self.last_path = choose_path(self.score, query, key, value, attn_mask, dropout_p=dropout_p, path=self.path)
        given = query.shape[-3] if query.dim() > 2 else 1
        if self.score_parameters is not None and self.heads not in (1, given):
            raise InputError("query", tuple(query.shape), f"must have {self.heads} heads, as the learned parameters do")
        return scored_attention(
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            scale,
            enable_gqa,
            score=self.score,
            parameters=self.parameter_values(),
            offset=offset,
            path=self.last_path.path,
        )

    def parameter_values(self) -> dict[str, Tensor] | None:
        """Return the values of the score's parameters now, (heads, 1, 1) each; None if they aren't learned."""
        if self.score_parameters is None:
            return None
        values: dict[str, Tensor] = self.score_parameters()
        return values

    def extra_repr(self) -> str:
        return f"score={self.score.describe()}, path={self.path!r}"
