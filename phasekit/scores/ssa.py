"""Scaled Signed Averaging: softmax of a signed logarithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from phasekit.scores.elementwise import ElementwiseSoftmax

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Symbols


class SSA(ElementwiseSoftmax):
    """A_ij ∝ (1 + b|H_ij|)^(n·sgn H_ij), computed as softmax(t(H)), t(x) = n·sgn(x)·ln(1 + b|x|).

    O. Naim, S. Bhar, J. Bolte, N. Asher, arXiv:2508.14685. t is odd, increasing, once continuously differentiable and
    nb-Lipschitz, with slope nb/(1 + b|x|): nb at 0, where automatic differentiation of the formula as written gives 0.
    SSA is not invariant under a shift of a row: no constant may be moved into or out of its logits.

    Parameters
    ----------
    n : float, 1 to 1e9
        Sharpness of the tails: weights grow like |x|^n. A learned n stays above 1.
    b : float, 1e-9 to 1e9
        Scale of the logits. A learned b stays above 0.
    """

    name: ClassVar[str] = "ssa"
    learnable: ClassVar[Mapping[str, float]] = {"n": 1.0, "b": 0.0}

    n: float = Field(default=1.5, ge=1, le=1e9, description="sharpness")
    b: float = Field(default=0.8, ge=1e-9, le=1e9, description="scale of the logits")

    def transform(self, z: Tensor, **values: Tensor) -> Tensor:
        return values["n"] * signed_log(z, values["b"])

    def slope(self, z: Tensor, **values: Tensor) -> Tensor:
        n, b = values["n"], values["b"]
        return n * b / (1 + b * z.abs())

    def parameter_slopes(self, z: Tensor, **values: Tensor) -> dict[str, Tensor]:
        n, b = values["n"], values["b"]
        return {"n": signed_log(z, b), "b": n * z / (1 + b * z.abs())}

    # The kernels below write ln(1 + b|z|), not log1p: t is an exponent, so its absolute accuracy counts, not the
    # relative one near z = 0, and log is three times faster.

    def transform_into(self, z: Tensor, out: Tensor, **values: Tensor) -> Tensor:
        import torch

        torch.abs(z, out=out).mul_(values["b"]).add_(1).log_()
        return out.mul_(values["n"]).mul_(z.sign())

    def pull_back_over(
        self, z: Tensor, upstream: Tensor, learned: Sequence[str], **values: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        n, b = values["n"], values["b"]
        sums = {}
        inverse = z.abs().mul_(1 / n).add_(1 / (n * b))  # 1/t'(z) = (1 + b|z|)/(nb)
        if "n" in learned:  # ∂t/∂n = sgn(z) ln(1 + b|z|)
            sums["n"] = _inner((inverse * (n * b)).log_().copysign_(z), upstream)
        gradient = upstream.div_(inverse)
        if "b" in learned:  # ∂t/∂b = z/b · t'(z)
            sums["b"] = _inner(gradient, z) / b
        return gradient, sums

    def symbolic_transform(self, x: sympy.Expr, **values: sympy.Expr) -> sympy.Expr:
        import sympy

        n, b = values["n"], values["b"]
        return sympy.Piecewise((n * sympy.log(1 + b * x), x >= 0), (-n * sympy.log(1 - b * x), True))

    def symbolic_weight(self, x: sympy.Expr, parameters: Symbols = None) -> sympy.Expr:
        import sympy

        values = self.symbolic_values(parameters)
        n, b = values["n"], values["b"]
        return sympy.Piecewise(((1 + b * x) ** n, x >= 0), ((1 - b * x) ** -n, True))


def signed_log(z: Tensor, b: Tensor) -> Tensor:
    """Return sgn(z)·ln(1 + b|z|), with slope b at 0 under automatic differentiation.

    The sign is a constant ±1 here, and |z| = sign·z. ``z.sign() * log1p(b * z.abs())`` has slope 0 at 0.
    """
    import torch

    sign = torch.where(z < 0, -1.0, 1.0).to(z.dtype)
    return sign * torch.log1p(b * (sign * z))


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Return Σ a·b over queries and keys, ``(groups, 1, 1)``."""
    import torch

    if len(a) == 1:
        return torch.dot(a.reshape(-1), b.reshape(-1)).reshape(1, 1, 1)
    return (a * b).sum(dim=(-2, -1), keepdim=True)
