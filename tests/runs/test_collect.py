"""What is collected of stores that other versions, other people or other kinds of model had a part in."""

import json
import sys

import numpy as np
import pytest
import xarray as xr

from phasekit import cli
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures import Outcome, get_procedure
from phasekit.runs.store.collect import collect, save, to_dataset
from phasekit.runs.store.plan import read_plans
from phasekit.runs.store.store import Store
from phasekit.runs.store.theory_columns import mean_energy, theory_rows
from phasekit.runs.sweeps.description import SweepErrors, read_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions
from tests.runs.probes import Here
from tests.runs.test_store import put

MODEL = {"V": 8, "L": 16, "P": 100}
TASK = {"schema": 1, "model": MODEL, "data_seed": 0, "estimator": {"name": "theory", "version": 1}}


@pytest.fixture
def store(tmp_path):
    """A store with one task of today's version."""
    made = Store.create(tmp_path / "store")
    task = Task(Model(**MODEL), 0, get_procedure({"name": "theory"}))
    made.commit("group", [(task, Outcome({"U": np.array([1.0, 2.0])}))], {}, durable=False)
    return made


def run(description, store):
    sweep = read_sweep(description, name="made", source="made.toml")
    summary = run_sweep(sweep, tasks := expand(sweep), store, Here(), Silent())
    assert summary.status == 0
    return tasks


def test_tasks_of_other_versions_are_collected_with_their_version(store, capsys, tmp_path):
    old = put(store, {**TASK, "estimator": {"name": "theory", "version": 0, "gone": True}})
    schema = put(store, {**TASK, "schema": 2})
    found = collect(store)
    assert found.broken.keys() == {schema}
    assert "reads tasks of schema 1" in found.broken[schema]
    assert sorted(zip(found.table["task"], found.table["procedure_version"], strict=True))[::2] == sorted(
        [(old, 0), (next(iter(store.names() - {old, schema})), 1)]
    )
    assert found.table["theory_aG"].notna().all()
    assert found.notes == ["1 tasks are of version 0 of theory; this phasekit has version 1"]
    assert dict(store.problems()) == {}, "another version reads them"
    assert cli.run(["collect", str(store.path), "-o", str(tmp_path / "x.csv"), "--no-theory"]) == 1
    err = capsys.readouterr().err
    assert "note: 1 tasks are of version 0" in err
    assert f"broken: {schema}" in err
    assert "procedure_version" in (tmp_path / "x.csv").read_text()


def test_no_module_is_imported_because_a_store_names_it(store, tmp_path, monkeypatch):
    (tmp_path / "evilmod.py").write_text("from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()")
    monkeypatch.syspath_prepend(tmp_path)
    evil = put(store, {**TASK, "estimator": {"name": "evilmod:Foo", "version": 1}})
    score = put(store, {**TASK, "model": {**MODEL, "score": {"name": "evilmod:Score"}}})
    found = collect(store)
    assert not (tmp_path / "evilmod.ran").exists()
    assert "evilmod" not in sys.modules
    assert evil in set(found.table["task"]), "the numbers of somebody's own procedure are numbers"
    assert "whose module isn't loaded" in found.notes[0]
    assert "its module isn't loaded" in found.broken[score]


@pytest.mark.parametrize("model", [{"V": "abc", "L": 16, "P": 3}, {}, {**MODEL, "new": 1}, {**MODEL, "score": []}])
def test_parameters_that_describe_nothing_are_named(store, model):
    task = put(store, {**TASK, "model": model})
    found = collect(store)
    assert list(found.broken) == [task]
    assert len(found.table) == 2
    with pytest.raises(InputError, match=r"holds no finished task that can be read \(1 can't, the first: "):
        collect(store, [task])


def test_a_package_that_is_missing_is_named_before_anything_is_read(store, monkeypatch, capsys):
    monkeypatch.setattr("phasekit.extras.find_spec", lambda name: None)
    monkeypatch.setattr(Store, "load", lambda *_: pytest.fail("it was read"))
    assert cli.run(["collect", str(store.path), "-o", "x.parquet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "phasekit[parquet]" in line


# --- multiples of thresholds


def test_the_multiple_that_P_was_written_as_is_kept(tmp_path):
    store = Store.create(tmp_path / "store")
    axes = {"L": [64], "P": ["0.984 × P_star or P_x", "700"]}
    tasks = run({"seeds": 1, "model": {"V": 8}, "axes": axes, "procedure": {"name": "theory"}}, store)
    star = find_transitions(Model(V=8, L=64)).values["P_star"]
    plain = Task(Model(V=8, L=64, P=round(0.984 * star)), 0, get_procedure({"name": "theory"}))
    assert tasks[0].id == plain.id, "it plays no role in the id"
    found = store.load(plain.id).record["multiple"]
    assert found == {"multiple": 0.984, "threshold": "P_star", "threshold_value": pytest.approx(star, rel=1e-9)}
    assert "multiple" not in store.load(tasks[1].id).record
    table = collect(store, theory=False).table.drop_duplicates("task").set_index("P")
    assert table["P_multiple"].to_dict() == {round(0.984 * star): 0.984, 700.0: pytest.approx(np.nan, nan_ok=True)}
    assert table.loc[round(0.984 * star), "P_threshold"] == "P_star"
    save(collect(store, theory=False), tmp_path / "x.nc")
    with xr.open_dataset(tmp_path / "x.nc", engine="h5netcdf") as data:
        assert data.P_threshold.dims == ("task",)


# --- the theory beside


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "measured"),
    [
        # Mean energies of HMC, 4 data sets, 2 × 300 draws from each of two starts; their spread is below 1.5.
        (Model(V=8, L=16, P=100, score="linear"), 197.2),
        (Model(V=8, L=16, P=600, score="linear"), 335.7),
        (Model(V=4, L=6, P=20, score="linear", kappa=0.5), 40.8),
        (Model(V=4, L=6, P=20), 32.07),
        (Model(V=4, L=6, P=20, score="linear", inputs="token+position"), 60.97),
    ],
)
def test_the_energy_of_the_posterior_is_the_mean_that_samples_have(model, measured):
    assert energy(model) == pytest.approx(measured, rel=0.025)
    assert abs(find_minima(model, "posterior").action[0] / measured - 1) > 0.06, "the action is another quantity"


