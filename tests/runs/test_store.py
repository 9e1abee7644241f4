"""The store: what is written is whole or not there, and what isn't whole is found out."""

import hashlib
import json
import os
import shutil
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import signac

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures import Outcome, get_procedure
from phasekit.runs.store import results
from phasekit.runs.store.claims import claim
from phasekit.runs.store.results import pack
from phasekit.runs.store.store import BrokenTask, Store
from phasekit.runs.sweeps.task import Task

VALUES = {"start": np.array(["uniform", "copy"]), "U": np.array([0.1, np.nan]), "converged": np.array([True, False])}
OUTCOME = Outcome(VALUES, {"A": np.arange(8.0).reshape(2, 2, 2)}, {"dtype": "float32"})


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


@pytest.fixture
def tasks():
    return [Task(Model(V=8, L=16, P=100), seed, get_procedure({"name": "theory"})) for seed in range(4)]


@pytest.fixture
def filled(store, tasks):
    store.commit("group", [(task, OUTCOME) for task in tasks], {"threads": 1}, durable=True)
    return store


def test_what_was_written_is_read_back(filled, tasks):
    found = filled.load(tasks[1].id)
    assert found.parameters == tasks[1].parameters
    assert found.record["threads"] == 1
    assert found.record["dtype"] == "float32"
    assert found.values.keys() == VALUES.keys()
    for name, values in VALUES.items():
        np.testing.assert_array_equal(found.values[name], values)
    np.testing.assert_array_equal(found.arrays["A"], OUTCOME.arrays["A"])
    assert filled.names() == {task.id for task in tasks}
    assert os.listdir(filled.staging) == []
    assert list(filled.problems()) == []


def test_signac_and_numpy_read_the_store_too(filled, tasks):
    project = signac.get_project(filled.path)
    assert {job.id for job in project} == filled.names()
    assert {job.statepoint()["data_seed"] for job in project.find_jobs({"model.L": 16})} == {0, 1, 2, 3}
    with np.load(project.open_job(id=tasks[0].id).fn("result.npz")) as file:
        np.testing.assert_array_equal(file["values"]["U"], VALUES["U"])
        assert json.loads(file["record.json"])["task"] == tasks[0].id


def files_of(store, task):
    return sorted((store.workspace / task.id).iterdir())


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "append", "remove", "another task's", "zeros"])
def test_every_damage_is_found(filled, tasks, number, damage):
    path = files_of(filled, tasks[2])[number]
    content = path.read_bytes()
    if damage == "remove":
        path.unlink()
    elif damage == "another task's":
        shutil.copy(files_of(filled, tasks[3])[number], path)
    else:
        middle = len(content) // 2
        changed = {
            "truncate": content[:middle],
            "empty": b"",
            "flip": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "append": content + b"\0",
            "zeros": bytes(len(content)),
        }
        path.write_bytes(changed[damage])
    assert [name for name, _ in filled.problems()] == [tasks[2].id]
    with pytest.raises(BrokenTask, match=path.name):
        filled.load(tasks[2].id)


def test_every_single_bit_counts(filled, tasks):
    for path in files_of(filled, tasks[0]):
        content = path.read_bytes()
        for k in np.random.default_rng(0).integers(len(content), size=60):
            path.write_bytes(content[:k] + bytes([content[k] ^ (1 << (k % 8))]) + content[k + 1 :])
            assert filled.check(tasks[0].id) is not None, (path, k)
        path.write_bytes(content)
    assert filled.check(tasks[0].id) is None


def test_foreign_things_are_found_and_disturb_nobody(filled, tasks):
    """State point and result decide: whatever else lies beside them, the task is whole."""
    (filled.workspace / "notes.txt").write_text("mine")
    (filled.workspace / ("0" * 32)).mkdir()
    (filled.workspace / ".nfs0000001").write_text("")
    (filled.workspace / tasks[0].id / "extra.txt").write_text("mine")
    (filled.workspace / tasks[0].id / ".nfs0000002").write_text("")
    signac.get_project(filled.path).open_job(id=tasks[1].id).doc.note = "x"
    (filled.staging / "foo").write_text("mine")
    (filled.staging / ("1" * 32)).mkdir()
    (filled.staging / ("1" * 32) / "foo").write_text("mine")
    (filled.claims / ("2" * 32)).mkdir()
    (filled.failures / f"{tasks[2].id}.json").mkdir()
    filled.recover_all()
    assert filled.load(tasks[1].id).values.keys() == VALUES.keys()
    problems = dict(filled.problems())
    assert problems.keys() == {"notes.txt", "0" * 32, "staging/foo", f"staging/{'1' * 32}", f"claims/{'2' * 32}"}
    assert "foreign" in problems["notes.txt"]
    assert "missing" in problems["0" * 32]
    with pytest.raises(InputError, match="is a folder"), claim(filled.claims / ("2" * 32)):
        pass
    for place in problems:
        filled.set_aside(place)
    assert list(filled.problems()) == []
    assert filled.names() == {task.id for task in tasks}
    filled.commit("group", [(tasks[2], OUTCOME)], {}, durable=False)


