"""Procedures that keep their draws: what comes back out of a store is what the samplers returned."""

import numpy as np
import pytest
import xarray as xr

from phasekit.errors import InputError
from phasekit.evidence import free_energy, hysteresis_loop, umbrella, windows
from phasekit.model import Model
from phasekit.runs.procedures import Stopped, Workplace, get_procedure
from phasekit.runs.store.collect import collect, to_dataset
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import read_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from phasekit.samplers import HMC, Langevin, diagnose, sample
from tests.runs.probes import Here

SOFTMAX = Model(V=4, L=6, P=60, score="softmax")
LINEAR = SOFTMAX.at(score="linear")


def finished(tmp_path, model, axes, **procedure):
    """Run a sweep in this process; return its procedure, results by case, and the collected table."""
    described = {name: value for name, value in model.at(P=None).describe().items() if value is not None}
    written = {"model": described, "axes": axes, "seeds": 2, "group": 4, "procedure": procedure}
    description = read_sweep(written, name="x", source="x.toml")
    store, tasks = Store.create(tmp_path / "store"), expand(description)
    summary = run_sweep(description, tasks, store, Here(), Silent())
    assert (summary.done, summary.status) == (len(tasks), 0)
    results = {(task.model, task.data_seed): store.load(task.id) for task in tasks}
    return description.procedure, results, collect(store, theory=False)


def assert_same(found, wanted):
    """Compare data sets with all their coordinates."""
    assert set(found.coords) == set(wanted.coords)
    xr.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_a_loop_comes_back_as_it_was_swept(tmp_path):
    settings = {"draws": 12, "thin": 2, "warmup": 10, "members": 2}
    procedure, results, found = finished(
        tmp_path, LINEAR, {"P": [50]}, name="hysteresis", sizes=[1.5, 0.6, 1], step=0.1, **settings
    )
    loop = procedure.loop(results)
    wanted = hysteresis_loop(LINEAR, (30, 50, 75), Langevin(step=0.1), data_seeds=(0, 1), device="cpu", **settings)
    assert_same(loop.data, wanted.data)
    assert loop.data.P.values.tolist() == [30, 50, 75]
    np.testing.assert_allclose(loop.area(), wanted.area(), rtol=1e-9)
    assert [one.verdict(1) for one in loop.diagnoses] == [one.verdict(1) for one in wanted.diagnoses]
    rows = found.table[(found.table["way"] == "down") & (found.table["size"] == 75) & (found.table["data_seed"] == 1)]
    wanted_U = wanted.data.U.sel(direction="down", P=75).isel(dataset=1).mean("draw")
    np.testing.assert_allclose(rows["U"], wanted_U, rtol=1e-9)
    assert set(found.table["verdict"]) <= {"mixed", "coexistence", "not mixed"}
    assert to_dataset(found).draws_U.shape == (2, 2 * 3 * 2, 12)


@pytest.mark.slow
def test_umbrella_windows_come_back_as_they_were_sampled(tmp_path):
    settings = {"draws": 30, "warmup": 10, "members": 2}
    model = SOFTMAX.at(P=60)
    procedure, results, found = finished(
        tmp_path, model, {"P": [60]}, name="umbrella", windows=4, step=0.1, leaps=4, **settings
    )
    centres, stiffness = windows(model, 4)
    wanted = umbrella(model, centres, stiffness, HMC(step=0.1, leaps=4), data_seed=1, **settings)
    sampled = procedure.sampled((model, 1), results[model, 1])
    xr.testing.assert_allclose(sampled, wanted[list(sampled.data_vars)], rtol=1e-9)
    assert {name: sampled.attrs[name] for name in ("model", "order", "data_seed")} == {
        name: wanted.attrs[name] for name in ("model", "order", "data_seed")
    }
    assert sampled.attrs["stiffness"] == pytest.approx(wanted.attrs["stiffness"])
    np.testing.assert_allclose(free_energy(sampled, 6).profile.F, free_energy(wanted, 6).profile.F, rtol=1e-6)
    assert found.table.groupby(["data_seed", "window", "start"]).size().tolist() == [2] * 16


def test_samplers_keep_draws_when_asked(tmp_path):
    settings = {"draws": 12, "warmup": 10, "members": 2}
    procedure, results, _ = finished(
        tmp_path, LINEAR, {"P": [20, 30]}, name="hmc", leaps=4, keep_draws=True, **settings
    )
    models = [LINEAR.at(P=20), LINEAR.at(P=30)]
    samples = procedure.samples(results)
    wanted = sample(models, HMC(leaps=4), data_seeds=(0, 1), device="cpu", **settings)
    assert_same(samples.posterior, wanted.posterior)
    assert samples.model == wanted.model
    assert samples.method == wanted.method
    assert diagnose(samples).verdict(3) == diagnose(wanted).verdict(3)


def test_draws_are_kept_only_when_asked_and_ids_without_them_stay():
    plain, keeping = (get_procedure({"name": "hmc", "keep_draws": keep}) for keep in (False, True))
    assert "keep_draws" not in plain.describe()
    assert keeping.describe()["keep_draws"] is True
    with pytest.raises(InputError, match="keep_draws"):
        plain.samples({})


@pytest.mark.parametrize("sizes", [[], [1], [1, 1], [0, 1], [-1, 1]])
def test_sizes_of_a_loop_that_make_no_sense_are_refused(sizes):
    with pytest.raises(InputError, match="two different numbers above 0"):
        get_procedure({"name": "hysteresis", "sizes": sizes})


def test_umbrella_sampling_refuses_other_inputs_before_work_begins():
    with pytest.raises(InputError, match="positional"):
        get_procedure({"name": "umbrella"}).check(Model(V=4, L=6, P=9, inputs="token+position"))


@pytest.mark.parametrize("name", ["hysteresis", "umbrella"])
def test_a_measurement_of_speed_takes_few_steps(name):
    procedure = get_procedure({"name": name, "windows": 4} if name == "umbrella" else {"name": name})
    short = procedure.shortened(3)
    assert (short.length, procedure.length > 100) == (3, True)
    (outcome,) = procedure.shortened(1).run([(SOFTMAX, 0)], Workplace())
    assert len(outcome.values["U"]) == procedure.heads


def test_a_loop_stops_when_it_is_asked_to(tmp_path):
    procedure = get_procedure({"name": "hysteresis", "sizes": [1, 2], "draws": 10, "thin": 10, "warmup": 50})
    (tmp_path / "stop").touch()
    with pytest.raises(Stopped):
        procedure.run([(LINEAR, 0)], Workplace(stop_file=tmp_path / "stop"))
