"""Ids: the same task has the same id, however it was written down."""

import hashlib

import numpy as np
import pytest
from signac.job import calc_id

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures import get_procedure
from phasekit.runs.sweeps.canonical import canonical, identify
from phasekit.runs.sweeps.task import Task


@pytest.mark.parametrize("one", [1, 1.0, np.float64(1), np.float32(1), np.int32(1), np.uint8(1), np.array(1.0)])
def test_one_is_one(one):
    assert identify({"a": one, "b": [one, 2.5]}) == identify({"b": (1, np.float64(2.5)), "a": 1})


def test_what_differs_has_another_id():
    values = [1, 1.5, True, "1", None, [1], {"a": 1}, 1 + 1e-15, 2**53 + 1]
    assert len({identify({"x": value}) for value in values}) == len(values)


def test_large_whole_numbers_keep_their_digits():
    assert canonical(2**60 + 1) == 2**60 + 1
    assert canonical(1e20) == 1e20
    assert isinstance(canonical(1e20), float)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(InputError):
        canonical({"x": value})


def test_a_task_has_the_id_that_signac_gives_it():
    task = Task(Model(V=8, L=16, P=256), 3, get_procedure({"name": "adam", "steps": 10}))
    assert task.id == calc_id(task.parameters) == hashlib.md5(task.state_point).hexdigest()
    again = Task.from_parameters(task.parameters)
    assert again == task
    assert again.id == task.id


def test_every_setting_and_version_is_part_of_the_id():
    base = {"name": "adam", "steps": 10}
    model = Model(V=8, L=16, P=256)
    tasks = [
        Task(model, 0, get_procedure(base)),
        Task(model, 1, get_procedure(base)),
        Task(model.at(P=257), 0, get_procedure(base)),
        Task(model.at(sigma_w=2), 0, get_procedure(base)),
        Task(model, 0, get_procedure({**base, "starts": ["copy"]})),
        Task(model, 0, get_procedure({"name": "theory"})),
    ]
    assert len({task.id for task in tasks}) == len(tasks)
    assert {"schema", "model", "data_seed", "estimator"} == tasks[0].parameters.keys()
    assert tasks[0].parameters["estimator"]["version"] == tasks[0].procedure.version


def test_tasks_of_another_schema_or_version_are_refused():
    parameters = Task(Model(V=8, L=16, P=256), 0, get_procedure({"name": "theory"})).parameters
    with pytest.raises(InputError, match="schema"):
        Task.from_parameters({**parameters, "schema": 999})
    with pytest.raises(InputError, match="version"):
        Task.from_parameters({**parameters, "estimator": {"name": "theory", "version": 999}})


@pytest.mark.parametrize(
    ("procedure", "model", "seed", "id"),
    [
        ({"name": "adam", "steps": 10}, Model(V=8, L=16, P=256), 3, "ed72bb7f24938008cf8dc72d1a268888"),
        ({"name": "theory"}, Model(V=8, L=16, P=256), 0, "ae1041b6e1b0f57fad6e101271649d8e"),
        ({"name": "hmc"}, Model(V=4, L=8, P=30, score="softmax"), 1, "93768cd25902ea2af8bad225b039a8e3"),
        ({"name": "sgld", "step": 1e-4, "batch": 5}, Model(V=4, L=8, P=30, score={"name": "ssa", "n": 3.0}), 1,
         "dab326b9d4a33143c6af0df34e3ff86a"),
        ({"name": "langevin"}, Model(V=4, L=8, P=30, inputs="token+position"), 1, "90486488b239e78cf9bce389111003ee"),
    ],
)  # fmt: skip
def test_ids_are_those_that_stores_have_had_since_the_first(procedure, model, seed, id):
    assert Task(model, seed, get_procedure(procedure)).id == id
