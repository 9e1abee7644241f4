"""From a store to a table: made-up networks with a known law, and a few real ones."""

import json

import numpy as np
import pytest

from phasekit import cli
from phasekit.errors import InputError
from phasekit.measure import measure_store
from phasekit.measure.observables import QUANTITIES, advantage, copying, curves_of, pooling
from phasekit.model import Model
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.theory.transitions import find_transitions
from tests.measure.networks import EXPONENT
from tests.runs.conftest import ROOT

SIMS = sorted((ROOT / "sims").glob("*.toml"))
#: Sweeps from which thresholds are located; pictures and tables show the networks of all others.
MEASURED = {
    "linear_transition", "softmax_transition", "softmax_scaling", "linear_scaling_V", "linear_scaling_L",
    "token_position", "score_jumps", "score_narrow_jump", "score_jump_scaling", "induction",
}  # fmt: skip


@pytest.mark.slow
def test_the_law_of_made_up_networks_is_found(run, made_up):
    (found,) = measure_store(run(made_up()), resamples=100, collapse_resamples=10)
    assert (found.quantity, found.along, found.data_sets, found.missing, found.broken) == ("P_star", "L", 8, 0, {})
    for size in found.sizes:
        assert abs(size.measured.value - 2 * size.size**EXPONENT) < 4 * size.measured.total_error
    assert abs(found.exponent.exponent - EXPONENT) < 4 * found.exponent.error < 0.01
    assert abs(found.collapse.a - EXPONENT) < 0.01
    assert found.predicted.exponent == pytest.approx(1.317, abs=0.01)  # the theory's own, which these don't follow


@pytest.mark.slow
def test_only_networks_in_different_minima_have_an_energy_difference(run, made_up):
    store = run(made_up(lengths=(16, 32, 64), at=(-0.2, -0.02, 0.02, 0.2)))
    (found,) = measure_store(store, resamples=50, collapse_resamples=0)
    curves = curves_of([store.load(name) for name in store.names()], QUANTITIES["P_star"])
    for curve, size in zip(curves, found.sizes, strict=True):
        seen = np.isfinite(curve.y).all(0)
        assert curve.P[seen].tolist() == [round(size.size**EXPONENT * 2 * (1 + x)) for x in (-0.02, 0.02)]
        assert not np.isfinite(curve.y[:, ~seen]).any()


def test_observables_by_hand():
    model = Model(V=8, L=16, P=128, sigma_w=2.0, kappa=4.0)
    networks = {
        "start": np.array(["uniform", "copy", "copy"]), "U": np.array([10.0, 9, 8]), "aG": np.array([0.1, 0.2, 0.3]),
        "converged": np.array([True, True, False]), "failed": np.array([False, False, False]),
        "s": np.array([0.5, 0.25, 9.0]), "g": np.array([0.0, 0.5, 9.0]), "q": np.array([1.0, 0.75, 9.0]),
    }  # fmt: skip
    assert pooling(model, networks) == pytest.approx(128 * 4 / (4 * 8) * 0.25**2)  # of the lowest converged network
    assert copying(model, networks) == pytest.approx(np.log((1 / 3) / (2 / 3)))
    assert advantage(model, networks) == -1.0
    assert np.isnan(copying(model, {**networks, "q": np.full(3, 1e-12), "g": np.full(3, 5e-7)}))


def test_the_onset_of_a_few_real_networks(run):
    description = {
        "seeds": 5, "measure": ["P1"], "model": {"V": 4, "L": 16, "score": "linear"}, "group": 100,
        "axes": {"P": "0.85, 1.1, 1.2, 1.3, 1.4 × P1"},
        "procedure": {"name": "adam", "steps": 400, "starts": ["uniform"]},
    }  # fmt: skip
    (found,) = measure_store(run(description), resamples=100)
    (size,) = found.sizes
    assert found.exponent is None
    assert size.measured.value == pytest.approx(size.theory, rel=0.03)
    assert abs(size.measured.value - size.own_data.value) < 4 * np.hypot(size.measured.error, size.own_data.error)


