"""What a score function is: one object that theory, networks, theorems and transformers share.

The contract
------------
A score is a :class:`phasekit.describe.Description`: its fields are the parameters' values, or their starting values
where they are learned. It offers, with shapes ``(..., heads, queries, keys)`` (leading axes are free, ``heads`` may be
absent):

==========================  ===========================================================================================
``rows``                    attention weights from logits, with a mask and learned parameters
``attention_weights``       the same from queries and keys; the only way in for scores that are no function of logits
``pull_back``               gradient with respect to the logits, written by hand as ``logit_gradient``
``make_parameters``         a ``torch.nn.Module`` holding the learned parameters, one number per head
``symbolic_rows``           one row as SymPy expressions
``symbolic_two_level``      a row with one raised entry and m - 1 equal ones (docs/theory.md, section 6)
==========================  ===========================================================================================

*Masks* are boolean (True: may attend) or additive (floating point). ``-inf``, and any number as low as half the most
negative one of the mask's dtype or of the precision computed in, excludes a key; what other numbers mean is the score's
to say, or to refuse. A row that may attend nowhere has weights, and gradients, of exactly 0.

*Learned parameters* travel as a mapping from name to a tensor that broadcasts over ``(heads, 1, 1)``: what calling the
module from ``make_parameters`` returns. Without it the numbers in the fields are used.

*Precision*: float64 and float32 compute in their own precision, bfloat16 and float16 in float32; weights have the
logits' dtype, or that of the queries. Logits of float16 queries are float32, because they may exceed 65504.

Torch and SymPy are imported inside the methods only, so that importing a score costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from phasekit.describe import Description
from phasekit.errors import InputError

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.parameters import ScoreParameters

    #: Values of learned parameters by name, or None for the numbers in the fields.
    Learned: TypeAlias = Mapping[str, Tensor] | None
    #: Symbols in the place of fields, or None for their exact decimal values.
    Symbols: TypeAlias = Mapping[str, sympy.Expr] | None


class Score(Description):
    """A map from a row of logits to a row of attention weights.

    A subclass declares its parameters as fields (``n: float = 1.5``), sets ``name``, and implements the maps.

    Attributes
    ----------
    name : str
        The name by which the registry, the command line and files know it.
    normalised : bool
        Whether rows sum to one. Order parameters are called a1, aG if so, c1, cG if not.
    uses_logits : bool
        Whether the weights are a function of the logits. If not, only ``attention_weights`` gives them.
    learnable : mapping of str to float
        Fields that a head may learn, and the bound each stays above: value = bound + softplus(raw parameter).
    """

    name: ClassVar[str]
    normalised: ClassVar[bool] = True
    uses_logits: ClassVar[bool] = True
    learnable: ClassVar[Mapping[str, float]] = {}

    @classmethod
    def in_errors(cls, field: str) -> str:
        return f"score {cls.name}: {field}"

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        """Return attention weights from logits.

        Parameters
        ----------
        logits : Tensor, shape (..., queries, keys)
            Scaled already: a score needn't be homogeneous.
        mask : Tensor, optional
            Boolean (True: may attend) or additive, broadcasting to ``logits``.
        parameters : mapping of str to Tensor, optional
            Values of the learnable parameters, each broadcasting as (heads, 1, 1).

        Returns
        -------
        Tensor of the logits' shape and dtype

        Raises
        ------
        InputError
            For logits that aren't floating-point tensors, a mask or parameters that make no sense for this score.
        """
        raise NotImplementedError

    def attention_weights(
        self,
        query: Tensor,
        key: Tensor,
        *,
        scale: float | None = None,
        mask: Tensor | None = None,
        parameters: Learned = None,
        offset: int = 0,
    ) -> Tensor:
        """Return attention weights from queries ``(..., queries, dim)`` and keys ``(..., keys, dim)``.

        Parameters
        ----------
        scale : float, optional
            Factor on q·k, 1/√dim by default.
        mask, parameters
            As in :meth:`rows`.
        offset : int
            Position of the first query, counted from the first key (generation with a cache). Only scores with
            explicit positions look at it.

        Raises
        ------
        InputError
            For a mask or parameters that make no sense for this score.
        """
        from phasekit.scores.precision import check_tensors

        check_tensors(self.name, query=query, key=key)
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        return self.weights_from(query, key, scale, mask, parameters, offset).to(query.dtype)

    def weights_from(
        self, query: Tensor, key: Tensor, scale: float, mask: Tensor | None, parameters: Learned, offset: int
    ) -> Tensor:
        """Do the work of :meth:`attention_weights`, in any dtype: by way of the logits, unless overridden."""
        from phasekit.scores.precision import with_room

        return self.rows((with_room(query) * scale) @ with_room(key).transpose(-1, -2), mask, parameters)

    def pull_back(
        self,
        logits: Tensor,
        weights: Tensor,
        upstream: Tensor,
        mask: Tensor | None = None,
        parameters: Learned = None,
    ) -> Tensor:
        """Return dU/dlogits from dU/dweights, written by hand: networks with their own gradients use it.

        Parameters
        ----------
        logits, weights, upstream : Tensor, shape (..., queries, keys)
            ``weights = rows(logits, mask, parameters)`` and ``upstream = dU/dweights``.
        mask, parameters
            As given to :meth:`rows`.
        """
        from phasekit.scores.precision import check_tensors, widen

        check_tensors(self.name, logits=logits, weights=weights, upstream=upstream)
        gradient = self.logit_gradient(widen(logits), widen(weights), widen(upstream), mask, parameters)
        return gradient.to(logits.dtype)

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        """Do the work of :meth:`pull_back`: from logits, weights and dU/dweights in the precision to compute in."""
        raise NotImplementedError

    def make_parameters(self, heads: int) -> ScoreParameters:
        """Return a module with this score's learned parameters for each head, at the values of the fields.

        Calling the module gives the mapping that :meth:`rows` takes. Its raw parameters are unconstrained, stay in
        float32 whatever happens to the model around them, and are left out of weight decay by
        :func:`phasekit.scores.parameter_groups`.

        Raises
        ------
        InputError
            If a field sits on the bound that its learned value must stay above, or ``heads`` is no positive integer.
        """
        from phasekit.scores.parameters import BoundedParameters

        return BoundedParameters(self, heads)

    def values(self, parameters: Learned, logits: Tensor) -> dict[str, Tensor]:
        """Return the learnable parameters as tensors in the precision in which ``logits`` are computed with.

        Raises
        ------
        InputError
            If a name is missing or unknown, or a shape doesn't say "one number per head".
        """
        from phasekit.scores.precision import compute_dtype

        given: Mapping[str, Any] = (
            {name: getattr(self, name) for name in self.learnable} if parameters is None else parameters
        )
        if not isinstance(given, Mapping) or given.keys() != self.learnable.keys():
            known = ", ".join(self.learnable) or "none"
            told = sorted(given) if isinstance(given, Mapping) else type(given).__name__
            raise InputError(f"score {self.name}: parameters", told, f"must be exactly: {known}")
        values = {}
        for name in self.learnable:
            value = given[name]
            if isinstance(value, float | int):
                value = logits.new_tensor(value, dtype=compute_dtype(logits))
            if not hasattr(value, "to"):
                raise InputError(f"score {self.name}: {name}", value, "must be a number or a torch tensor")
            heads = logits.shape[-3] if logits.dim() > 2 else 1
            fits = value.dim() > 1 and value.shape[-2:] == (1, 1) and value.shape[:-2][-1:] in ((), (1,), (heads,))
            if value.dim() and not fits:
                allowed = f"its shape must be () or (..., heads, 1, 1), for {heads} heads"
                raise InputError(f"score {self.name}: {name}", tuple(value.shape), allowed)
            values[name] = value.to(compute_dtype(logits))
        return values

    def symbolic_rows(self, logits: Sequence[sympy.Expr], parameters: Symbols = None) -> list[sympy.Expr]:
        """Return the attention weights of one row as SymPy expressions of its logits.

        ``parameters`` replaces fields by symbols; without it their exact decimal values are used.

        Raises
        ------
        InputError
            Where no closed form exists.
        """
        raise NotImplementedError

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Symbols = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        """Return the weight of the one entry at logit ``u``, and of each of the ``m - 1`` entries at logit ``v``.

        Raises
        ------
        InputError
            Where no closed form exists.
        """
        raise NotImplementedError

    def symbolic_attention_weights(
        self,
        query: Sequence[sympy.Expr],
        keys: Sequence[Sequence[sympy.Expr]],
        position: int = 0,
        parameters: Symbols = None,
    ) -> list[sympy.Expr]:
        """Return one row from a query vector at ``position`` and all key vectors: logits are q·k/√dim."""
        import sympy

        logits = [sum(a * b for a, b in zip(query, key, strict=True)) / sympy.sqrt(len(query)) for key in keys]
        return self.symbolic_rows(logits, parameters)

    def symbolic_values(self, parameters: Symbols = None) -> dict[str, sympy.Expr]:
        """Return the numeric fields as exact decimals, with those in ``parameters`` replaced."""
        import sympy

        numbers = {name: sympy.Rational(repr(value)) for name, value in self.numbers.items()}
        unknown = set(parameters or {}) - set(numbers)
        if unknown:
            raise InputError(
                f"score {self.name}: parameters", sorted(unknown), f"fields are {', '.join(numbers) or 'none'}"
            )
        return {**numbers, **{name: sympy.sympify(value) for name, value in (parameters or {}).items()}}

    @property
    def numbers(self) -> dict[str, float]:
        """The numeric fields by name: what a theory of this score depends on, and a grid of models may vary."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: value for name, value in values.items() if isinstance(value, float | int) and type(value) is not bool
        }
