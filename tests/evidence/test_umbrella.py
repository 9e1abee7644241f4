"""Springs, windows joined to a free energy, and barriers, against what quadrature says."""

import numpy as np
import pytest
import torch
import xarray as xr

from phasekit.errors import InputError
from phasekit.evidence import NotJoined, Undecided, barrier, free_energy, umbrella
from phasekit.evidence.umbrella import SpringTarget
from phasekit.heads import build_energy
from phasekit.heads.starts import draw_starts
from phasekit.model import Model
from phasekit.samplers import HMC, SGLD, Chains
from phasekit.tasks.copy import draw_dataset
from tests.evidence.exact import softmax_head
from tests.samplers.checks import keys
from tests.samplers.targets import double_well

Z = 4.5


@pytest.mark.parametrize("score", ["softmax", "linear"])
def test_springs_pull_by_the_gradient_of_their_energy(score):
    model = Model(V=3, L=4, P=20, score=score)
    target = SpringTarget(build_energy([draw_dataset(model, 0)], dtype="float64", device="cpu"), [0.3, -0.1], 500.0)
    W, G = draw_starts([model], [("random", 0), ("random", 1)], 0, torch.float64, torch.device("cpu")).values()
    dW, dG = torch.zeros_like(W), torch.zeros_like(G)
    gradient = target.bind({"W": W, "G": G}, {"W": dW, "G": dG})
    gradient(0)
    wanted = dG[0, :, 2, 1].clone()
    energies = []
    for shift in (1e-5, -2e-5):
        G[:, :, 2, 1] += shift
        gradient(0)
        energies.append(gradient.energy().clone())
    np.testing.assert_allclose((energies[0] - energies[1]) / 2e-5, wanted, rtol=1e-6)


def binned(values, weights, found):
    """Return F of a weighted sample in the bins of a free energy."""
    a, half = found.profile.a.to_numpy(), found.profile.attrs["bin"] / 2
    sums, _ = np.histogram(values, np.append(a - half, a[-1] + half), weights=weights)
    with np.errstate(divide="ignore"):
        return -np.log(sums / sums.sum())


@pytest.mark.slow
def test_free_energy_of_a_head_against_quadrature():
    """F(aG) over its whole range [-1, 1], six times the temperature up, where plain sampling sees nothing."""
    model = Model(V=2, L=2, P=30, score="softmax")
    windows = umbrella(
        model, np.linspace(-1.0, 1.0, 9), 60.0, HMC(step=0.3, leaps=5), draws=150, warmup=50, members=2, seed=3
    )
    assert windows.acceptance.min() > 0.5
    found = free_energy(windows, bins=20, bootstrap=40)
    weight, copying, _, _ = softmax_head(30)
    exact = binned(copying, weight, found)
    F, error = found.profile.F.to_numpy(), found.error
    lowest = int(np.argmin(F))
    assert exact.max() - exact.min() > 4
    assert error[lowest] == 0
    assert 0.02 < error.max() < 0.4
    assert (np.abs(F - (exact - exact[lowest])) <= Z * error).all()
    spread = (-np.log(found.replicas)).std(0, ddof=1)
    pull = (-np.log(found.profile.probability.to_numpy()) - exact) / spread
    assert 0.3 < np.sqrt((pull**2).mean()) < 2  # over seeds: 1.2, chains of 150 draws hide some of their slowness
    assert found.rhat.max() < 1.05
    assert found.overlap > 0.03


class Sprung:
    """The sampler tests' double well with springs, as an umbrella window has them."""

    exact, dtype, device, scales = True, torch.float64, torch.device("cpu"), {"x": 1.0}

    def __init__(self, centres, stiffness, height):
        self.well, self.stiffness = double_well(len(centres), height=height), stiffness
        self.centres = torch.tensor(centres, dtype=self.dtype)[:, None]
        self.chains, self.shapes = len(centres), {"x": (len(centres), 1)}

    def bind(self, position, gradient):
        plain, target = self.well.bind(position, gradient), self

        class Bound:
            def __call__(self, step):
                plain(step)
                gradient["x"].add_(target.stiffness * (position["x"] - target.centres))

            def energy(self):
                return plain.energy() + target.stiffness / 2 * (position["x"] - target.centres).square().sum(1)

        return Bound()


def well_windows(height=6.0, stiffness=30.0, members=4, draws=200):
    """Sample a double well in windows; plain chains would need e^6 times a relaxation to cross it."""
    centres = np.linspace(-1.6, 1.6, 13)
    every = np.repeat(centres, members)
    target = Sprung(every.tolist(), stiffness, height)
    kernel = HMC(step=0.15, leaps=5).build(target, keys(len(every), 1), 50)
    chains = Chains(target, kernel, {"x": torch.tensor(every)[:, None]}, lambda at: at["x"].T.clone(), warmup=50)
    chains.run(draws)
    a = chains.draws()[:, 0].T.reshape(len(centres), members, draws)
    return xr.Dataset(
        {"aG": (("window", "chain", "draw"), a)},
        {"centre": ("window", centres)},
        {"order": "aG", "stiffness": stiffness},
    )


