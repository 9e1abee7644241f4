"""Archives: what was computed comes back, whatever is damaged is refused, and a sample computed again agrees."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from phasekit.errors import InputError
from phasekit.runs.archive.compare import compare, errors_of
from phasekit.runs.archive.file import archive_of, read_archive, write_archive
from phasekit.runs.archive.make import make_archive
from phasekit.runs.archive.start import best_preset, came_from, start_of
from phasekit.runs.archive.verify import archives_in, load_archives, verify
from phasekit.runs.procedures import Outcome
from phasekit.runs.procedures.adam import AdamNetworks
from phasekit.runs.store.collect import collect
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps import thresholds
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from tests.runs.probes import Here, Probe

SWEEP = """
about = "two kinds of tasks"
group = 4
seeds = 2
archive = ["A"]
[model]
V = 8
[procedure]
name = "adam"
steps = 30
[preset.full]
seeds = 3
[[part]]
model.score = "softmax"
axes = {L = [16, 24], P = "0.5, 2 × P_star or P_x"}
[[part]]
model = {score = {name = "ssa", n = 3.0}, L = 6}
axes.P = [10]
procedure = {name = "tests.runs.probes:Probe"}
"""


def ran(file, folder, preset="quick", *, scratch=False):
    """Run a sweep as the command does; return its store, tasks and how many were computed."""
    sweep, store = load_sweep(file, preset), Store.create(folder)
    start = start_of(sweep, store, scratch=scratch)
    start.prepare(store)
    summary = run_sweep(sweep, start.tasks, store, Here(), Silent())
    assert summary.status == 0
    return store, start.tasks, summary.done


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """A folder with a sweep that was run and archived."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "sims").mkdir()
    (folder / "sims" / "small.toml").write_text(SWEEP)
    store, tasks, done = ran(folder / "sims" / "small.toml", folder / "first")
    assert done == len(tasks) == 10
    made = make_archive(load_sweep(folder / "sims" / "small.toml", "quick"), store)
    assert (made.tasks, made.archived, made.added, made.dropped) == (10, 10, 10, 0)
    return folder


@pytest.fixture
def archived(made_once, tmp_path):
    """A copy of it: the sweep's file, its archive and its store."""
    for name in ("sims", "first"):
        shutil.copytree(made_once / name, tmp_path / name)
    file = tmp_path / "sims" / "small.toml"
    return file, archive_of(file, "quick"), Store.open(tmp_path / "first")


def test_what_comes_back_is_what_was_computed(archived, tmp_path):
    file, _, store = archived
    again, tasks, done = ran(file, tmp_path / "second")
    assert done == 0
    for task in tasks:
        before, after = store.load(task.id), again.load(task.id)
        assert before.parameters == after.parameters
        assert list(before.values) == list(after.values)
        for name, values in before.values.items():
            np.testing.assert_array_equal(values, after.values[name])
        np.testing.assert_array_equal(before.arrays.get("A", 0), after.arrays.get("A", 0))
        for key in ("seconds", "finished", "commit", "threads", "ensemble", "dtype", "multiple"):
            assert before.record.get(key) == after.record.get(key), key
        assert came_from(again, task.id) == "small.quick"
    assert collect(again).table.equals(collect(store).table)


def test_xarray_alone_reads_it(archived):
    _, path, store = archived
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        assert set(tree.children) == {"adam_0", "Probe_0"}
        adam = tree["adam_0"].to_dataset().load()
    with xr.open_dataset(path, group="Probe_0", engine="h5netcdf") as probes:
        assert probes.A.dims == ("row", "A_1", "A_2")
        assert set(probes.model_score.values) == {"ssa"}
    task = adam.isel(task=3)
    found = store.load(str(task.task.item()))
    assert task.data_seed == found.parameters["data_seed"]
    assert task.procedure_version == AdamNetworks.version
    assert task.model_L == found.parameters["model"]["L"]
    assert task.run_seconds == found.record["seconds"]
    rows = slice(int(adam.members[:3].sum()), int(adam.members[:4].sum()))
    np.testing.assert_array_equal(adam.U[rows], found.values["U"])


def test_arrays_that_nobody_asked_for_are_left_out_and_named(archived, tmp_path):
    archive = read_archive(archived[1])
    write_archive(archive, tmp_path / "lean.nc", ("B*",))
    lean = read_archive(tmp_path / "lean.nc")
    probes = [task for task in lean.tasks.values() if "Probe" in task.parameters["estimator"]["name"]]
    assert all(not task.arrays and task.record["left_out"] == ["A"] for task in probes)


