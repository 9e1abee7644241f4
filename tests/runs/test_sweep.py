"""Sweep descriptions: what they mean, and what is said about mistakes."""

import subprocess
import sys

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.sweeps.axes import parse_values
from phasekit.runs.sweeps.description import SweepErrors, load_sweep, read_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.theory.transitions import find_transitions
from tests.runs.conftest import ROOT

GOOD = """
about = "test"
seeds = 3
measure = "P_star"
along = "L"
[model]
V = 8
[axes]
L = [24, 32]
P = "0.8..1.25 in 5 × P_star"
[procedure]
name = "theory"
[preset.quick]
seeds = [4, 7]
axes.L = [24]
"""


def read(text, tmp_path, preset=None):
    path = tmp_path / "x.toml"
    path.write_text(text)
    return load_sweep(path, preset)


@pytest.mark.parametrize(
    ("text", "values", "times"),
    [
        ([1, 2.5], [1, 2.5], None),
        (7, [7], None),
        ("16..256", np.geomspace(16, 256, 9), None),
        ("16..256 in 5", [16, 32, 64, 128, 256], None),
        ("0 .. 1 in 3 even", [0, 0.5, 1], None),
        ("0.5..2 × P_star", np.geomspace(0.5, 2, 9), "P_star"),
        ("1, 2 × P_star or P_x", [1, 2], "P_star or P_x"),
        ("0.5..2 in 3*P1", [0.5, 1, 2], "P1"),
        ("0.8, 1, 1.25 x P2", [0.8, 1, 1.25], "P2"),
        ("P_star", [1], "P_star"),
        ("P_star or P_x", [1], "P_star or P_x"),
        ("0.5..2 x P_star in 3", [0.5, 1, 2], "P_star"),
        ("0..2 × P_star or P_x in 3 even", [0, 1, 2], "P_star or P_x"),
        ("7..7 in 1", [7], None),
    ],
)
def test_axes(text, values, times):
    parsed = parse_values("P", text)
    ((found, unit),) = parsed.parts
    assert unit == times
    np.testing.assert_allclose(found, values, rtol=1e-14)
    thresholds = {"P1": 10, "P2": 100, "P_star": 1000, "P_star or P_x": 2000}
    np.testing.assert_allclose(parsed.resolve(thresholds.get), np.multiply(found, thresholds.get(times, 1)))


def test_files_that_call_a_procedure_an_estimator_are_still_read(tmp_path):
    new = GOOD.replace('name = "theory"', 'name = "adam"') + "procedure.steps = 7\n"
    found = read(new.replace("procedure", "estimator"), tmp_path, "quick")
    assert found == read(new, tmp_path, "quick")
    assert found.procedure.steps == 7
    with pytest.raises(SweepErrors, match="old name of procedure"):
        read(new + '[estimator]\nname = "adam"\n', tmp_path)


def test_what_is_allowed_as_an_axis_is_allowed_in_the_model_as_one_value(tmp_path):
    text = '[model]\nV = 8\nL = "16"\nP = "0.5 × P_star or P_x"\nscore = "softmax"\n[procedure]\nname = "theory"\n'
    (task, *others) = expand(read(text + "", tmp_path))
    assert len(others) == 3  # data seeds
    assert task.model.L == 16
    assert pytest.approx(0.5 * 129.189, abs=1) == task.model.P
    with pytest.raises(SweepErrors, match=r"model\.L = '16\.\.32': must be one value; several belong under \[axes\]"):
        read(text.replace('"16"', '"16..32"'), tmp_path)
    with pytest.raises(SweepErrors, match=r"model\.L = 'P1': only P"):
        read(text.replace('"16"', '"P1"'), tmp_path)


def test_an_axis_of_several_ranges():
    parsed = parse_values("P", ["1, 2 × P1", "1, 2 × P2", "7, 9"])
    assert parsed.resolve({"P1": 10.0, "P2": 100.0}.get) == [10, 20, 100, 200, 7, 9]
    assert parsed.thresholds == {"P1", "P2"}
    with pytest.raises(InputError, match="must not repeat"):
        parse_values("P", ["1, 2 × P1", "2 × P1"])


