"""Read attention masks: which keys a query may see, and what is added to its logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from phasekit.errors import InputError
from phasekit.scores.precision import compute_dtype, widen


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


#: Where numbers can't be added to a logit, an additive mask hides a key by this or less (e^−1000 is 0 in float64).
NEVER = -1000.0


def read_mask(mask: Tensor | None, logits: Tensor) -> Mask:
    """Take a boolean or additive mask apart; the bias comes in the precision that ``logits`` are computed in.

    Raises
    ------
    InputError
        For an integer mask, or a shape that doesn't broadcast to the logits.
    """
    if mask is None:
        return Mask(None, None)
    check_mask("mask", mask, logits.shape)
    if mask.dtype == torch.bool:
        return Mask(mask, None)
    dtype = compute_dtype(logits)
    keep = ~(mask <= hiding(mask.dtype, dtype))  # NaN hides nothing: it has to show in the weights
    return Mask(keep, torch.where(keep, mask, 0).to(dtype))


def check_mask(name: str, mask: Tensor, logits: Sequence[int]) -> None:
    """Raise InputError unless the mask is boolean or floating point and broadcasts to the logits' shape."""
    require_tensor(name, mask)
    fits = zip(reversed(mask.shape), reversed(logits), strict=False)
    if mask.dim() > len(logits) or any(size not in (1, full) for size, full in fits):
        raise InputError(name, tuple(mask.shape), f"its shape must broadcast to the logits' {tuple(logits)}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise InputError(name, str(mask.dtype), "must be boolean (True: may attend) or floating point (added)")


def require_tensor(name: str, mask: Tensor) -> None:
    """Raise InputError unless the mask is a tensor (callers hand in NumPy arrays and lists)."""
    if not isinstance(mask, Tensor):
        raise InputError(name, type(mask).__name__, "must be a torch tensor, or None")


def hiding(*dtypes: torch.dtype) -> float:
    """Return the number from which on an additive mask excludes a key: half the most negative one of all dtypes.

    Model libraries exclude by the most negative number, and may have added something to it. A row full of such numbers
    must see nothing; taken as numbers they would cancel, and the row would attend to all that it was forbidden to see.
    """
    return max(torch.finfo(dtype).min for dtype in dtypes) / 2


def boolean_mask(mask: Tensor | None, logits: Tensor, score: str) -> Tensor | None:
    """Return where a query may attend, for scores in which adding a number to a logit has no meaning.

    Raises
    ------
    InputError
        If an additive mask holds anything but 0 and numbers from -1000 down to -inf.
    """
    keep, bias = read_mask(mask, logits)
    if keep is None or bias is None:
        return keep
    hidden = bias <= NEVER
    if not bias.is_meta and bool(((bias != 0) & ~hidden).any()):
        allowed = f"score {score} takes boolean masks, or additive ones of 0 and {NEVER:g} to -inf only"
        raise InputError("mask", "additive", allowed)
    return keep & ~hidden


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
