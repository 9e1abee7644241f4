"""A multi-head attention layer with any score, in the place of ``torch.nn.MultiheadAttention``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from phasekit.attention.attention import ScoredAttention
from phasekit.attention.call import probability, read_call
from phasekit.attention.explicit import explicit_weights
from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.scores import Score


class ScoredMultiheadAttention(nn.Module):
    """``torch.nn.MultiheadAttention(..., batch_first=True)`` with a score in the place of softmax.

    Projections have the names and the initialisation of torch's layer, so that its ``state_dict`` loads into this one:
    the score's parameters, of which it knows none, keep their start. Masks are torch's for that layer: **True hides**.

    Parameters
    ----------
    embed_dim, num_heads, dropout, bias, kdim, vdim, device, dtype
        As in ``torch.nn.MultiheadAttention``.
    score, learn, path
        As in :class:`ScoredAttention`.

    Raises
    ------
    InputError
        If ``embed_dim`` isn't divisible by ``num_heads``, or for a score as in :class:`ScoredAttention`.
    """

    # torch.nn.TransformerEncoderLayer asks its attention for these. The last one keeps it from replacing the layer by
    # its own fused softmax in evaluation mode.
    batch_first = True
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        score: Score | str = "ssa",
        learn: bool = True,
        path: str = "auto",
    ) -> None:
        super().__init__()
        embed_dim = whole_number("embed_dim", embed_dim, least=1)
        if embed_dim % whole_number("num_heads", num_heads, least=1):
            raise InputError("num_heads", num_heads, f"must divide embed_dim = {embed_dim}")
        self.embed_dim, self.num_heads = embed_dim, int(num_heads)
        self.dropout = probability("dropout", dropout)
        self.kdim = whole_number("kdim", embed_dim if kdim is None else kdim, least=1)
        self.vdim = whole_number("vdim", embed_dim if vdim is None else vdim, least=1)
        joint = self.kdim == self.vdim == embed_dim
        dims = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        shapes = {f"{name}_proj_weight": None if joint else (embed_dim, dim) for name, dim in dims.items()}
        for name, shape in {**shapes, "in_proj_weight": (3 * embed_dim, embed_dim) if joint else None}.items():
            matrix = None if shape is None else nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, matrix)
        empty = torch.empty(3 * embed_dim, device=device, dtype=dtype)
        self.in_proj_bias = nn.Parameter(empty) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.attention = ScoredAttention(num_heads, score, learn=learn, path=path).to(device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the projections as torch does, and put the score's parameters to their start."""
        for name, parameter in self.named_parameters(recurse=False):
            nn.init.zeros_(parameter) if "bias" in name else nn.init.xavier_uniform_(parameter)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)
        if self.attention.score_parameters is not None:
            self.attention.score_parameters.reset_parameters()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take what torch's layer saved, too: it knows no score parameters, which then stay where they are."""
        own = {f"{prefix}attention.{name}": value for name, value in self.attention.state_dict().items()}
        if own.keys().isdisjoint(state_dict):
            state_dict.update(own)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, and the weights if asked for.

        Parameters
        ----------
        query : Tensor, shape (batch, queries, embed_dim) or (queries, embed_dim)
        key, value : Tensor, shape (batch, keys, kdim or vdim) or without the batch
        key_padding_mask : Tensor, optional, shape (batch, keys)
            Boolean (True: hidden) or added.
        need_weights : bool
            Whether to return the weights too, which needs the query × key matrix. (Torch's default is True.)
        attn_mask : Tensor, optional, shape (queries, keys) or (batch·heads, queries, keys)
            Boolean (True: hidden) or added.
        average_attn_weights : bool
            Whether the returned weights are averaged over heads.
        is_causal : bool
            Hide the keys behind each query. Needs no mask besides it.

        Returns
        -------
        output : Tensor of the query's shape
        weights : Tensor, shape (batch, [heads,] queries, keys), or None
            Before dropout.

        Raises
        ------
        InputError
            For arguments that don't fit together.
        """
        for name, given in (("query", query), ("key", key), ("value", value)):
            if not isinstance(given, Tensor) or not given.is_floating_point():
                raise InputError(name, getattr(given, "dtype", given), "must be a tensor of floating-point numbers")
        if query.dim() == 2:
            padding = None if key_padding_mask is None else key_padding_mask[None]
            output, weights = self.forward(
                query[None], key[None], value[None], padding, need_weights, attn_mask, average_attn_weights, is_causal
            )
            return output[0], None if weights is None else weights[0]
        if query.dim() != 3 or key.dim() != 3 or value.dim() != 3:
            raise InputError("query", tuple(query.shape), "must be (batch, length, dim), like key and value")
        q, k, v = self._project(query, key, value)
        mask = self._mask(attn_mask, key_padding_mask, query.shape[0])
        dropout = self.dropout if self.training else 0.0
        mixed = self.attention(q, k, v, mask, dropout, is_causal)
        output = self.out_proj(mixed.transpose(1, 2).flatten(-2))
        if not need_weights:
            return output, None
        parameters = self.attention.parameter_values()
        call = read_call(self.attention.score, q, k, v, mask, 0.0, is_causal, None, False, parameters, 0)
        weights = explicit_weights(call)
        return output, weights.mean(dim=1) if average_attn_weights else weights

    def _project(self, *inputs: Tensor) -> list[Tensor]:
        """Return queries, keys and values, (batch, heads, length, head dim)."""
        # as attributes: pruning, parametrisations and functional calls put other tensors there
        joint: Any = self.in_proj_weight
        matrices = joint.chunk(3) if joint is not None else [getattr(self, f"{name}_proj_weight") for name in "qkv"]
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        projected = []
        for given, matrix, bias in zip(inputs, matrices, biases, strict=True):
            if given.shape[-1] != matrix.shape[1]:
                raise InputError("dim", given.shape[-1], f"must be {matrix.shape[1]}")
            flat = nn.functional.linear(given, matrix, bias)
            shape = (self.num_heads, self.embed_dim // self.num_heads)
            projected.append(flat.view(*flat.shape[:2], *shape).transpose(1, 2))
        return projected

    def _mask(self, attn_mask: Tensor | None, padding: Tensor | None, batch: int) -> Tensor | None:
        """Join the two masks into one of the kind that attention takes (True: may attend)."""
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.reshape(batch, self.num_heads, *attn_mask.shape[1:])
        if padding is not None:
            padding = padding[:, None, None, :]
        given = [mask for mask in (attn_mask, padding) if mask is not None]
        if all(mask.dtype == torch.bool for mask in given):
            kept = [~mask for mask in given]
            return kept[0] & kept[1] if len(kept) == 2 else (kept[0] if kept else None)
        added = [
            torch.zeros_like(mask, dtype=torch.get_default_dtype()).masked_fill_(mask, -torch.inf)
            if mask.dtype == torch.bool
            else mask
            for mask in given
        ]
        return added[0] + added[1] if len(added) == 2 else added[0]