@pytest.mark.parametrize(
    "text", ["", [], "a", [1, 1], "2..1", "1..1", "0..1", "1..2 in 1", "1..2 in x", "1..2 × P3", "1 × P1 × P2", [True],
             "nan", "1..inf", None, {"a": 1}, "1..2..3", "1..1e9 in 999999999"])  # fmt: skip
def test_bad_axes_are_refused_in_one_line(text):
    with pytest.raises(InputError) as refused:
        parse_values("axes.P", text)
    assert str(refused.value).startswith("axes.P")
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_multiples_are_of_each_models_own_threshold(tmp_path):
    tasks = expand(read(GOOD, tmp_path))
    assert len(tasks) == 2 * 5 * 3
    for L in (24, 32):
        star = find_transitions(Model(V=8, L=L)).values["P_star"]
        P = sorted({task.model.P for task in tasks if task.model.L == L})
        np.testing.assert_array_equal(P, np.round(np.geomspace(0.8, 1.25, 5) * star))
    assert len({task.id for task in tasks}) == len(tasks)


@pytest.mark.slow
def test_multiples_of_the_jump_or_else_of_the_steepest_point(tmp_path):
    """1.5-entmax jumps, sparsemax doesn't: one axis serves both."""
    models = [Model(V=8, L=64, score=score) for score in ({"name": "entmax", "alpha": 1.5}, "sparsemax")]
    text = GOOD.replace("× P_star", "× P_star or P_x").replace(
        "L = [24, 32]", 'L = [64]\nscore = [{name = "entmax"}, "sparsemax"]'
    )
    P = [sorted({task.model.P for task in expand(read(text, tmp_path)) if task.model.at(P=None) == m}) for m in models]
    for model, name, found in zip(models, ("P_star", "P_x"), P, strict=True):
        at = find_transitions(model).values[name]
        np.testing.assert_array_equal(found, np.round(np.geomspace(0.8, 1.25, 5) * at))
    with pytest.raises(SweepErrors, match='V = 8, L = 64 has none; it has P_x: write "P_star or P_x"'):
        expand(read(text.replace(" or P_x", ""), tmp_path))


def test_a_preset_changes_what_it_names(tmp_path):
    quick = read(GOOD, tmp_path, "quick")
    assert (quick.seeds, quick.axes["L"].first) == ((4, 7), 24.0)
    assert quick.axes["P"] == read(GOOD, tmp_path).axes["P"]


def test_points_that_coincide_after_rounding_are_taken_once(tmp_path):
    sweep = read(GOOD.replace("0.8..1.25 in 5", "0.9999..1.0001 in 50"), tmp_path)
    assert len(expand(sweep)) == 2 * 3


