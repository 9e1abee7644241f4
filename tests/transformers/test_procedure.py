"""The procedure `icl`: through the runner into a store, and out of it as one row a test."""

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.runs.archive.tables import from_tables, to_tables
from phasekit.runs.store.collect import collect
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import SweepErrors, load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from phasekit.tasks.in_context import Shift, build_task
from phasekit.transformers import Architecture, InContext, Training, train_in_context
from phasekit.transformers.evaluation import DEVIANTS, evaluate, grid
from phasekit.transformers.probes import MEASURES
from tests.runs.probes import Here

SWEEP = """
seeds = 2
[model]
task = {name = "every", points = 5}
architecture = {layers = 1, width = 8, longest = 512}
[axes]
score = ["softmax", {name = "ssa", n = 2.0}]
[procedure]
name = "icl"
steps = 12
batch = 4
prompts = 8
watch_every = 5
tests = "all"
interventions = [{temperature = 2.0}, {score = "ssa", layer = 0, retuned = true}]
retune_steps = 2
probe = true
"""


def test_a_sweep_gives_one_row_a_test(tmp_path):
    (tmp_path / "s.toml").write_text(SWEEP)
    sweep = load_sweep(tmp_path / "s.toml", "quick")
    store, tasks = Store.create(tmp_path / "store"), expand(sweep)
    assert run_sweep(sweep, tasks, store, Here(), Silent()).status == 0
    found = collect(store)
    table = found.table
    tests = grid(build_task("every", points=5), "all")
    few = len(grid(build_task("every", points=5), "few"))
    assert len(table) == 4 * (len(tests) + 2 * few)
    assert set(table["intervention"]) == {"", "temperature 2", "score ssa in layer 0, retuned"}
    assert set(table["score"]) == {"softmax", "ssa"}
    assert set(table["data_seed"]) == {0, 1}
    assert set(table["deviant"].dropna()) == set(DEVIANTS)
    assert np.isfinite(table["error"]).all()
    assert (table["optimal"] == 0).all()
    assert table.groupby(["score", "data_seed"])["trivial"].apply(tuple).nunique() == 1, "the same prompts for all"
    arrays = next(iter(found.arrays.values()))
    assert arrays["errors"].shape == (len(tests) + 2 * few, 8)
    assert arrays["saturation"].shape == (few, 1, 2, len(MEASURES))
    assert arrays["mass"].shape == (few, 8, 1, 2)
    assert arrays["beyond_bounds"].max() < 1e-9
    assert list(arrays["watched_at"]) == [0, 5, 10, 12]
    assert arrays["loss"].shape == (2,)
    trained, history = train_in_context(tasks[0].model, Training(steps=12, batch=4), seed=tasks[0].data_seed)
    kept = store.load(tasks[0].id).arrays
    assert all(np.array_equal(kept[f"weights {name}"], value) for name, value in trained.state_dict().items())
    np.testing.assert_allclose(kept["loss"], [history.loss[:10].mean(), history.loss[10:].mean()], rtol=1e-6)

    finished = {name: store.load(name) for name in store.names()}
    for name, again in from_tables(to_tables(finished, ["*"])).items():
        for array, values in finished[name].arrays.items():
            np.testing.assert_array_equal(again.arrays[array], np.asarray(values, dtype=again.arrays[array].dtype))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('name = "icl"\ntests = "many"', "tests = 'many': must be one of"),
        ('name = "icl"\nsteps = 0', "steps = 0: must be a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_one_line(tmp_path, line, words):
    (tmp_path / "s.toml").write_text(f'[model]\ntask = "every"\n[procedure]\n{line}\n')
    with pytest.raises(SweepErrors) as refused:
        expand(load_sweep(tmp_path / "s.toml", "quick"))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ('task = "many"', "task = 'many': unknown"),
        ('task = "every"\narchitecture = "huge"', "architecture = 'huge': must be one of"),
        ('task = "every"\narchitecture = {longest = 30}', "make 79 tokens, but there are 30 learned positions"),
    ],
)
def test_models_that_are_none_are_one_line(tmp_path, model, words):
    (tmp_path / "s.toml").write_text(f'[model]\n{model}\n[procedure]\nname = "icl"\n')
    with pytest.raises(SweepErrors) as refused:
        expand(load_sweep(tmp_path / "s.toml", "quick"))
    assert words in str(refused.value)


class Oracle(torch.nn.Module):
    """Knows every: the label so far and the sign. Its answers stand at the places of x."""

    def __init__(self):
        super().__init__()
        self.some = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, tokens):
        x = tokens[:, ::2, 0]
        answers = torch.zeros_like(tokens)
        answers[:, ::2, 0] = torch.where((x > 0).cummin(1).values, 1.0, -1.0)
        return answers


def test_a_network_that_knows_the_rule_makes_no_error_under_any_shift():
    task = build_task("every")
    for shift in grid(task, "all"):
        found = evaluate(Oracle(), task, shift, prompts=16).row()
        assert found["error"] == found["optimal"] == 0


def test_errors_at_and_behind_a_deviant_value_are_told_apart():
    task = build_task("every", skip=0)

    class Blind(Oracle):
        def forward(self, tokens):
            right = super().forward(tokens)
            return torch.where(tokens.abs() > 50, -right, right)

    found = evaluate(Blind(), task, Shift(deviant=100.0, place=4), prompts=16).row()
    assert found["error"] == 1
    assert found["error_at_deviant"] == 1
    assert found["error_behind_deviant"] == 0
    assert found["answer_error"] == pytest.approx(1 / 11)


def test_grids_hold_the_published_ranges():
    linear = grid(build_task("linear-functions", points=41), "scales")
    assert {shift.points for shift in linear} == {9, 41}
    assert {shift.x_scale for shift in linear} >= {1, 10}
    assert {shift.coefficient_scale for shift in linear} >= {1, 10}
    every = grid(build_task("every"), "all")
    assert {(10, 1), (200, 29)} <= {(shift.points, shift.x_scale) for shift in every}
    assert {(value, place) for value in DEVIANTS for place in range(11)} <= {(s.deviant, s.place) for s in every}
    assert len(grid(build_task("copy"), "deviants")) == 1
    with pytest.raises(InputError, match="tests = 'many': must be one of none, few, scales, deviants, all"):
        grid(build_task("copy"), "many")


def test_nan_answers_are_no_success():
    task = build_task("every")
    subject = InContext(task=task, architecture=Architecture(layers=1, width=8))
    model = subject.build()
    with torch.no_grad():
        model.read_out.weight.fill_(float("nan"))
    assert np.isnan(evaluate(model, task, prompts=4).row()["error"])
