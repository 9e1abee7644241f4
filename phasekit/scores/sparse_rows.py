"""Rows of sparsemax and α-entmax: for α ≤ 2 values from the package ``entmax``, all else from here.

α-entmax (B. Peters, V. Niculae, A. Martins, arXiv:1905.05702) is p = [(α−1)z − τ]₊^{1/(α−1)} with τ such that p sums
to one. With g = p^{2−α} on the support, ∂p/∂z = diag(g) − ggᵀ/Σg; ∂p/∂α as in arXiv:1909.00015. Written as functions
of the saved weights, these can be differentiated again and batched by ``torch.func``, which the package's can't.
"""

from __future__ import annotations

import math
from typing import Any

import entmax
import torch
from torch import Tensor

from phasekit.scores.masks import Mask, blind_rows
from phasekit.scores.precision import widen, without_numbers

#: Below this α − 1 weights come from an expansion about softmax, because bisection loses digits there (and gives NaN
#: at α = 1). Measured against 50 digits: bisection is off by 2e-17/(α−1), the expansion by 5(α−1)³.
NEAR_SOFTMAX = 5e-5
#: Above this α bisection for τ loses digits, because weights are roots of what it finds: errors of 1e-14 in the weights
#: at α = 2.5, 3e-5 at 6, 0.3 at 50. :func:`_in_weights` solves there.
BISECTION = 2.0
#: Weights below e to this power are 0 in every precision.
_NO_WEIGHT = -1000.0
#: Bisections of the interval from 0 to 1 that leave no digit of float64 open, nor of weights down to 1e-18.
_HALVINGS = 60


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
    top = z.detach().amax(dim=-1, keepdim=True)
    lost = ~top.isfinite()
    # Only differences to the largest matter, and far from 0 the search for τ would round them away.
    weights = _rows((z - top).masked_fill(lost, 0), alpha).masked_fill(lost, torch.nan)
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
    y = z.log_softmax(dim=-1).masked_fill(hidden, 0).clamp(min=_NO_WEIGHT)
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
        z64, alpha64 = z.double(), alpha.double()
        low = entmax.entmax_bisect(z64, alpha64.clamp(max=BISECTION), dim=-1)
        if not without_numbers(alpha) and not bool((alpha > BISECTION).any()):
            return low.to(z.dtype)  # type: ignore[no-any-return]
        high = _in_weights(z64, alpha64.clamp(min=BISECTION))
        return torch.where(alpha > BISECTION, high, low).to(z.dtype)

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


def _in_weights(z: Tensor, alpha: Tensor) -> Tensor:
    """Return α-entmax for α ≥ 2, of rows with largest logit 0, to the last digits of every weight.

    With ε = α − 1, weights of the support obey p_i^ε − p_k^ε = ε(z_i − z_k). Let k be the key of least weight w there.
    All weights follow from w, p_i = [w^ε + ε(z_i − z_k)]^{1/ε}, none moves faster than w does, and their sum rises with
    w: bisection. Before, bisection over the sorted keys finds k: the last for which the sum at w = 0 is below 1.
    """
    excess = alpha - 1
    ordered = z.sort(dim=-1, descending=True).values

    def weights(least: Tensor, least_logit: Tensor) -> Tensor:
        """Return all weights if the key with ``least_logit`` has ``least``; in logarithms, because p^ε is tiny."""
        gap = z - least_logit
        logarithm = torch.logaddexp(excess * least.log(), (excess * gap).clamp(min=0).log()) / excess
        return torch.where(gap < 0, 0, logarithm.exp())

    shape = (*z.shape[:-1], 1)
    first = torch.zeros(shape, dtype=torch.long, device=z.device)  # the largest logit alone has the sum 0 at w = 0
    beyond = torch.full_like(first, z.shape[-1])
    nothing = torch.zeros(shape, dtype=z.dtype, device=z.device)
    for _ in range(z.shape[-1].bit_length()):
        middle = (first + beyond) // 2
        within = weights(nothing, ordered.gather(-1, middle)).sum(dim=-1, keepdim=True) < 1
        first, beyond = torch.where(within, middle, first), torch.where(within, beyond, middle)
    least_logit = ordered.gather(-1, first)
    low, high = nothing, torch.ones_like(nothing)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = weights(middle, least_logit).sum(dim=-1, keepdim=True) >= 1
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    found = weights(high, least_logit)
    return found / found.sum(dim=-1, keepdim=True)


