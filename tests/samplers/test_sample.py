"""The driver: what it records, how it stops and resumes, what it refuses."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import xarray as xr

from phasekit.checkpoint import load_checkpoint
from phasekit.errors import InputError
from phasekit.heads import build_energy
from phasekit.heads.order_parameters import order_parameters
from phasekit.model import Model
from phasekit.samplers import HMC, SGLD, ChainDiverged, Decay, Langevin, Samples, chains, get_method, sample
from phasekit.tasks.copy import draw_dataset

METHODS = [
    SGLD(step=Decay(2e-3, power=0.3, offset=20.0)),
    SGLD(step=1e-3, batch=5),
    Langevin(step=0.03, friction=0.7),
    Langevin(step=0.01, batch=4),
    HMC(step=0.1, leaps=4),
]


def models(score="softmax", inputs="positional"):
    return [Model(V=3, L=4, P=P, score=score, inputs=inputs) for P in (20, 60)]


def run(method=METHODS[0], score="softmax", **changes):
    options = {"draws": 12, "thin": 3, "warmup": 10, "members": 2, "seed": 4, **changes}
    return sample(models(score), method, **options)


class Stop(Exception):
    """In place of somebody's Ctrl-C."""


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.name}-{m.minibatch}")
def test_stopped_and_resumed_is_uninterrupted_bitwise(method, tmp_path, monkeypatch):
    whole = run(method, attention=True)
    monkeypatch.setattr(chains, "_LOOK_EVERY", 1)
    path = tmp_path / "run.npz"
    for last in (4, 17, 31):  # in warm-up, between two draws, later; each time a little after a save

        def stop(step, total, last=last):
            if step == last:
                raise Stop

        with pytest.raises(Stop):
            run(method, attention=True, checkpoint=path, save_every=3, progress=stop)
    resumed = run(method, attention=True, checkpoint=path)
    xr.testing.assert_identical(whole.tree, resumed.tree)


def test_runs_can_be_prolonged(tmp_path):
    path = tmp_path / "run.npz"
    run(draws=5, checkpoint=path)
    longer = run(draws=12, checkpoint=path)
    xr.testing.assert_identical(run(draws=12).tree, longer.tree)
    with pytest.raises(InputError, match="draws = 7: the checkpoint holds 12 already"):
        run(draws=7, checkpoint=path)