@pytest.mark.slow
def test_barrier_of_a_double_well_against_quadrature():
    found = free_energy(well_windows(), bins=36, bootstrap=40)
    wells = barrier(found)
    x = np.linspace(-3, 3, 600001)
    weight = np.exp(-(6 * (x**2 - 1) ** 2 + 0.3 * x))
    F = binned(x, weight, found)
    a = found.profile.a.to_numpy()
    low, top, high = (int(np.argmin(np.abs(a - place))) for place in (wells.low, wells.top, wells.high))
    for (height, error), bottom in ((wells.from_low, low), (wells.from_high, high)):
        assert error < 0.3
        assert abs(height - (F[top] - F[bottom])) < Z * error
    edge = a[top] - found.profile.attrs["bin"] / 2
    exact = np.log(weight[x < edge].sum() / weight[x >= edge].sum())
    assert wells.difference[1] < 0.3
    assert abs(wells.difference[0] - exact) < Z * wells.difference[1]
    assert abs(wells.top) < 0.15
    assert wells.low == pytest.approx(-1, abs=0.15)
    assert wells.high == pytest.approx(1, abs=0.15)


@pytest.mark.slow
def test_a_barrier_that_some_replicas_never_saw_is_not_known():
    found = free_energy(well_windows(draws=60), bins=24, bootstrap=4)
    top = int(np.argmin(np.abs(found.profile.a.to_numpy() - barrier(found).top)))
    found.replicas[0, top] = 0.0
    with pytest.raises(Undecided, match="can't be told from none"):
        barrier(found)


def test_one_well_has_no_barrier():
    assert barrier(free_energy(well_windows(height=0.1, draws=60), bins=24, bootstrap=20)) is None


def exact_windows(centres, stiffness, seed=0):
    """Return independent draws in windows of F = 8(a² − 1)² + 2a."""
    random, x = np.random.default_rng(seed), np.linspace(-2, 2, 100_001)
    energies = [8 * (x**2 - 1) ** 2 + 2 * x + stiffness / 2 * (x - centre) ** 2 for centre in centres]
    weights = [np.exp(-(F - F.min())) for F in energies]
    a = np.stack([random.choice(x, size=(2, 500), p=p / p.sum()) for p in weights])
    data = {"aG": (("window", "chain", "draw"), a)}
    return xr.Dataset(data, {"centre": ("window", centres)}, {"order": "aG", "stiffness": stiffness})


@pytest.mark.slow
def test_windows_that_do_not_overlap_make_no_free_energy():
    """They said F(1) − F(−1) = −0.03 ± 0.46, and "one well": it is 4, with a barrier of 9."""
    with pytest.raises(NotJoined, match=r"windows at -1 and 1 overlap by .*, less than 0\.03"):
        free_energy(exact_windows([-1.0, 1.0], 400.0), 20)


@pytest.mark.slow
def test_windows_in_between_join_them():
    found = free_energy(exact_windows(np.linspace(-1.4, 1.4, 21), 100.0), 28, bootstrap=30)
    wells = barrier(found)
    x = np.linspace(-3, 3, 600001)
    weight = np.exp(-(8 * (x**2 - 1) ** 2 + 2 * x))
    edge = wells.top - found.profile.attrs["bin"] / 2
    exact = np.log(weight[x < edge].sum() / weight[x >= edge].sum())
    assert exact == pytest.approx(4, abs=0.2)  # F(1) - F(-1), but for the widths of the wells
    assert abs(wells.difference[0] - exact) < Z * wells.difference[1] < 1.5


@pytest.mark.slow
def test_errors_hold_the_autocorrelation():
    """Every draw five times over tells nothing new: the errors must stay what they are, not shrink by √5."""
    windows = well_windows(draws=60)
    repeated = windows.isel(draw=np.repeat(np.arange(60), 5))
    once, often = (barrier(free_energy(w, bins=24, bootstrap=40)).difference[1] for w in (windows, repeated))
    assert often == pytest.approx(once, rel=0.35)


def test_windows_refuse_what_they_cannot_do():
    model = Model(V=2, L=2, P=10)
    for wrong, named in (
        ({"centres": [0.1]}, "centres"),
        ({"stiffness": 0.0}, "stiffness"),
        ({"method": SGLD(step=0.1)}, "method"),
        ({"draws": 0}, "draws"),
    ):
        settings = {"centres": [0.0, 0.1], "stiffness": 10.0, "method": HMC(), "draws": 1, **wrong}
        with pytest.raises(InputError, match=named):
            umbrella(model, **settings)
    with pytest.raises(InputError, match="inputs"):
        umbrella(model.at(inputs="token+position"), [0.0, 0.1], 10.0, HMC(), draws=1)
