"""Samplers, Adam and checkpoints know no heads: a small network of PyTorch, by the names of its parameters."""

import numpy as np
import pytest
import torch

from phasekit.checkpoint import load_checkpoint, save_checkpoint
from phasekit.errors import InputError
from phasekit.heads import Adam, AdamEnsemble
from phasekit.samplers import Chains, NotFinite, hmc, langevin, sgld
from phasekit.samplers.noise import key_of

CHAINS = 3


class Network:
    """exp(-U) of several two-layer networks: squared error of y = sin x, and a Gaussian prior on every parameter."""

    exact, chains, dtype, device = True, CHAINS, torch.float64, torch.device("cpu")

    def __init__(self):
        self.shapes = {"hidden.weight": (CHAINS, 8, 1), "hidden.bias": (CHAINS, 8, 1), "out.weight": (CHAINS, 1, 8)}
        self.scales = {"hidden.weight": 1.0, "hidden.bias": 0.5, "out.weight": 2.0}
        self.x = torch.linspace(-1, 1, 20, dtype=torch.float64)[None]

    def energy(self, position):
        hidden = torch.tanh(position["hidden.weight"] @ self.x + position["hidden.bias"])
        error = (position["out.weight"] @ hidden - self.x.sin()).square().sum((1, 2))
        return 10 * error + sum((position[k] / s).square().sum((1, 2)) / 2 for k, s in self.scales.items())

    def bind(self, position, gradient):
        return Bound(self, position, gradient)

    def start(self):
        return {name: torch.full(shape, 0.1, dtype=torch.float64) for name, shape in self.shapes.items()}


class Bound:
    def __init__(self, network, position, gradient):
        self.network, self.position, self.into = network, position, gradient

    def __call__(self, step=0):
        here = {name: part.detach().requires_grad_() for name, part in self.position.items()}
        self.U = self.network.energy(here)
        for name, slope in zip(here, torch.autograd.grad(self.U.sum(), list(here.values())), strict=True):
            self.into[name].copy_(slope)

    def energy(self):
        return self.U.detach()


def chains(kernel, **settings):
    network = Network()
    settings = {"thin": 2, "warmup": 5, "description": {"what": "a network"}, **settings}
    return Chains(network, kernel(network), network.start(), lambda at: network.energy(at)[None], **settings)


KERNELS = {
    "sgld": lambda network: sgld.build(network, [key_of(0, "net", k) for k in range(CHAINS)], step=1e-3),
    "langevin": lambda network: langevin.build(network, [(0, k) for k in range(CHAINS)], step=0.02, friction=1.0),
    "hmc": lambda network: hmc.build(network, [(0, k) for k in range(CHAINS)], step=0.05, leaps=4, adapt=5),
}


@pytest.mark.parametrize("name", KERNELS)
def test_any_network_is_sampled_saved_and_resumed(name, tmp_path):
    whole, path = chains(KERNELS[name]), tmp_path / "run.npz"
    whole.run(8)
    assert whole.draws().shape == (8, 1, CHAINS)
    assert len({float(u) for u in whole.draws()[-1, 0]}) == CHAINS  # noise of their own
    chains(KERNELS[name]).run(3, checkpoint=path, save_every=1)
    resumed = chains(KERNELS[name])
    resumed.run(8, checkpoint=path)
    np.testing.assert_array_equal(resumed.draws(), whole.draws())
    with np.load(path) as file:
        assert {"position hidden.bias", "gradient out.weight", "draws", "step"} <= set(file.files)
    with pytest.raises(InputError, match="belongs to a run with other what"):
        chains(KERNELS[name], description={"what": "another"}).run(8, checkpoint=path)


def test_adam_trains_any_network():
    network = Network()
    start = network.start()
    ensemble = AdamEnsemble(network, start, Adam(steps=300, rate=0.03))
    ensemble.run(300)
    assert (network.energy(ensemble.position) < 0.5 * network.energy(start)).all()
    assert ensemble.position.keys() == start.keys()


def test_a_chain_that_diverges_is_named():
    run = chains(lambda network: sgld.build(network, [(0, k) for k in range(CHAINS)], step=10.0), warmup=0)
    with pytest.raises(NotFinite, match=r"chain \d is not finite at step \d+"):
        run.run(200)


def test_checkpoints_hold_any_tensors(tmp_path):
    path, tensors = tmp_path / "x.npz", {"a b": torch.arange(3), "c": np.ones((2, 2))}
    save_checkpoint(path, {"n": 1}, tensors)
    found = load_checkpoint(path, {"n": 1})
    assert torch.equal(found["a b"], tensors["a b"])
    assert found["c"].shape == (2, 2)
    for name, content in (("text", b"no zip"), ("empty", b"")):
        other = tmp_path / f"{name}.npz"
        other.write_bytes(content)
        with pytest.raises(InputError, match="can't be read"):
            load_checkpoint(other, {})