def entmax_pull_back(weights: Tensor, upstream: Tensor, alpha: Tensor | float) -> Tensor:
    """Return dU/dz from p and dU/dp (blind rows: 0)."""
    if not isinstance(alpha, Tensor) and alpha <= BISECTION:
        g = torch.where(weights > 0, torch.where(weights > 0, weights, 1) ** (2 - alpha), 0)
        mean = (g * upstream).sum(dim=-1, keepdim=True) / _nonzero(g.sum(dim=-1, keepdim=True))
        return g * (upstream - mean)
    logarithm, share = _curvature(weights, alpha)
    # For α > 2 a tiny weight has a huge g, and its own dU/dz = g(dU/dp − mean) cancels. It is minus that of the others.
    leading = torch.zeros_like(share, dtype=torch.bool).scatter(-1, share.argmax(dim=-1, keepdim=True), True)
    mean = (share * upstream).sum(dim=-1, keepdim=True)
    others = torch.where(leading | (weights == 0), 0, logarithm.exp() * (upstream - mean))
    return torch.where(leading, -others.sum(dim=-1, keepdim=True), others)


def alpha_slope(weights: Tensor, alpha: Tensor) -> Tensor:
    """Return ∂p/∂α, elementwise.

    arXiv:1909.00015: ∂p/∂α = (p − s)/ε² − (p ln p − H s)/ε with ε = α − 1, s = g/Σg, H = Σ p ln p. Near softmax this
    cancels to order ε². With g = p·e^{−ε ln p} it is p/ε² · [Λ − (eˣ − 1 − x) + (eˣ − 1) εH], y = −ε(ln p − H),
    Λ = ln Σ p eʸ, x = y − Λ, where every term is of order ε² as it stands; but far from softmax eʸ overflows.
    """
    p, excess = weights.double(), alpha.double() - 1
    p = p / _nonzero(p.sum(dim=-1, keepdim=True))
    logarithm = torch.where(p > 0, p, 1).log()
    entropy = (p * logarithm).sum(dim=-1, keepdim=True)
    share = _curvature(p, excess + 1)[1]
    far = (p - share) / excess**2 - (p * logarithm - entropy * share) / excess
    close = excess < 0.5
    small = torch.where(close, excess, 0.5)
    y = torch.where(p > 0, -small * (logarithm - entropy), 0)
    normaliser = (p * (torch.expm1(y) - y)).sum(dim=-1, keepdim=True).log1p()  # Σ p y = 0
    x = y - normaliser
    change = torch.expm1(x)
    near = p * (normaliser - (change - x) + change * small * entropy) / small**2
    return torch.where(close, near, far).to(weights.dtype)


def _curvature(p: Tensor, alpha: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return ln g of g = p^{2−α}, cut at the end of the number range, and g/Σg, which is 0 off the support."""
    logarithm = (2 - alpha) * torch.where(p > 0, p, 1).log()
    share = logarithm.masked_fill(p == 0, -torch.inf)
    top = share.detach().amax(dim=-1, keepdim=True).clamp(min=-_largest(p))
    total = torch.where(p == 0, 0, (logarithm - top).exp())
    return logarithm.clamp(max=_largest(p)), total / _nonzero(total.sum(dim=-1, keepdim=True))


def _largest(p: Tensor) -> float:
    """Return a logarithm of numbers that can still be added up."""
    return math.log(torch.finfo(p.dtype).max) - 40


def _nonzero(total: Tensor) -> Tensor:
    return torch.where(total == 0, 1, total)
