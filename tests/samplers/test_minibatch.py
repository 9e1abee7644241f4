"""Minibatches: unbiased, with the noise that is stated, drawn by each chain for itself."""

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import build_energy
from phasekit.model import Model
from phasekit.samplers import MinibatchTarget, sgld
from phasekit.samplers.noise import UniformStreams
from phasekit.tasks.copy import Dataset, draw_dataset
from tests.samplers import checks, targets

CPU = torch.device("cpu")
CASES = [("softmax", "positional"), ("linear", "positional"), ("softmax", "token+position"), ("ssa", "token+position")]


def models(score, inputs):
    return [Model(V=3, L=4, P=P, score=score, inputs=inputs, sigma_w=0.7, sigma_g=1.6, kappa=0.5) for P in (5, 9)]


def point(model, seed=0):
    n = model.L + (0 if model.inputs == "positional" else model.V)
    random = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(1, 1, k, k, dtype=torch.float64, generator=random) for k in (model.V, n))


def gradients_of_sequences(dataset, position):
    """dU/d(W, G) if the data set were P copies of one of its sequences, for each: flat, shape (P, numbers)."""
    rows = []
    P = len(dataset.tokens)
    for tokens in dataset.tokens:
        copies = Dataset(dataset.model, np.repeat(tokens[None], P, axis=0), 0)
        energy = build_energy([copies], dtype="float64", device="cpu", path="sequences")
        rows.append(torch.cat([part.flatten() for part in energy.energy_and_gradient(*position)[1:]]))
    return torch.stack(rows)


@pytest.mark.parametrize(("score", "inputs"), CASES)
def test_gradient_is_unbiased_and_as_noisy_as_stated(score, inputs, seed):
    """All chains stand at one point; only their batches differ. Exact mean and covariance, sequence by sequence."""
    batch, members, steps = 3, 400, 5
    datasets = [draw_dataset(model, 0) for model in models(score, inputs)]
    position = point(datasets[0].model)
    keys = checks.keys(2 * members, seed)
    target = MinibatchTarget(datasets, members, batch, keys, torch.float64, CPU)
    stacked = {name: part.expand(2, members, -1, -1).contiguous() for name, part in zip("WG", position, strict=True)}
    gradient = {name: torch.empty_like(part) for name, part in stacked.items()}
    bound = target.bind(stacked, gradient)
    found = []
    for step in range(steps):
        bound(step)
        found.append(torch.cat([part.flatten(2) for part in gradient.values()], 2).clone())
    found = torch.stack(found, 1).flatten(2, 2)  # (data sets, steps, members, numbers)
    for d, dataset in enumerate(datasets):
        single = gradients_of_sequences(dataset, position)
        mean, covariance = single.mean(0), torch.cov(single.T, correction=0) / batch
        draws = found[d].reshape(-1, single.shape[1])
        widths = covariance.diagonal().sqrt()
        assert ((draws.mean(0) - mean).abs() <= checks.Z * widths / np.sqrt(len(draws)) + 1e-12).all()
        # a few projections of the covariance: their squares' standard error comes from the draws
        directions = torch.randn(single.shape[1], 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        squares = ((draws - mean) @ directions).square()
        expected = (directions * (covariance @ directions)).sum(0)
        error = squares.std(0) / np.sqrt(len(draws))
        assert ((squares.mean(0) - expected).abs() < checks.Z * error).all()


@pytest.mark.parametrize(("score", "inputs"), CASES)
def test_gradient_and_energy_are_those_of_the_batch(score, inputs):
    datasets = [draw_dataset(model, 1) for model in models(score, inputs)]
    target = MinibatchTarget(datasets, 2, 4, checks.keys(4, 3), torch.float64, CPU)
    position = {
        name: torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(name)))
        for name, shape in target.shapes.items()
    }
    gradient = {name: torch.empty_like(part) for name, part in position.items()}
    bound = target.bind(position, gradient)
    bound(7)
    tokens, energies = target.sequences(7).numpy(), bound.energy()
    for chain in range(4):
        d, m = divmod(chain, 2)
        P = len(datasets[d].tokens)
        model = datasets[d].model.at(P=4, kappa=datasets[d].model.kappa * 4 / P)
        energy = build_energy([Dataset(model, tokens[chain], 0)], dtype="float64", device="cpu", path="sequences")
        U, dW, dG = energy.energy_and_gradient(*(part[d : d + 1, m : m + 1].contiguous() for part in position.values()))
        torch.testing.assert_close(energies[chain], U[0, 0], rtol=1e-12, atol=0)
        torch.testing.assert_close(gradient["W"][d, m], dW[0, 0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(gradient["G"][d, m], dG[0, 0], rtol=1e-10, atol=1e-12)
    for d in range(2):
        allowed = {tuple(row) for row in datasets[d].tokens}
        assert {tuple(row) for row in tokens[2 * d : 2 * d + 2].reshape(-1, 4)} <= allowed


def test_a_chains_batches_are_its_own():
    dataset = draw_dataset(Model(V=5, L=6, P=1000), 0)
    keys = checks.keys(6, 2)
    together = MinibatchTarget([dataset], 6, 8, keys, torch.float64, CPU)
    apart = MinibatchTarget([dataset], 2, 8, [keys[4], keys[1]], torch.float64, CPU)
    for step in (3, 0, 11):
        batches = together.sequences(step)
        assert torch.equal(apart.sequences(step), batches[[4, 1]])
        assert not torch.equal(batches[0], batches[1])
    assert not torch.equal(together.sequences(0), together.sequences(1))


class NoisyGaussian(targets.Analytic):
    """U = Σ_μ (θ - x_μ)²/2 over P data, its gradient estimated from b of them: curvature P, noise P² var(x)/b."""

    exact = False

    def __init__(self, data, batch, chains, seed):
        super().__init__(None, None, chains)
        self.data, self.batch = torch.from_numpy(data), batch
        self.streams = UniformStreams("minibatch", checks.keys(chains, seed), batch, CPU)

    def bind(self, position, gradient):
        def evaluate(step):
            batch = self.data[self.streams.below(len(self.data), step)]
            gradient["x"].copy_(len(self.data) * (position["x"] - batch.mean(1, keepdim=True)))

        return evaluate


def test_sgld_is_heated_by_the_excess_that_is_stated(seed):
    """The chain is AR(1) still, its noise 2 step T + step² Cov."""
    data, batch, step, chains = np.array([-1.0, 0.5, 2.0, -1.5]), 2, 0.1, 100
    curvature, extra = len(data), len(data) ** 2 * data.var() / batch
    a = step * curvature
    gamma = (2 * step + step**2 * extra) / (2 * a - a * a) * (1 - a) ** np.arange(100)
    assert data.mean() == 0
    assert step * extra / 2 > 0.5  # the heating is no small thing here
    kernel = sgld.build(NoisyGaussian(data, batch, chains, seed), checks.keys(chains, seed), step=step)
    state = kernel.init({"x": torch.zeros(chains, 1)})
    for _ in range(60):
        state = kernel.update(state, inplace=True)
    draws = checks.trace(kernel, state, 400)
    # not Gaussian: bounds from independent chains
    checks.means(draws, (lambda x: x, lambda x: x**2), (0.0, gamma[0]), largest_error=0.03)


@pytest.mark.parametrize("batch", [0, -1, 2.5, True])
def test_batches_that_make_no_sense_are_refused(batch):
    with pytest.raises(InputError, match="batch"):
        MinibatchTarget([draw_dataset(Model(V=3, L=4, P=5), 0)], 1, batch, [(0,)], torch.float64, CPU)
