"""Rows of sparsemax and α-entmax: values from the package ``entmax``, derivatives and masks from here.

α-entmax (B. Peters, V. Niculae, A. Martins, arXiv:1905.05702) is p = [(α−1)z − τ]₊^{1/(α−1)} with τ such that p sums
to one. With g = p^{2−α} on the support, ∂p/∂z = diag(g) − ggᵀ/Σg; ∂p/∂α as in arXiv:1909.00015. Written as functions
of the saved weights, these can be differentiated again and batched by ``torch.func``, which the package's can't.
"""

from __future__ import annotations

from typing import Any

import entmax
import torch
from torch import Tensor

from phasekit.scores.masks import Mask, blind_rows
from phasekit.scores.precision import widen

#: Below this α − 1 weights come from an expansion about softmax, because bisection loses digits there (and gives NaN
#: at α = 1). Measured against 50 digits: bisection is off by 2e-17/(α−1), the expansion by 5(α−1)³.
NEAR_SOFTMAX = 5e-5


def entmax_rows(logits: Tensor, mask: Mask, alpha: Tensor | float) -> Tensor:
    """Return α-entmax of the rows of ``logits + bias`` over visible keys.

    Parameters
    ----------
    logits : Tensor, shape (..., queries, keys)
    mask : Mask
    alpha : float, or Tensor of shape () or (..., heads, 1, 1)
        At least 1, where α-entmax is softmax. 1.5 and 2 given as numbers use exact algorithms, all else bisection.

    Returns
    -------
    Tensor of the logits' shape and dtype; as in softmax, NaN in rows with a logit of NaN or +inf, or all of -inf
    """
    z = widen(logits)
    keep, bias = mask
    if bias is not None:
        z = z + bias
    blind = None if keep is None else blind_rows(keep)
    if keep is not None and blind is not None:
        z = z.masked_fill(~(keep | blind), -torch.inf)
    if not z.numel():
        return logits.clone()
    # The algorithms look for a support, which rows of NaN or infinite logits don't have; on a GPU that is fatal.
    lost = ~z.amax(dim=-1, keepdim=True).isfinite()
    weights = _rows(z.masked_fill(lost, 0), alpha).masked_fill(lost, torch.nan)
    if blind is not None:
        weights = weights.masked_fill(blind, 0)
    return weights.to(logits.dtype)


def _rows(z: Tensor, alpha: Tensor | float) -> Tensor:
    if isinstance(alpha, Tensor):
        near = alpha - 1 < NEAR_SOFTMAX
        inside = _near_softmax(z, torch.where(near, alpha, 1) - 1)
        return torch.where(near, inside, _Entmax.apply(z, alpha.clamp(min=1 + NEAR_SOFTMAX)))  # type: ignore[no-untyped-call]
    if alpha - 1 < NEAR_SOFTMAX:
        return _near_softmax(z, z.new_tensor(alpha - 1))
    return _Entmax.apply(z, z.new_tensor(alpha), alpha)  # type: ignore[no-untyped-call,no-any-return]


def _near_softmax(z: Tensor, excess: Tensor) -> Tensor:
    """Return α-entmax to second order in ``excess`` = α − 1.

    p_i = (1 + εy_i)^{1/ε}, y_i = z_i − τ, so ln p_i = y_i − εy_i²/2 + ε²y_i³/3, and to first order
    y_i = ln softmax(z)_i + (ε/2) Σ p ln²p.
    """
    hidden = z == -torch.inf
    y = z.log_softmax(dim=-1).masked_fill(hidden, 0)
    mean_square = (y.exp().masked_fill(hidden, 0) * y**2).sum(dim=-1, keepdim=True)
    logarithm = y - excess * y**2 / 2 + excess**2 * (y**3 / 3 - y * mean_square / 2)
    return logarithm.masked_fill(hidden, -torch.inf).softmax(dim=-1)