def test_only_what_is_missing_is_computed(archived, tmp_path):
    file, *_ = archived
    file.write_text(SWEEP.replace("0.5, 2 ×", "0.5, 2, 3 ×"))
    _, tasks, done = ran(file, tmp_path / "second")
    assert (len(tasks), done) == (14, 4)


def test_from_scratch_everything_is_computed_and_what_was_is_kept(archived, tmp_path):
    file, *_ = archived
    assert ran(file, tmp_path / "second")[2] == 0
    assert ran(file, tmp_path / "second", scratch=True)[2] == 10
    assert ran(file, tmp_path / "second", scratch=True)[2] == 0


def test_an_archive_grows_and_loses_what_the_sweep_no_longer_has(archived, tmp_path):
    file, *_ = archived
    file.write_text(SWEEP.replace("0.5, 2 ×", "2, 3 ×"))
    store, _, done = ran(file, tmp_path / "second")
    assert done == 4
    made = make_archive(load_sweep(file, "quick"), store)
    assert (made.tasks, made.archived, made.added, made.dropped) == (10, 10, 4, 4)


def test_an_archive_made_anew_has_what_its_store_had_from_another(archived, tmp_path):
    file, path, _ = archived
    store, *_ = ran(file, tmp_path / "second")
    path.unlink()
    made = make_archive(load_sweep(file, "quick"), store)
    assert (made.tasks, made.archived, made.added) == (10, 10, 10)
    assert not any("archive" in task.record for task in read_archive(path).tasks.values())


def test_the_largest_preset_that_is_archived_as_a_whole_is_the_best(archived, tmp_path):
    file, *_ = archived
    assert best_preset(file) == "quick"
    store, tasks, _ = ran(file, tmp_path / "more", "full")
    assert len(tasks) == 15
    victim = tasks[0].id
    shutil.copytree(store.workspace / victim, tmp_path / "aside")
    store.remove(victim)
    make_archive(load_sweep(file, "full"), store)
    assert best_preset(file) == "quick"
    shutil.copytree(tmp_path / "aside", store.workspace / victim)
    make_archive(load_sweep(file, "full"), store)
    assert best_preset(file) == "full"


def test_thresholds_are_asked_for_once(archived, tmp_path, monkeypatch):
    file, *_ = archived

    def never(*_):
        raise AssertionError("asked again")

    monkeypatch.setattr(thresholds, "_computed", never)
    assert ran(file, tmp_path / "second")[2] == 0
    sweep = load_sweep(file, "quick")
    shutil.rmtree(file.parent / "archive")
    assert len(start_of(sweep, Store.open(tmp_path / "second")).tasks) == 10
    with pytest.raises(AssertionError, match="asked again"):
        start_of(sweep, Store(tmp_path / "third"))


def changed(path):
    with h5py.File(path, "r+") as opened:
        opened["adam_0/U"][0] += 1e-9


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damaged(path):
    content = path.read_bytes()
    third = len(content) // 3
    path.write_bytes(content[:third] + bytes(third) + content[2 * third :])


def foreign(path):
    path.unlink()
    xr.Dataset({"U": ("task", [1.0])}).to_netcdf(path, engine="h5netcdf")


def other(path):
    write_archive(replace(read_archive(path), sweep="large"), path)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (changed, "was changed"),
        (truncated, "is damaged, or no netCDF file"),
        (damaged, "is damaged, or no netCDF file|was changed"),
        (foreign, "is no archive that this version reads"),
        (other, "holds results of large, preset quick, and not of small"),
        (lambda path: path.write_text("1, 2"), "is damaged, or no netCDF file"),
    ],
)
def test_what_is_not_whole_is_refused_by_name_in_one_line(archived, tmp_path, spoil, words):
    file, path, *_ = archived
    spoil(path)
    with pytest.raises(InputError, match=words) as refused:
        ran(file, tmp_path / "second")
    assert str(path)[-20:] in str(refused.value) or "small.quick.nc" in str(refused.value.value)
    assert "\n" not in str(refused.value)


def test_results_of_another_version_of_a_procedure_are_refused(archived, tmp_path, monkeypatch):
    file, *_ = archived
    monkeypatch.setattr(AdamNetworks, "version", 99)
    with pytest.raises(InputError, match=r"tasks are of version 2 of adam, this phasekit has version 99: .*scratch"):
        ran(file, tmp_path / "second")
    assert ran(file, tmp_path / "second", scratch=True)[2] == 10


def checked(path, **options):
    *_, found = verify(load_archives([path]), Here(), **options)
    return found[0]


