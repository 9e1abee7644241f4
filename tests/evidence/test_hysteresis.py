"""Sweeps up and down: chains carried along, loops with an area, and the P at which the two ways part."""

import numpy as np
import pytest
import xarray as xr

from phasekit.errors import InputError
from phasekit.evidence import Loop, hysteresis_loop
from phasekit.model import Model
from phasekit.samplers import HMC, SGLD, Langevin


@pytest.fixture(scope="module")
def softmax():
    """P below, between and above the spinodals, 1363 and 1778 (docs/theory.md, section 6)."""
    model = Model(V=8, L=64, score="softmax")
    method = Langevin(step=0.08, friction=1.0)
    settings = {"draws": 40, "thin": 6, "warmup": 120, "members": 2, "dtype": "float32", "device": "cpu"}
    return hysteresis_loop(model, (2600, 900, 1500), method, **settings)


@pytest.mark.slow
def test_softmax_has_a_loop_between_its_spinodals(softmax):
    np.testing.assert_array_equal(softmax.data.P, [900, 1500, 2600])
    aG = softmax.data.aG.mean(("chain", "draw", "dataset"))
    assert aG.sel(direction="up").values[1] < 0.02 < 0.15 < aG.sel(direction="down").values[1]
    for end in (0, 2):
        assert aG.sel(direction="up").values[end] == pytest.approx(aG.sel(direction="down").values[end], abs=0.02)
    np.testing.assert_array_equal(softmax.split(), [0, 1, 0])
    area, error = softmax.area()
    assert 0.05 < area < 0.15
    assert area > 5 * error
    assert softmax.problem() is None
    work, error = softmax.work()
    assert work > 5 * error > 0  # up, on the lower branch, the loss is the higher one


def test_the_verdict_inside_the_loop_is_coexistence(softmax):
    inside = softmax.diagnoses[1]
    assert inside.verdict() == "coexistence"
    assert [set(well.starts) for well in inside.wells[0]] == [{"up"}, {"down"}]


@pytest.mark.slow
def test_linear_attention_has_no_loop():
    """Its two ways are independent chains of one law, so that the area is zero within its error."""
    method = HMC(step=0.3, leaps=6)
    loop = hysteresis_loop(
        Model(V=2, L=4, score="linear"), (10, 20, 40), method, draws=80, warmup=40, members=6, device="cpu"
    )
    area, error = loop.area()
    assert abs(area) < 4 * error
    assert error < 0.3 * float((loop.data.cG**2).mean())
    assert loop.split().sum() == 0
    assert loop.problem() is None
    work, error = loop.work()
    assert abs(work) < 4 * error


def test_a_chain_goes_on_where_it_ended():
    """At each new P its first draw is one short step away from the last draw at the P before, far from its start."""
    loop = hysteresis_loop(Model(V=2, L=3), (20, 21, 22), SGLD(step=0.004), draws=150, members=4, device="cpu")
    for way, order in (("up", slice(None)), ("down", slice(None, None, -1))):
        aG = loop.data.aG.isel(dataset=0).sel(direction=way).isel(P=order).transpose("P", "chain", "draw").to_numpy()
        joint = np.abs(aG[1:, :, 0] - aG[:-1, :, -1])
        assert joint.max() < 10 * np.abs(np.diff(aG)).std()  # steps are longest where softmax is steepest
        assert joint.mean() < 0.2 * np.abs(aG[1:, :, 0] - aG[:1, :, 0]).mean()