def test_scores_and_inputs_may_be_axes(tmp_path):
    axes = 'score = ["softmax", "linear", {name = "ssa", n = 3.0}]\ninputs = ["positional"]\nL = [8]\nP = [40]'
    text = f'[model]\nV = 8\n[axes]\n{axes}\n[procedure]\nname = "adam"\nsteps = 2\n'
    scores = {task.model.score.describe()["name"] for task in expand(read(text, tmp_path))}
    assert scores == {"softmax", "linear", "ssa"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seeds = 3", "seeds = 0", ["seeds = 0", "at least 1"]),
        ("seeds = 3", "seeds = 99999999999999", ["seeds = 99999999999999", "at most 1000000"]),
        ("seeds = 3", "seeds = 500000", ["tasks = 5000000", "at most 1000000"]),
        ('name = "theory"', 'name = "theory"\nversion = 9', ["x.toml: procedure.version = 9"]),
        ("seeds = 3", "seeds = 'a'", ["seeds = 'a'", "number of seeds"]),
        ("seeds = 3", "seeds = [1, 1]", ["seeds = [1, 1]"]),
        ("seeds = 3", "seed = 3", ["seed = 3", "unknown", "seeds"]),
        ("V = 8", "V = 1", ["model.V = 1", "at least 2"]),
        ("V = 8", "W = 8", ["model.W = 8", "unknown"]),
        ("V = 8", "V = 8\nL = 3", ["model.L = 3", "axes.L"]),
        ("V = 8", "V = 8\nscore = 'softmx'", ["softmx", "softmax"]),
        ("L = [24, 32]", "L = [24, 'x']", ["axes.L = 'x'", "not a number"]),
        ("L = [24, 32]", "K = [24, 32]", ["axes.K", "must be one of V, L, P"]),
        ("L = [24, 32]", "L = '1..2 × P1'", ["axes.L", "only P"]),
        ("L = [24, 32]", "V = 8", ["model.V"]),
        ("× P_star", "× P3", ["axes.P", "P1, P2, P_star"]),
        ('name = "theory"', 'name = "adm"', ["procedure = 'adm'", "adam"]),
        ('name = "theory"', 'name = "adam"\nsteps = 0', ["procedure.steps = 0", "at least 1"]),
        ('name = "theory"', 'name = "adam"\nstep = 3', ["procedure.step = 3", "unknown", "steps"]),
        ('name = "theory"', 'name = "adam"\nstarts = []', ["procedure.starts", "at least one"]),
        ('measure = "P_star"', "", ["along = 'L'", "which is missing"]),
        ('measure = "P_star"', 'measure = ["P1", "P9"]', ["measure", "P1, P2, P_star"]),
        ('along = "L"', 'along = "V"', ["along = 'V'", "must be an axis"]),
        ('measure = "P_star"', 'measure = "P9"', ["measure = 'P9'"]),
        ("[preset.quick]", "[preset.fast]", ["preset = 'fast'", "quick, medium, full"]),
        ("about =", "about", ["not TOML", "line 2"]),
    ],
)
def test_a_mistake_is_named_in_one_line(tmp_path, old, new, words):
    assert old in GOOD
    with pytest.raises(SweepErrors) as refused:
        expand(read(GOOD.replace(old, new), tmp_path))
    lines = [line for line in refused.value.mistakes if all(word in line for word in words)]
    assert lines, refused.value.mistakes
    assert all(line.startswith(str(tmp_path / "x.toml")) and "\n" not in line for line in refused.value.mistakes)


def test_all_mistakes_are_named_at_once(tmp_path):
    text = GOOD.replace("seeds = 3", "seeds = 0").replace('P_star"\n[proc', 'P3"\n[proc').replace("theory", "thery")
    with pytest.raises(SweepErrors) as refused:
        read(text, tmp_path)
    assert len(refused.value.mistakes) == 3


def test_thresholds_that_do_not_exist_are_named_with_their_place(tmp_path):
    with pytest.raises(SweepErrors, match=r"has none") as refused:
        expand(read(GOOD.replace("L = [24, 32]", "L = [4, 32]"), tmp_path))
    assert "L = 4" in refused.value.mistakes[0]