def test_the_mean_energy_of_a_prior_is_half_the_number_of_weights():
    assert energy(Model(V=4, L=6, P=1e-9, score="linear")) == pytest.approx((4**2 + 6**2) / 2, rel=1e-6)


def energy(model):
    """Return the mean energy over the posterior of one model."""
    (found,) = mean_energy(model.at(P=None), [model.P], find_minima(model.grid(P=[model.P]), "posterior"))
    return found


def test_the_energy_of_networks_is_the_action_at_its_minimum():
    (row,) = theory_rows([Model(V=4, L=6, P=20)], "map")
    assert row["theory_U"] == row["theory_action"] > 0


# --- other kinds of model

COINS = {
    "seeds": 2,
    "model": {"metal": "gold"},
    "axes": {"throws": [10, 20], "bias": "0.25..0.75 in 3 even"},
    "procedure": {"name": "tests.runs.subjects:Throw", "people": 3},
}


def test_any_described_thing_is_run_and_collected(tmp_path):
    store = Store.create(tmp_path / "store")
    tasks = run(COINS, store)
    assert len(tasks) == len(store.names()) == 12
    assert Task.from_parameters(json.loads(tasks[0].state_point)) == tasks[0]
    assert tasks[0].parameters["kind"] == "tests.runs.subjects:Coin"
    table = collect(store).table
    assert list(table.columns[:8]) == [
        "task", "throws", "bias", "metal", "data_seed", "procedure", "procedure_version", "number"
    ]  # fmt: skip
    assert len(table) == 36
    assert (table["theory_heads"] == table["throws"] * table["bias"]).all()
    assert (table["heads"] <= table["throws"]).all()
    assert list(table["throws"].drop_duplicates()) == [10, 20]
    assert dict(to_dataset(collect(store)).sizes) == {"task": 12, "member": 3}
    assert len(read_plans(store)) == 1


def test_models_that_nobody_here_knows_are_collected_as_they_are(store):
    strange = {**TASK, "kind": "nowhere:Thing", "model": {"a": 1}, "estimator": {"name": "nowhere:Do", "version": 1}}
    task = put(store, strange)
    found = collect(store)
    assert found.table.set_index("task").loc[task, "a"].tolist() == [1, 1]
    wrong = put(store, {**strange, "estimator": {"name": "theory", "version": 1}})
    assert "theory takes" not in collect(store).broken[wrong]
    assert "nowhere:Thing" in collect(store).broken[wrong]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {"metal": "cheese"}}, "aren't made of it"),
        ({"model": {"V": 8}}, "model.V = 8: unknown; fields are throws, bias, metal"),
        ({"axes": {"throws": "1..2 × P1"}}, "only P can be multiples"),
        ({"axes": {"size": [1]}}, "must be one of throws, bias, metal"),
        ({"axes": {"throws": [0]}}, "throws = 0"),
    ],
)
def test_mistakes_about_other_models_are_named_alike(change, words):
    with pytest.raises(SweepErrors, match=words):
        expand(read_sweep({**COINS, **change}, name="coins", source="coins.toml"))


def test_arrays_come_along_if_every_task_has_them(tmp_path):
    made = Store.create(tmp_path / "store")
    tasks = [Task(Model(**MODEL), seed, get_procedure({"name": "theory"})) for seed in (0, 1)]
    U, A = {"U": np.array([1.0, 2.0])}, np.arange(8.0).reshape(2, 4)
    outcomes = [Outcome(U, {"A": A, "H": A}), Outcome(U, {"A": A + 1, "draws_q": A})]
    made.commit("group", list(zip(tasks, outcomes, strict=True)), {}, durable=False)
    found = to_dataset(collect(made, theory=False))
    assert found.A.dims == ("task", "member", "A_0")
    np.testing.assert_array_equal(found.A.sel(task=tasks[1].id), A + 1)
    assert not {"H", "draws_q"} & set(found)