class _Entmax(torch.autograd.Function):
    """(z, α, α as a number where an exact algorithm may be chosen) → weights."""

    @staticmethod
    def forward(z: Tensor, alpha: Tensor, exact: float | None = None) -> Tensor:
        if exact == 1.5:
            return entmax.entmax15(z, dim=-1)  # type: ignore[no-any-return]
        if exact == 2:
            return entmax.sparsemax(z, dim=-1)  # type: ignore[no-any-return]
        # In float32 bisection would have an error of 6e-8/(α−1) in the weights.
        return entmax.entmax_bisect(z.double(), alpha.double(), dim=-1).to(z.dtype)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output, inputs[1])
        ctx.save_for_forward(output, inputs[1])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        p, alpha = ctx.saved_tensors
        dalpha = None
        if ctx.needs_input_grad[1]:
            dalpha = (upstream * alpha_slope(p, alpha)).sum_to_size(alpha.shape).to(alpha.dtype)
        return entmax_pull_back(p, upstream, alpha), dalpha, None

    @staticmethod
    def jvp(ctx: Any, dz: Tensor | None, dalpha: Tensor | None, _: Any) -> Tensor:
        p, alpha = ctx.saved_tensors
        change = torch.zeros_like(p)
        if dz is not None:
            change = change + entmax_pull_back(p, dz, alpha)  # the Jacobian is symmetric
        if dalpha is not None:
            change = change + alpha_slope(p, alpha) * dalpha
        return change.to(p.dtype)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], z: Tensor, alpha: Tensor, exact: float | None) -> tuple[Tensor, int]:
        z_dim, alpha_dim, _ = in_dims
        z = z.expand(info.batch_size, *z.shape) if z_dim is None else z.movedim(z_dim, 0)
        if alpha_dim is not None:
            alpha = alpha.movedim(alpha_dim, 0)
            alpha = alpha.reshape(info.batch_size, *(1,) * (z.dim() - alpha.dim()), *alpha.shape[1:])
        return _Entmax.apply(z, alpha, exact), 0  # type: ignore[no-untyped-call]


def entmax_pull_back(weights: Tensor, upstream: Tensor, alpha: Tensor | float) -> Tensor:
    """Return dU/dz from p and dU/dp (blind rows: 0)."""
    g = _curvature(weights, alpha)
    mean = (g * upstream).sum(dim=-1, keepdim=True) / _nonzero(g.sum(dim=-1, keepdim=True))
    return g * (upstream - mean)


def alpha_slope(weights: Tensor, alpha: Tensor) -> Tensor:
    """Return ∂p/∂α, elementwise, without the cancellation of order (α−1)² in its usual form.

    arXiv:1909.00015: ∂p/∂α = (p − g/Σg)/ε² − (p ln p − H g/Σg)/ε with ε = α − 1, H = Σ p ln p. With g = p·e^{−ε ln p}
    this is p/ε² · [Λ − (eˣ − 1 − x) + (eˣ − 1) εH], y = −ε(ln p − H), Λ = ln Σ p eʸ, x = y − Λ: every term is of
    order ε² as it stands.
    """
    p, excess = weights.double(), alpha.double() - 1
    p = p / _nonzero(p.sum(dim=-1, keepdim=True))
    logarithm = torch.where(p > 0, p, 1).log()
    entropy = (p * logarithm).sum(dim=-1, keepdim=True)
    y = torch.where(p > 0, -excess * (logarithm - entropy), 0)
    normaliser = (p * (torch.expm1(y) - y)).sum(dim=-1, keepdim=True).log1p()  # Σ p y = 0
    x = y - normaliser
    change = torch.expm1(x)
    return (p * (normaliser - (change - x) + change * excess * entropy) / excess**2).to(weights.dtype)


def _curvature(p: Tensor, alpha: Tensor | float) -> Tensor:
    """Return p^{2−α} on the support and 0 elsewhere."""
    return torch.where(p > 0, torch.where(p > 0, p, 1) ** (2 - alpha), 0)


def _nonzero(total: Tensor) -> Tensor:
    return torch.where(total == 0, 1, total)
