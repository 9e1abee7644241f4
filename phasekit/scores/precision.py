"""Which precision a score computes in."""

from typing import Any

import torch
from torch import Tensor

from phasekit.errors import InputError


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return float32 for bfloat16 and float16, otherwise the tensor's own dtype."""
    return torch.float32 if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.dtype


def check_tensors(score: str, **tensors: Any) -> None:
    """Raise InputError unless each is a tensor of floating-point numbers with at least one axis."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.dim() == 0:
            told = f"{tensor.dtype}, {tensor.dim()}-d" if isinstance(tensor, Tensor) else type(tensor).__name__
            allowed = "must be a torch tensor of floating-point numbers with at least one axis"
            raise InputError(f"score {score}: {name}", told, allowed)


def widen(tensor: Tensor) -> Tensor:
    """Return the tensor in the precision to compute in (itself, if that is its own)."""
    return tensor.to(compute_dtype(tensor))


def with_room(tensor: Tensor) -> Tensor:
    """Return queries or keys in a precision that holds their products: float32 for float16, which ends at 65504."""
    return tensor.float() if tensor.dtype == torch.float16 else tensor


def without_numbers(tensor: Tensor) -> bool:
    """Whether a tensor has no numbers to look at: empty, on the meta device, or traced by the compiler."""
    return torch.compiler.is_compiling() or tensor.is_meta or not tensor.numel()