def test_no_chain_repeats_the_noise_of_another():
    """With a prior that says all there is (a tiny P), both ways draw from the same law, but not the same numbers."""
    loop = hysteresis_loop(Model(V=2, L=3), (1, 2), SGLD(step=0.3), draws=40, warmup=40, members=2, device="cpu")
    chains = loop.data.aG.isel(dataset=0).stack(way=("direction", "chain")).transpose("way", "P", "draw").to_numpy()
    correlations = np.corrcoef(chains.reshape(4, -1))[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 0.6


def hand_made(up, down, noise=0.001, draws=40, chains=3):
    """Return a loop whose chains scatter around given means of aG."""
    random = np.random.default_rng(0)
    P = np.geomspace(100, 400, len(up))
    values = np.array([up, down])[:, :, None, None, None]
    data = values + noise * random.standard_normal((2, len(up), 1, chains, draws))
    dims = ("direction", "P", "dataset", "chain", "draw")
    other = noise * random.standard_normal(data.shape)
    variables = {"aG": (dims, data), **{name: (dims, other) for name in ("s", "s2", "g", "q", "loss")}}
    return Loop(
        Model(V=8, L=16), xr.Dataset(variables, {"direction": ["up", "down"], "P": P, "data_seed": ("dataset", [0])})
    )


def test_the_area_is_the_integral_over_the_logarithm_of_P():
    """A parallelogram: 0.2 wide at the middle of three points ln 2 apart."""
    area, error = hand_made([0.0, 0.0, 0.2], [0.0, 0.2, 0.2]).area()
    assert area == pytest.approx(0.2 * np.log(2), abs=4 * error)
    assert 0 < error < 0.001


def test_ways_part_only_where_each_keeps_to_its_well():
    np.testing.assert_array_equal(hand_made([0.0, 0.0, 0.2], [0.0, 0.2, 0.2]).split(), [0, 1, 0])
    mixed = hand_made([0.0, 0.0, 0.2], [0.0, 0.0, 0.2])
    mixed.data["aG"].loc[{"P": mixed.data.P[1], "chain": 0}] += 0.2  # one chain of each way in either well
    np.testing.assert_array_equal(mixed.split(), [0, 0, 0])


def test_chains_that_never_moved_enclose_no_loop():
    """They stay at their starts, which are apart: an area that is many of its errors, and means nothing."""
    loop = hysteresis_loop(Model(V=8, L=16), (100, 200), Langevin(step=1e-300), draws=8, warmup=2, device="cpu")
    area, error = loop.area()
    assert area > 100 * error
    assert loop.problem().startswith("the two ways disagree at the loop's end, P = 100 and 200")
    assert set(loop.verdicts().to_numpy().ravel()) == {"not mixed"}


def test_a_loop_is_open_where_ways_end_apart():
    assert hand_made([0.0, 0.0, 0.2], [0.0, 0.2, 0.2]).problem() is None
    assert "P = 400:" in hand_made([0.0, 0.0, 0.1], [0.0, 0.2, 0.2]).problem()


def test_work_is_the_area_of_the_data_s_energy():
    """∫ (up - down) P loss/(2κ) d ln P, of losses that are known."""
    loop, loss = hand_made([0.0, 0.0, 0.2], [0.0, 0.2, 0.2]), np.array([[0.9, 0.8, 0.5], [0.9, 0.6, 0.5]])
    loop.data["loss"] = loop.data.loss + xr.DataArray(loss, dims=("direction", "P"))
    work, error = loop.work()
    assert work == pytest.approx(200 / 2 * 0.2 * np.log(2), abs=5 * error)
    assert 0 < error < 0.1


@pytest.mark.parametrize(
    ("P", "asked", "field"),
    [((10**18, 2 * 10**18), {}, "P"), ((10, 20), {"draws": 99999999999999}, "draws"), ((10.5, 20), {}, "P")],
)
def test_sizes_that_nobody_can_store_are_refused_at_once(P, asked, field):
    with pytest.raises(InputError, match=f"^{field} = "):
        hysteresis_loop(Model(V=8, L=16), P, HMC(), **{"draws": 8, **asked})


def test_numpy_s_numbers_count():
    asked = {"draws": np.int64(8), "members": np.int32(2), "seed": np.int64(1), "data_seeds": np.arange(1)}
    loop = hysteresis_loop(Model(V=2, L=3), np.array([10, 20]), HMC(step=np.float32(0.1), leaps=np.int64(2)), **asked)
    assert loop.data.sizes["draw"] == 8


def test_what_shows_no_loop_is_refused():
    with pytest.raises(InputError, match="at least two"):
        hysteresis_loop(Model(V=2, L=3), (10, 10), HMC(), draws=1)
    with pytest.raises(InputError, match="members"):
        hysteresis_loop(Model(V=2, L=3), (10, 20), HMC(), draws=1, members=1)
