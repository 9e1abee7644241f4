"""An ensemble of heads whose gradient is estimated from a few sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.heads.energy import common_model
from phasekit.samplers.noise import Key, UniformStreams
from phasekit.samplers.target import Gradient
from phasekit.tasks.copy import Dataset


class MinibatchTarget:
    """exp(-U(W, G)/T), with gradients from b sequences drawn anew, with replacement, by each chain at each step.

    With u_μ = ‖Y^μ - F^μ‖²/(2κL) the likelihood's share of one sequence, the estimate is

        ∇Û = (P/b) Σ_{μ in batch} ∇u_μ + ∇(priors),      E ∇Û = ∇U,      Cov ∇Û = (P²/b) Cov_μ(∇u_μ),

    Cov_μ over the P sequences (divisor P). SGLD then moves with noise of covariance 2 step T + step² Cov ∇Û: it samples
    too hot a distribution, by the relative excess step · Cov ∇Û / (2T), which vanishes with the step but grows as P².

    Batches belong to (seed, chain, step) like the noise. Where P > L·V and inputs are positional, the exact gradient
    from second moments (:class:`phasekit.samplers.heads.HeadsTarget`) costs no more than a minibatch of a few dozen
    sequences, and is the better choice.

    Parameters
    ----------
    datasets : sequence of Dataset
        Their models may differ in P only.
    members : int
        Chains for each data set.
    batch : int
        b.
    keys : sequence of tuples of int
        One for each chain.
    dtype, device

    Raises
    ------
    InputError
        If b is no whole number of at least 1, or the data sets don't belong together.
    """

    exact = False

    def __init__(
        self,
        datasets: Sequence[Dataset],
        members: int,
        batch: int,
        keys: Sequence[Key],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        batch = whole_number("batch", batch, 1)
        self.model = model = common_model([d.model for d in datasets])
        if model.key_dim is not None:
            raise InputError("batch", batch, "minibatches are for heads with key_dim None only")
        model.refuse("minibatches know no masks, and positional or token+position inputs only", "encoding", "mask")
        self.batch, self.dtype, self.device = batch, dtype, device
        n = model.L if model.inputs == "positional" else model.V + model.L
        self.shapes = {name: (len(datasets), members, k, k) for name, k in (("W", model.V), ("G", n))}
        self.chains = len(datasets) * members
        self.scales = {"W": model.sigma_w, "G": model.sigma_g}
        sizes = torch.tensor([len(d.tokens) for d in datasets], device=device)
        self.P = sizes.repeat_interleave(members).view(-1, 1)
        # all data sets' sequences in one table; a chain's begin where its data set's do
        self._tokens = torch.cat([torch.from_numpy(d.tokens.astype("int64")) for d in datasets]).to(device)
        self._first = (sizes.cumsum(0) - sizes).repeat_interleave(members).view(-1, 1)
        self._streams = UniformStreams("minibatch", keys, batch, device)

    def sequences(self, step: int) -> Tensor:
        """Return the tokens of a step's batches, shape (chains, b, L)."""
        return self._tokens[self._first + self._streams.below(self.P, step)]

    def bind(self, position: Tensors, gradient: Tensors) -> Gradient:
        kind = _PositionalGradient if self.model.inputs == "positional" else _TokenGradient
        return kind(self, position, gradient)


class _BatchGradient:
    """What both kinds of inputs share: everything behind the attended sequence A X."""

    def __init__(self, target: MinibatchTarget, position: Tensors, gradient: Tensors) -> None:
        self.target, self.model = target, target.model
        self.W, self.G, self.dW, self.dG = (
            named[name].view(-1, *named[name].shape[-2:]) for named in (position, gradient) for name in ("W", "G")
        )
        self.scale = (target.P.to(target.dtype) / (target.batch * self.model.kappa * self.model.L)).view(-1, 1, 1)

    def __call__(self, step: int) -> None:
        tokens, V = self.target.sequences(step), self.model.V
        X = torch.zeros(*tokens.shape, V, dtype=self.W.dtype, device=self.W.device).scatter_(3, tokens[..., None], 1.0)
        attended = self.attend(X)
        residual = torch.bmm(attended, self.W).sub_(self.arrange(X.roll(1, 2)))
        self.error = residual.square().sum((1, 2))
        residual.mul_(self.scale)
        torch.mul(self.W, self.model.sigma_w**-2, out=self.dW).baddbmm_(attended.mT, residual)
        torch.add(self.pull_back(torch.bmm(residual, self.W.mT)), self.G, alpha=self.model.sigma_g**-2, out=self.dG)

    def energy(self) -> Tensor:
        """Return the batch's estimate of U."""
        prior = (
            self.W.square().sum((1, 2)) / self.model.sigma_w**2 + self.G.square().sum((1, 2)) / self.model.sigma_g**2
        )
        return 0.5 * (self.scale.flatten() * self.error + prior)

    def arrange(self, sequences: Tensor) -> Tensor:
        """Bring (chains, b, L, V) into the layout (chains, b·L, V) of what ``attend`` returns."""
        raise NotImplementedError

    def attend(self, X: Tensor) -> Tensor:
        """Return A X, shape (chains, b·L, V), for X of shape (chains, b, L, V)."""
        raise NotImplementedError

    def pull_back(self, upstream: Tensor) -> Tensor:
        """Return dU/dG (likelihood only), given dU/d(A X)."""
        raise NotImplementedError


class _PositionalGradient(_BatchGradient):
    """One A for a chain: position first, all sequences of the batch side by side."""

    def arrange(self, sequences: Tensor) -> Tensor:
        return sequences.transpose(1, 2).reshape(len(sequences), -1, self.model.V)

    def attend(self, X: Tensor) -> Tensor:
        self._X = X.transpose(1, 2).reshape(len(X), self.model.L, -1)
        self._A = self.model.score.rows(self.G)
        return torch.bmm(self._A, self._X).view(len(X), -1, self.model.V)

    def pull_back(self, upstream: Tensor) -> Tensor:
        dA = torch.bmm(upstream.view(len(upstream), self.model.L, -1), self._X.mT)
        return self.model.score.pull_back(self.G, self._A, dA)


class _TokenGradient(_BatchGradient):
    """One A for every sequence: H = x̃ G x̃ᵀ."""

    def arrange(self, sequences: Tensor) -> Tensor:
        return sequences.reshape(len(sequences), -1, self.model.V)

    def attend(self, X: Tensor) -> Tensor:
        chains, b, L, V = X.shape
        positions = torch.eye(L, dtype=X.dtype, device=X.device).expand(chains, b, L, L)
        self._X, self._inputs = X.view(-1, L, V), torch.cat([X, positions], 3)
        queries = torch.bmm(self._inputs.view(chains, b * L, -1), self.G)
        self._H = torch.bmm(queries.view(-1, L, V + L), self._inputs.view(-1, L, V + L).mT)
        self._A = self.model.score.rows(self._H)
        return torch.bmm(self._A, self._X).view(chains, b * L, V)

    def pull_back(self, upstream: Tensor) -> Tensor:
        chains, L, n = len(upstream), self.model.L, self.model.V + self.model.L
        dA = torch.bmm(upstream.view(-1, L, self.model.V), self._X.mT)
        dH = self.model.score.pull_back(self._H, self._A, dA)
        to_keys = torch.bmm(dH, self._inputs.view(-1, L, n)).view(chains, -1, n)
        return torch.bmm(self._inputs.view(chains, -1, n).mT, to_keys)