@pytest.mark.slow
def test_a_killed_run_resumes(tmp_path):
    """Kill -9 while it saves as often as it can."""
    path, count = tmp_path / "run.npz", 4000
    code = f"""
import torch
torch.set_num_threads(1)
from tests.samplers.test_sample import run
run(draws={count}, checkpoint={str(path)!r}, save_every=1)
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    process.kill()
    assert process.wait() != 0
    with np.load(path) as file:
        reached = len(file["draws"])
    assert reached < count
    draws = reached + 5
    xr.testing.assert_identical(run(draws=draws, checkpoint=path).tree, run(draws=draws).tree)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("seed", {"seed": 5}),
        ("method", {"method": SGLD(step=1e-3)}),
        ("thin", {"thin": 2}),
        ("warmup", {"warmup": 11}),
        ("chains", {"members": 3}),
        ("datasets", {"data_seeds": (1,)}),
        ("model", {"score": "linear"}),
        ("dtype", {"dtype": "float32"}),
        ("path", {"path": "sequences"}),
        ("attention", {"attention": True}),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(name, changes, tmp_path):
    path = tmp_path / "run.npz"
    run(draws=2, path="moments", checkpoint=path)
    with pytest.raises(InputError, match=f"belongs to a run with other .*{name}"):
        run(draws=2, checkpoint=path, **{"path": "moments", **changes})


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"PK" + b[2:50]])
def test_a_damaged_checkpoint_is_refused_and_kept(damage, tmp_path):
    path = tmp_path / "run.npz"
    run(draws=2, checkpoint=path)
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(InputError, match="can't be read"):
        run(draws=2, checkpoint=path)
    assert path.read_bytes() == before


def test_other_npz_files_are_no_checkpoints(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, header=np.array(json.dumps({"format": "another"})), draws=np.zeros(3))
    with pytest.raises(InputError, match="must be a 'phasekit checkpoint 2' file"):
        load_checkpoint(path, {})
    with pytest.raises(InputError, match=r"must end in \.npz"):
        run(draws=2, checkpoint=tmp_path / "run.h5")


@pytest.mark.parametrize(("score", "inputs"), [("softmax", "positional"), ("linear", "token+position")])
def test_what_is_recorded(score, inputs):
    """The last draw's numbers, from the last state, by an energy of one's own."""
    states = []

    class Spy(HMC):
        def build(self, target, keys, warmup):
            kernel = HMC.build(self, target, keys, warmup)

            def update(state, inplace=False):
                states.append(kernel.update(state))
                return states[-1]

            return kernel._replace(update=update)

    samples = sample(models(score, inputs), Spy(step=0.1, leaps=3), draws=4, thin=2, warmup=5, attention=True)
    recorded = [state for state in states if state.step > 5 and (state.step - 5) % 2 == 0]
    assert len(recorded) == 4
    energy = build_energy([draw_dataset(m, 0) for m in models(score, inputs)], dtype="float64", path="sequences")
    attention = torch.zeros(2, 4, 4, 4, dtype=torch.float64)
    for draw, state in enumerate(recorded):
        W, G = state.position["W"], state.position["G"]
        U, _, _ = energy.energy_and_gradient(W, G)
        averages = energy.averages(W, G)
        first, second, coverage = order_parameters(averages, 4)
        names = ("a1", "aG") if score == "softmax" else ("c1", "cG")
        expected = {names[0]: first, names[1]: second, "coverage": coverage, "U": U, "loss": averages.loss}
        expected |= {name: getattr(averages, name) for name in ("s", "s2", "g", "q")}
        assert set(samples.posterior.data_vars) == set(expected)
        for name, values in expected.items():
            found = samples.posterior[name].sel(draw=draw).transpose("dataset", "chain").values
            np.testing.assert_allclose(found, values.numpy(), rtol=1e-8, atol=1e-10)
        sign = 1 if score == "softmax" else torch.where(first + second < 0, -1.0, 1.0)[..., None, None]
        attention += sign * energy.mean_attention(G) / 4
    found = samples.tree["attention"].A.transpose("dataset", "chain", ...).values
    np.testing.assert_allclose(found, attention.numpy(), rtol=1e-8, atol=1e-10)
    stats = samples.tree["sample_stats"]
    np.testing.assert_allclose(stats.step_size.values.T.ravel(), states[-1].log_step.exp().numpy())
    np.testing.assert_allclose(stats.acceptance.values.T.ravel(), (states[-1].accepted / 8).numpy())


def test_labels_and_attributes():
    samples = run(METHODS[4], members=[3, 7], data_seeds=(0, 2), starts=("copy", "random"), draws=8)
    data = samples.posterior
    assert dict(data.sizes) == {"chain": 4, "draw": 8, "dataset": 4}
    assert data.start.values.tolist() == ["copy", "copy", "random", "random"]
    assert data.number.values.tolist() == [3, 7, 3, 7]
    assert data.P.values.tolist() == [20, 20, 60, 60]
    assert data.data_seed.values.tolist() == [0, 2, 0, 2]
    assert samples.model == models()[0].at(P=None)
    assert samples.method == METHODS[4]
    attributes = samples.tree.attrs
    assert (attributes["seed"], attributes["warmup"], attributes["thin"]) == (4, 10, 3)
    assert (attributes["dtype"], attributes["device"], attributes["path"]) == ("float64", "cpu", "moments")


def test_a_members_noise_belongs_to_it(tmp_path):
    """Sampling some chains alone gives the same chains, up to rounding."""
    method = Langevin(step=0.05)
    everyone = run(method, members=4, draws=6)
    apart = sample(models()[1], method, draws=6, thin=3, warmup=10, members=[2], starts=("copy",), seed=4)
    chosen = everyone.posterior.isel(dataset=[1], chain=[6])
    assert (chosen.start.values[0], chosen.number.values[0]) == ("copy", 2)
    for name, values in apart.posterior.items():
        np.testing.assert_allclose(values.values, chosen[name].values, rtol=1e-7, atol=1e-9)
    other = run(method, members=4, draws=6, seed=5)
    assert abs(other.posterior.U - everyone.posterior.U).min() > 1e-6


def test_a_diverging_chain_is_named_with_its_draw():
    """The step suits P = 20, not P = 20 000."""
    pair = [Model(V=3, L=4, P=P) for P in (20, 20_000)]
    with pytest.raises(ChainDiverged) as caught:
        sample(pair, SGLD(step=2.5e-3), draws=300, members=1, starts=("random",), seed=0)
    error = caught.value
    assert "P = 20000" in error.chain
    assert error.draw is not None
    assert f"at draw {error.draw} " in str(error)
    assert str(error).startswith("chain 0 (start random, number 0, P = 20000, data seed 0) is not finite at draw")
    assert "\n" not in str(error)
    assert error.samples is None or (
        error.samples.posterior.sizes["draw"] == error.draw and np.isfinite(error.samples.posterior.U).all()
    )
    with pytest.raises(ChainDiverged, match=r"is not finite in warm-up \(step 100\)") as caught:
        sample(pair, SGLD(step=0.5), draws=3, warmup=500, members=1)
    assert caught.value.draw is None
    assert caught.value.samples is None


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.name}-{m.minibatch}")
def test_methods_are_described_and_read_back(method):
    description = json.loads(json.dumps(method.describe()))
    assert get_method(description) == method


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"draws": 0}, "draws"),
        ({"thin": 0}, "thin"),
        ({"warmup": -1}, "warmup"),
        ({"save_every": 0}, "save_every"),
        ({"members": []}, "members"),
        ({"members": [1, 1]}, "members"),
        ({"members": 0}, "members"),
        ({"starts": ("cpoy",)}, "start"),
        ({"starts": "copy"}, "starts"),
        ({"data_seeds": ()}, "data_seeds"),
        ({"seed": -1}, "random stream|seed"),
        ({"dtype": "float16"}, "dtype"),
        ({"device": "tpu"}, "device"),
        ({"path": "short"}, "path"),
        ({"method": "sgld"}, "method"),
        ({"method": lambda: SGLD(step=0.0)}, "step"),
        ({"method": lambda: SGLD(step=0.1, batch=0)}, "batch"),
        ({"method": lambda: HMC(leaps=0)}, "leaps"),
    ],
)
def test_bad_input_is_refused_in_one_line(changes, field):
    with pytest.raises(InputError, match=field) as caught:
        run(**{name: value() if callable(value) else value for name, value in changes.items()})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("description", [{"name": "gibbs"}, {}, {"name": "sgld", "stepp": 1}])
def test_unknown_methods_and_settings_are_refused(description):
    with pytest.raises(InputError, match=r"method|step"):
        get_method(description)


@pytest.mark.parametrize("numbers", [(-1.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0), (np.nan, 1.0, 1.0)])
def test_decays_out_of_range_are_refused(numbers):
    with pytest.raises(InputError, match="must be a finite number"):
        Decay(*numbers)


def test_numpy_s_numbers_count(tmp_path):
    """They must not end a run at its last step, where its record is written."""
    asked = {name: np.int64(value) for name, value in {"draws": 3, "thin": 2, "warmup": 4, "seed": 1}.items()}
    plain = {name: int(value) for name, value in asked.items()}
    odd = HMC(step=np.float32(0.125), leaps=np.int32(3), acceptance=np.float32(0.75))
    found = run(odd, members=np.int64(2), data_seeds=np.arange(1), checkpoint=tmp_path / "run.npz", **asked)
    known = run(HMC(step=0.125, leaps=3, acceptance=0.75), members=2, data_seeds=(0,), **plain)
    xr.testing.assert_identical(found.tree, known.tree)
    assert found.method == known.method
    assert SGLD(step=np.float32(0.125), batch=np.int64(2)) == SGLD(step=0.125, batch=2)


def test_more_draws_than_memory_holds_are_refused_at_once():
    with pytest.raises(InputError, match=r"^draws = 99999999999999: those of 8 chains don't fit into memory"):
        run(draws=99999999999999)
    with pytest.raises(InputError, match=r"^P = 1000000000000000000: .* sequences of 4 tokens don't fit into memory"):
        sample(models()[0].at(P=1e18), METHODS[0], draws=1)


def test_progress_ends_at_the_end():
    calls = []
    run(draws=4, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (22, 22)


@pytest.mark.slow
def test_theory_of_the_posterior(seed):
    """Two cheap rows of docs/theory.md, section 9: HMC at V = 8, L = 16, on data of its own.

    Bounds: 4 % for what one draw of the data and the theory's O(1/L) leave open, far more than the Monte Carlo error.
    """
    samples = sample(
        [Model(V=8, L=16, P=P, score="linear") for P in (64, 512)],
        HMC(step=0.2, leaps=14),
        draws=90,
        warmup=60,
        members=3,
        seed=seed,
    )
    means = samples.folded().mean(("chain", "draw"))
    assert means.q.values == pytest.approx([0.0576, 0.0578], rel=0.04)
    assert means.loss.values[0] == pytest.approx(1.315, rel=0.04)
    assert means.cG.values[1] == pytest.approx(0.130, rel=0.04)
    assert means.c1.values[1] == pytest.approx(0.105, abs=0.02)


def test_chains_go_on_where_others_ended():
    model = Model(V=3, L=6, P=40)
    first = sample(model, SGLD(step=1e-3), draws=3, members=2)
    assert {name: x.shape for name, x in first.final().items()} == {"W": (1, 4, 3, 3), "G": (1, 4, 6, 6)}
    still = SGLD(step=1e-12, temperature=0.0)
    later = sample(model.at(P=60), still, draws=1, members=2, initial=first)
    for name, ended in first.final().items():
        np.testing.assert_allclose(later.final()[name], ended, atol=1e-9)
    with pytest.raises(InputError, match="shapes"):
        sample(model, still, draws=1, members=3, initial=first)
    with pytest.raises(InputError, match="where their chains ended"):
        sample(model, still, draws=1, initial=Samples(xr.DataTree.from_dict({"posterior": first.posterior})))


@pytest.mark.slow
def test_a_checkpoint_of_the_version_before_is_resumed(tmp_path):
    """It numbered its tensors, and its header had another format."""
    path, now = tmp_path / "run.npz", {"position W": "position 0", "position G": "position 1"}
    run(HMC(step=0.1, leaps=3), draws=5, checkpoint=path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    draws, header = arrays.pop("draws"), json.loads(str(arrays.pop("header")))
    header["format"] = "phasekit sampling checkpoint 1"
    now |= {name.replace("position", "gradient"): old.replace("position", "gradient") for name, old in now.items()}
    former = {f"state {now.get(name, name)}": array for name, array in arrays.items()}
    np.savez(path, header=np.array(json.dumps(header)), draws=draws, **former)
    whole = run(HMC(step=0.1, leaps=3), draws=12)
    xr.testing.assert_identical(run(HMC(step=0.1, leaps=3), draws=12, checkpoint=path).tree, whole.tree)
