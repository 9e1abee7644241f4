"""Read attention masks: which keys a query may see, and what is added to its logits."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from phasekit.errors import InputError
from phasekit.scores.precision import widen


class Mask(NamedTuple):
    """A mask taken apart. Both parts broadcast to the logits; None means "everything" and "nothing".

    Attributes
    ----------
    keep : Tensor of bool or None
        True where the query may attend.
    bias : Tensor or None
        Numbers to add, 0 where ``keep`` is False.
    """

    keep: Tensor | None
    bias: Tensor | None


def read_mask(mask: Tensor | None, logits: Tensor) -> Mask:
    """Take a boolean or additive mask apart.

    An additive mask excludes a key by ``-inf`` or by the most negative number of its dtype, the custom of model
    libraries: a row full of the latter would otherwise attend to everything it was forbidden to see.

    Raises
    ------
    InputError
        For an integer mask, or a shape that doesn't broadcast to the logits.
    """
    if mask is None:
        return Mask(None, None)
    if mask.dim() > logits.dim() or any(
        m not in (1, size) for m, size in zip(reversed(mask.shape), reversed(logits.shape), strict=False)
    ):
        raise InputError("mask", tuple(mask.shape), f"its shape must broadcast to the logits' {tuple(logits.shape)}")
    if mask.dtype == torch.bool:
        return Mask(mask, None)
    if not mask.is_floating_point():
        raise InputError("mask", str(mask.dtype), "must be boolean (True: may attend) or floating point (added)")
    keep = ~(mask <= torch.finfo(mask.dtype).min)  # NaN hides nothing: it has to show in the weights
    return Mask(keep, torch.where(keep, mask, 0))


def boolean_mask(mask: Tensor | None, logits: Tensor, score: str) -> Tensor | None:
    """Return where a query may attend, for scores in which adding a number to a logit has no meaning.

    Raises
    ------
    InputError
        If an additive mask holds anything but 0 and -inf.
    """
    keep, bias = read_mask(mask, logits)
    if bias is not None and bool((bias != 0).any()):
        raise InputError("mask", "additive", f"score {score} takes boolean masks, or additive ones of 0 and -inf only")
    return keep


def blind_rows(keep: Tensor) -> Tensor:
    """Return ``(..., queries, 1)``: True for rows that may attend nowhere."""
    return ~keep.any(dim=-1, keepdim=True)


def masked_softmax(transformed: Tensor, mask: Mask, dtype: torch.dtype) -> Tensor:
    """Return softmax(transformed + bias) over the visible keys, exactly 0 elsewhere and in blind rows.

    Plain differentiable operations: this is the reference that faster paths must agree with.
    """
    keep, bias = mask
    if bias is not None:
        transformed = widen(transformed) + bias
    if keep is None:
        return transformed.softmax(dim=-1).to(dtype)
    blind = blind_rows(keep)
    # Blind rows keep their finite logits through the softmax, so that no NaN arises, and are cleared behind it.
    weights = transformed.masked_fill(~(keep | blind), -torch.inf).softmax(dim=-1)
    return weights.masked_fill(blind, 0).to(dtype)
