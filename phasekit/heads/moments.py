"""Second moments of the data: how often two tokens stand at two positions."""

from __future__ import annotations

import torch
from torch import Tensor

from phasekit.tasks.copy import Tokens

# One-hot sequences handled at a time, in numbers. Far below 2^24, up to which float32 counts exactly.
_CHUNK_NUMBERS = 2**22


def pair_counts(tokens: Tokens, V: int, device: torch.device | str = "cpu") -> Tensor:
    """Count token pairs: C_jk[a, b] = Σ_μ [x_j = a][x_k = b].

    These V×V blocks are all that the energy with positional inputs needs to know about the data, so a training step
    costs the same for any P. Counts are summed in float64 over chunks whose own counts float32 holds exactly: the
    result is exact for any P below 2^53.

    Returns
    -------
    Tensor, shape (L, L, V, V), float64, indexed [j, k, a, b]
    """
    P, L = tokens.shape
    total = torch.zeros(L * V, L * V, dtype=torch.float64, device=device)
    rows = max(1, min(P, _CHUNK_NUMBERS // (L * V)))
    for start in range(0, P, rows):
        hot = one_hot(tokens[start : start + rows], V, device, torch.float32).flatten(1)
        total += hot.T @ hot
    return total.view(L, V, L, V).permute(0, 2, 1, 3).contiguous()


def one_hot(tokens: Tokens, V: int, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """Return one-hot sequences of shape (P, L, V)."""
    index = torch.from_numpy(tokens.astype("int64")).to(device)
    return torch.zeros(*tokens.shape, V, dtype=dtype, device=device).scatter_(2, index[..., None], 1.0)