def test_a_sample_that_is_computed_again_agrees(archived):
    _, path, *_ = archived
    found = checked(path, share=1.0)
    assert len(found.comparisons) == 10
    assert not found.wrong
    assert found.largest("relative") < 1e-3
    assert len(checked(path, share=0.2, seed=1).comparisons) == 2
    assert checked(path, share=0.2, seed=1).comparisons.keys() == checked(path, share=0.2, seed=1).comparisons.keys()
    assert len(checked(path, seconds=0.01).comparisons) >= 1
    assert checked(path, share=1.0, longest=0.0).too_long >= 8


def test_a_result_that_was_made_up_is_found(archived):
    path = archived[1]
    archive = read_archive(path)
    name, task = next((n, t) for n, t in archive.tasks.items() if "Probe" in t.parameters["estimator"]["name"])
    wrong = replace(task, values={**task.values, "U": task.values["U"] * 1.01})
    write_archive(replace(archive, tasks={**archive.tasks, name: wrong}), path, ("A",))
    assert "U by 0.01 of itself" in checked(path, share=1.0).wrong[name]


def test_what_fails_now_is_reported(archived, monkeypatch):
    _, path, *_ = archived

    def fails(*_):
        raise ArithmeticError("no\nluck")

    monkeypatch.setattr(Probe, "run", fails)
    assert set(checked(path, share=1.0).wrong.values()) == {"ArithmeticError: no luck"}


def test_networks_that_end_elsewhere_are_counted_and_not_compared():
    settled = {"U": np.array([1.0, 2.0, 3.0]), "aG": np.array([0.1, 0.2, 0.3]), "converged": np.ones(3, dtype=bool)}
    moved = {**settled, "U": np.array([1.0, 2.1, 3.0]), "aG": np.array([0.1, 0.7, 0.3])}
    found = compare(Outcome(settled), Outcome(moved))
    assert (found.elsewhere, found.wrong, found.identical) == (1, [], False)
    moved = {**settled, "aG": np.array([0.1, 0.2, 0.301])}
    assert compare(Outcome(settled), Outcome(moved)).wrong == ["aG by 0.003 of itself"]
    nan = {**settled, "aG": np.array([0.1, np.nan, 0.3])}
    assert compare(Outcome(settled), Outcome(nan)).wrong
    assert compare(Outcome(nan), Outcome(nan)).identical


def chains(mean, seed, verdict="mixed"):
    draws = np.random.default_rng(seed).normal(mean, 1.0, (4, 500))
    values = {"start": np.array(["copy"] * 4), "number": np.arange(4), "q": draws.mean(1)}
    return Outcome({**values, "verdict": np.array([verdict] * 4)}, {"draws_q": draws})


def test_chains_agree_within_their_errors_and_unmixed_ones_are_counted():
    assert errors_of(chains(0, 1))["q"] == pytest.approx(1 / np.sqrt(500), rel=0.2)
    sigmas = [compare(chains(0, k), chains(0, 1000 + k)).sigmas for k in range(200)]
    assert np.sqrt(np.mean(np.square(sigmas))) == pytest.approx(1, abs=0.2)
    assert "standard errors" in compare(chains(0, 1), chains(0.5, 2)).wrong[0]
    assert compare(chains(0, 1), chains(0.5, 2, "not mixed")).unmixed == 4


def test_where_an_archive_is(tmp_path):
    assert archive_of("sims/a.toml", "quick") == Path("sims/archive/a.quick.nc")
    with pytest.raises(InputError, match="holds none"):
        archives_in(tmp_path)


def test_the_commands(archived, tmp_path, capsys, monkeypatch):
    from phasekit import cli

    file, path, store = archived
    monkeypatch.chdir(tmp_path)

    def command(*words):
        capsys.readouterr()
        return cli.run(list(map(str, words))), *capsys.readouterr()

    path.unlink()
    status, out, _ = command("archive", store.path, "--sims", file.parent, "--json")
    assert (status, json.loads(out)["archives"][0]["archived"]) == (0, 10)
    status, out, _ = command("archive", "verify", path, "--share", 1, "--seed", 3, "-j", 1, "--json")
    assert json.loads(out)["wrong"] == {}
    assert (status, json.loads(out)["seed"], json.loads(out)["passed"]) == (0, 3, True)
    status, out, _ = command("run", file, "--dry-run", "--json")
    assert (json.loads(out)["archived"], json.loads(out)["missing"]) == (10, 0)
    status, out, err = command("run", file, "-j", 1)
    assert status == 0
    assert "10 of 10 tasks are archived" in err
    truncated(path)
    status, _, err = command("run", file, "--store", tmp_path / "new")
    assert status == 2
    assert err.startswith("error: archive = ")
    assert err.count("\n") == 1