def test_models_that_the_procedure_cannot_do_are_refused_before_work_begins(written):
    with pytest.raises(SweepErrors, match="probes don't like it"):
        expand(read_sweep({**written(), "model": {"V": 99}}, name="x", source="x.toml"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="can't be read"):
        load_sweep(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "name", [".:X", ":Foo", "a:", "json:dumps", "phasekit.runs.procedures.base:Procedure", "no.such:X", "5", "adam:x"]
)
def test_procedures_that_are_none_are_one_line(written, name):
    with pytest.raises(SweepErrors) as refused:
        read_sweep({**written(), "procedure": {"name": name}}, name="x", source="x.toml")
    (line,) = refused.value.mistakes
    assert line.startswith(f"x.toml: procedure = {name!r}: ")
    assert "\n" not in line


@pytest.mark.parametrize(
    "preset",
    [{"model": 3}, {"axes": []}, {"procedure": "a"}, {"estimator": 1}, {"model": None}, {"seeds": {}}, {"preset": 1}],
)
def test_presets_that_change_tables_to_something_else_are_one_line(written, preset):
    with pytest.raises(SweepErrors) as refused:
        read_sweep({**written(), "preset": {"quick": preset}}, name="x", source="x.toml", preset="quick")
    assert all(line.startswith("x.toml: ") and "\n" not in line for line in refused.value.mistakes)


@pytest.mark.slow
def test_only_a_sweep_imports_modules_by_name():
    """Names in a store may come from anybody: what they name is found if it was imported already, and not otherwise."""
    code = """
import sys
from phasekit.errors import InputError
from phasekit.runs.procedures import get_procedure, import_procedure
from phasekit.runs.sweeps.description import read_sweep
for build in (get_procedure, import_procedure):
    try:
        print(type(build({"name": "tests.runs.probes:Probe"})).__name__)
    except InputError as error:
        print(error)
model = {"V": 4, "L": 8, "P": 9, "score": "tests.runs.own_score:Mine"}
read_sweep({"seeds": 1, "model": model, "procedure": {"name": "theory"}}, name="x", source="x.toml")
print("tests.runs.own_score" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    refused, found, imported = done.stdout.splitlines()
    assert "its module isn't loaded" in refused
    assert (found, imported) == ("Probe", "True")


@pytest.mark.slow
def test_workers_have_the_users_own_classes(run, written):
    description = {**written(seeds=1), "model": {"V": 8, "score": "tests.runs.own_score:Mine"}}
    summary, store, _ = run(description)
    assert (summary.done, summary.status) == (4, 0)
    assert store.load(min(store.names())).parameters["model"]["score"] == {"name": "tests.runs.own_score:Mine"}


@pytest.mark.slow
def test_multiples_of_the_posterior_s_thresholds(tmp_path):
    text = GOOD.replace("0.8..1.25 in 5 × P_star", "1 × posterior P1, 1 × P1").replace(
        "V = 8", 'V = 8\nscore = "linear"'
    )
    with pytest.raises(SweepErrors, match="multiples of"):
        read(text, tmp_path)
    text = text.replace('"1 × posterior P1, 1 × P1"', '["1 × posterior P1", "1 × P1"]').replace("[24, 32]", "[16]")
    text = text.replace('measure = "P_star"\nalong = "L"', "")
    assert sorted({task.model.P for task in expand(read(text, tmp_path))}) == [125.0, 230.0]


PARTS = """
seeds = 2
[model]
V = 8
L = 16
[procedure]
name = "theory"
[preset.quick]
seeds = 1
[[part]]
model.score = "linear"
axes.P = "1, 2 × P1"
[part.preset.quick]
axes.P = "1 × P1"
[[part]]
model.score = "softmax"
axes.P = [100, 200]
seeds = 3
[[part]]
model.score = "softmax"
axes.P = [200, 300]
"""


def test_parts_add_their_tasks_and_may_have_presets_of_their_own(tmp_path):
    def found(preset):
        return [(t.model.score.name, t.model.P, t.data_seed) for t in expand(read(PARTS, tmp_path, preset))]

    softmax = [("softmax", P, seed) for P in (100.0, 200.0) for seed in range(3)]
    assert found("quick") == [("linear", 125.0, 0), *softmax, ("softmax", 300.0, 0)]
    assert found(None)[:4] == [("linear", P, seed) for P in (125.0, 250.0) for seed in (0, 1)]
    assert len(found(None)) == len(set(found(None))) == 4 + 6 + 2


def test_mistakes_of_all_parts_are_told(tmp_path):
    with pytest.raises(SweepErrors) as refused:
        read(PARTS.replace('"1, 2 × P1"', '"?"').replace("axes.P = [200, 300]", "step = 3"), tmp_path)
    first, second = refused.value.mistakes
    assert "part 1: axes.P" in first
    assert "part 3: step" in second
