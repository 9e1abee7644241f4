"""What a score function is: one object with its name, its parameters, its torch row map and its symbolic row map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from phasekit.errors import InputError

if TYPE_CHECKING:
    import sympy
    from torch import Tensor


class Score(BaseModel):
    """A map from a row of logits to a row of attention weights.

    A subclass declares its parameters as fields (``n: float = 1.5``), sets ``name``, and implements the maps.
    Torch and SymPy are imported inside the methods only, so that importing a score costs nothing.

    Attributes
    ----------
    name : str
        The name by which the registry, the command line and files know it.
    normalised : bool
        Whether rows sum to one. Order parameters are called a1, aG if so, c1, cG if not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: ClassVar[str]
    normalised: ClassVar[bool] = True

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0]) if first["loc"] else "parameters"
            known = ", ".join(type(self).model_fields) or "none"
            unknown = first["type"] == "extra_forbidden"
            allowed = f"unknown parameter; known: {known}" if unknown else first["msg"]
            raise InputError(f"score {self.name}: {field}", first["input"], allowed) from None

    def rows(self, logits: Tensor) -> Tensor:
        """Return attention weights ``(..., queries, keys)`` from logits of the same shape."""
        raise NotImplementedError

    def pull_back(self, logits: Tensor, weights: Tensor, upstream: Tensor) -> Tensor:
        """Return the gradient with respect to the logits, given ``weights = rows(logits)`` and dU/dweights.

        All three have shape ``(..., queries, keys)``. Networks with hand-written gradients use it.
        """
        raise NotImplementedError

    def symbolic_rows(self, logits: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """Return the attention weights of one row as SymPy expressions of its logits."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Return name and parameters as plain JSON values; ``get_score`` takes them back."""
        return {"name": self.name, **self.model_dump()}