@pytest.mark.slow
def test_the_command(run, made_up, capsys):
    store = run(made_up())
    assert cli.run(["measure", str(store.path), "--resamples", "100", "--no-collapse", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (one,) = document["measurements"]
    assert abs(one["exponent"]["exponent"] - EXPONENT) < 0.02
    assert [size["size"] for size in one["sizes"]] == [16, 32, 64, 128]
    assert cli.run(["measure", str(store.path), "--resamples", "100"]) == 0
    printed = capsys.readouterr().out
    assert "P_star ~ L^a:  measured a = 1.2" in printed
    assert "theory at these sizes a = 1.3" in printed
    assert "S =" in printed


@pytest.mark.slow
def test_what_cannot_be_located_is_said_with_exit_status_1(run, made_up, capsys):
    store = run(made_up(at=(0.2, 0.3)))
    assert cli.run(["measure", str(store.path), "--json"]) == 1
    sizes = json.loads(capsys.readouterr().out)["measurements"][0]["sizes"]
    assert {size["reason"] for size in sizes} == {"fewer than 2 values of P show it"}
    assert all(size["measured"] is None for size in sizes)


@pytest.mark.slow
def test_broken_results_and_missing_tasks_are_reported(run, made_up, capsys):
    import shutil

    store = run(made_up())
    first, second = sorted(store.names())[:2]
    (store.workspace / first / "result.npz").write_bytes(b"")
    shutil.rmtree(store.workspace / second)
    (found,) = measure_store(store, resamples=100, collapse_resamples=0)
    assert found.missing == 1
    assert found.broken.keys() == {first}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["store", "missing"]),
        (["nowhere"], ["no run store"]),
        (["STORE", "--sweep", "x"], ["sweep = 'x'", "made_up:None"]),
        (["STORE", "--resamples", "5"], ["resamples = 5", "at least 100"]),
    ],
)
def test_mistakes_are_named_in_one_line(run, made_up, capsys, arguments, words):
    store = run(made_up(lengths=(16,), along=None, seeds=1))
    capsys.readouterr()
    assert cli.run(["measure", *(str(store.path) if word == "STORE" else word for word in arguments)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


def test_a_sweep_that_measures_nothing_and_a_procedure_that_shows_nothing(run, made_up):
    description = {**made_up(lengths=(16,), along=None, seeds=1)}
    del description["measure"], description["along"]
    with pytest.raises(InputError, match="doesn't say what to measure"):
        measure_store(run(description))
    with pytest.raises(InputError, match="needs networks' s"):
        measure_store(run(made_up(lengths=(16,), along=None, seeds=1, measure="P1"), name="other"), "other")


def thresholds_of(sweep):
    return getattr(sweep.axes.get("P"), "thresholds", ())


@pytest.mark.slow
@pytest.mark.parametrize("path", SIMS, ids=[path.stem for path in SIMS])
@pytest.mark.parametrize("preset", ["quick", "full"])
def test_shipped_sweeps_are_in_order(path, preset):
    sweep = load_sweep(path, preset)
    if any("posterior" in times for part in sweep.parts for times in thresholds_of(part)):
        return  # minutes of theory: tests/figures draws from it at the tiny preset
    tasks = expand(sweep)
    assert len(tasks) > 2
    assert bool(sweep.measure) == (path.stem in MEASURED)
    assert all(task.model.P < 1e6 for task in tasks if hasattr(task.model, "P"))


def test_all_measured_sweeps_are_shipped():
    assert {path.stem for path in SIMS} > MEASURED


def test_the_theory_beside_is_the_threshold_that_the_sweep_was_made_from(run, made_up, monkeypatch):
    """P as multiples of P*: what the tasks' records say is shown, and nothing is computed anew."""
    description = made_up(seeds=3, lengths=(64,), along=None)
    description["axes"]["P"] = "0.9, 1.1 × P_star"
    store = run(description)
    star = find_transitions(Model(V=8, L=64)).values["P_star"]
    monkeypatch.setattr("phasekit.measure.predict.find_transitions", lambda *_: pytest.fail("computed anew"))
    (found,) = measure_store(store, resamples=100, collapse_resamples=0)
    assert found.sizes[0].theory == pytest.approx(star, rel=1e-12)