def put(store, state_point, result=None):
    """Put a task into a store whose state point says anything, with the right hash; return its id."""
    content = json.dumps(state_point).encode() if not isinstance(state_point, bytes) else state_point
    task = hashlib.md5(content).hexdigest()
    (store.workspace / task).mkdir()
    (store.workspace / task / "signac_statepoint.json").write_bytes(content)
    (store.workspace / task / "result.npz").write_bytes(result or pack(task, OUTCOME, {}))
    return task


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"a": 1}, "schema"),
        ([1], "no object"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff", "no JSON"),
        ({"schema": 1, "model": 3, "data_seed": 0, "estimator": {"name": "adam"}}, "model = 3"),
        ({"schema": 1, "model": {}, "data_seed": "a", "estimator": {"name": "adam"}}, "data_seed = 'a'"),
        ({"schema": 1, "model": {}, "data_seed": 0, "estimator": {}}, "has no name"),
    ],
)
def test_state_points_of_something_else_are_named(filled, tasks, content, reason):
    task = put(filled, content)
    assert filled.check(task) is None, "it is what its name says"
    with pytest.raises(BrokenTask, match=reason):
        filled.load(task)


def test_results_of_something_else_are_named(filled, tasks):
    whole = filled.workspace / tasks[0].id / "result.npz"
    for content in (b"", b"text", *(npz(**arrays) for arrays in ({}, {"values": np.zeros(3)}))):
        packed = content + results._check_sum(tasks[0].id, content)
        whole.write_bytes(packed)
        with pytest.raises(BrokenTask, match="is not a result"):
            filled.load(tasks[0].id)


def npz(**arrays):
    """Return an .npz file whose last bytes are taken off, to make room for a check sum."""
    made = BytesIO()
    np.savez(made, **arrays)
    return made.getvalue()


def test_what_is_set_aside_is_kept(filled, tasks):
    (filled.workspace / tasks[0].id / "result.npz").write_bytes(b"")
    where = filled.set_aside(tasks[0].id)
    assert tasks[0].id not in filled.names()
    assert sorted(path.name for path in where.iterdir()) == ["result.npz", "signac_statepoint.json"]
    filled.commit("again", [(tasks[0], OUTCOME)], {}, durable=False)
    (filled.workspace / tasks[0].id / "result.npz").write_bytes(b"")
    assert filled.set_aside(tasks[0].id) != where


def test_moves_that_were_interrupted_are_completed(filled, store, tasks, tmp_path):
    shutil.copytree(filled.workspace, filled.staging / "half")
    shutil.rmtree(filled.workspace / tasks[0].id)
    shutil.rmtree(filled.workspace / tasks[1].id)
    before = (filled.workspace / tasks[2].id / "result.npz").stat().st_ino
    filled.recover_all()
    assert filled.names() == {task.id for task in tasks}
    assert list(filled.problems()) == []
    assert os.listdir(filled.staging) == []
    assert (filled.workspace / tasks[2].id / "result.npz").stat().st_ino == before, "what had finished stays"


def test_half_written_results_of_dead_processes_are_removed(store):
    import socket

    dead = store.staging / f".{socket.gethostname()}-{2**22 + 1}-abc"
    alive = store.staging / f".{socket.gethostname()}-{os.getpid()}-abc"
    elsewhere = store.staging / ".another-machine-7-abc"
    for folder in (dead, alive, elsewhere):
        folder.mkdir()
    store.recover_all()
    assert not dead.exists()
    assert alive.exists()
    assert elsewhere.exists()


def test_many_writers_at_once(store, tasks):
    errors = []

    def write(k):
        try:
            for _ in range(20):
                store.commit("group", [(task, OUTCOME) for task in tasks], {"who": k}, durable=False)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.names() == {task.id for task in tasks}
    assert list(store.problems()) == []
    assert os.listdir(store.staging) == []


def test_a_full_disk_leaves_nothing_half_written(store, tasks, monkeypatch):
    import phasekit.runs.store.store as module

    written = []

    def full(path, *arguments, **settings):
        written.append(path)
        if len(written) > 5:
            raise OSError(28, "No space left on device")
        return open(path, *arguments, **settings)

    monkeypatch.setattr(module, "open", full, raising=False)
    with pytest.raises(OSError, match="No space"):
        store.commit("group", [(task, OUTCOME) for task in tasks], {}, durable=False)
    assert store.names() == set()
    assert os.listdir(store.staging) == []


def test_a_folder_with_other_things_is_not_taken_for_a_store(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="other things"):
        Store.create(tmp_path)
    with pytest.raises(InputError, match="no run store"):
        Store.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_creating_a_store_twice_is_opening_it(filled, tasks):
    assert Store.create(filled.path).names() == {task.id for task in tasks}
    assert Store.open(Path(filled.path)).exists()


def test_failures_are_forgotten_when_the_task_finishes(store, tasks):
    store.write_failure(tasks[0], {"type": "ValueError", "message": "no", "traceback": "…"})
    assert store.failed() == {tasks[0].id}
    assert store.failure(tasks[0].id)["parameters"] == tasks[0].parameters
    store.commit("group", [(tasks[0], OUTCOME)], {}, durable=False)
    assert store.failed() == set()
    assert store.failure(tasks[0].id) is None
