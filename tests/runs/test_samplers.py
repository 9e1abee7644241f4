"""Samplers in sweeps: the same chains as without a sweep, stopped and resumed to the last bit."""

import numpy as np
import pytest

from phasekit.model import Model
from phasekit.runs.procedures import Stopped, Workplace, get_procedure
from phasekit.runs.store.collect import collect
from phasekit.samplers import diagnose, sample
from phasekit.tasks.copy import draw_dataset

CASES = [(Model(V=4, L=6, P=float(P), score="linear"), seed) for P, seed in ((20, 0), (30, 1))]
SETTINGS = {
    "sgld": {"name": "sgld", "step": 0.01, "draws": 150, "thin": 2, "warmup": 120, "batch": 8},
    "langevin": {"name": "langevin", "step": 0.2, "draws": 200, "warmup": 150},
    "hmc": {"name": "hmc", "step": 0.2, "leaps": 4, "draws": 180, "warmup": 160},
}


def same(one, other):
    """Whether outcomes are equal to the last bit."""
    return all(
        a.values.keys() == b.values.keys() and all(np.array_equal(a.values[k], b.values[k]) for k in a.values)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_stopped_and_resumed_chains_are_the_same_to_the_last_bit(name, tmp_path):
    procedure = get_procedure(SETTINGS[name])
    whole = procedure.run(CASES, Workplace())
    place = Workplace(checkpoint=tmp_path / "state.npz", stop_file=tmp_path / "stop")
    place.stop_file.touch()
    with pytest.raises(Stopped):
        procedure.run(CASES, place)
    stopped_at = int(np.load(place.checkpoint)["step"])
    assert 0 < stopped_at < procedure.length
    with pytest.raises(Stopped):  # from there, and further
        procedure.run(CASES, place)
    assert int(np.load(place.checkpoint)["step"]) > stopped_at
    place.stop_file.unlink()
    assert same(procedure.run(CASES, place), whole)


def test_umbrella_windows_stop_and_go_on_too(tmp_path):
    procedure = get_procedure({"name": "umbrella", "windows": 2, "step": 0.1, "leaps": 2, "draws": 150, "warmup": 60})
    case = CASES[0][0].at(score="softmax"), 0
    whole = procedure.run([case], Workplace())
    place = Workplace(checkpoint=tmp_path / "state.npz", stop_file=tmp_path / "stop")
    place.stop_file.touch()
    with pytest.raises(Stopped):
        procedure.run([case], place)
    assert int(np.load(place.checkpoint)["step"]) == 100
    place.stop_file.unlink()
    assert same(procedure.run([case], place), whole)


def test_checkpoints_are_saved_by_the_clock_and_damaged_ones_are_not_used(tmp_path):
    procedure = get_procedure(SETTINGS["langevin"])
    place = Workplace(checkpoint=tmp_path / "state.npz", save_every=0.0)
    place.checkpoint.write_bytes(b"damaged")
    assert same(procedure.run(CASES, place), procedure.run(CASES, Workplace()))


FOREIGN = {
    "other arrays": lambda path: np.savez(path, a=np.arange(3)),
    "tensors of other shapes": lambda path: np.savez(path, W=np.zeros(3), G=np.zeros((2, 2)), step=np.array(5)),
    "another run": lambda path: np.savez(path, header=np.array('{"format": "phasekit checkpoint 2", "run": {"V": 5}}')),
    "no object": lambda path: np.savez(path, header=np.array("[1]")),
}


@pytest.mark.parametrize("contents", FOREIGN)
@pytest.mark.parametrize("name", ["adam", "langevin"])
def test_a_readable_checkpoint_of_something_else_is_not_used(tmp_path, name, contents):
    procedure = get_procedure({"name": "adam", "steps": 40} if name == "adam" else SETTINGS[name])
    place = Workplace(checkpoint=tmp_path / "state.npz")
    FOREIGN[contents](place.checkpoint)
    assert same(procedure.run(CASES, place), procedure.run(CASES, Workplace()))


@pytest.mark.parametrize("name", SETTINGS)
def test_rows_are_the_chains_of_the_sampler(name):
    procedure = get_procedure(SETTINGS[name])
    settings = {
        key: getattr(procedure, key) for key in ("draws", "thin", "warmup", "starts", "members", "seed", "dtype")
    }
    samples = sample([draw_dataset(*case) for case in CASES], procedure.method(), **settings)
    means, diagnosis = samples.invariants().mean("draw"), diagnose(samples)
    for d, outcome in enumerate(procedure.run(CASES, Workplace())):
        values = outcome.values
        assert values["start"].tolist() == ["uniform"] * 2 + ["copy"] * 2
        for quantity in ("cG_cG", "U", "loss"):
            np.testing.assert_allclose(values[quantity], means[quantity].isel(dataset=d), rtol=1e-12)
            row = diagnosis.table.sel(quantity=quantity).isel(dataset=d)
            assert set(values[f"{quantity}_rhat"]) == {float(row.rhat)}
            assert set(values[f"{quantity}_ess"]) == {min(float(row.ess_bulk), float(row.ess_tail))}
            assert (values[f"{quantity}_mcse"] > 0).all()
        assert set(values["verdict"]) == {diagnosis.verdict(d)}


def test_errors_of_independent_draws_are_those_of_a_mean():
    """HMC over a prior (next to no data): draws of U are nearly independent, of variance (numbers of weights)/2."""
    procedure = get_procedure({"name": "hmc", "draws": 400, "warmup": 200, "leaps": 8, "step": 0.4})
    (outcome,) = procedure.run([(Model(V=3, L=3, P=1.0, kappa=1e6), 0)], Workplace())
    ratio = outcome.values["U_mcse"] / np.sqrt(9 / 400)
    assert (ratio > 0.5).all()
    assert (ratio < 2.5).all()
    assert abs(outcome.values["U"].mean() - 9) < 5 * outcome.values["U_mcse"].mean() / 2


def test_chains_that_settle_in_two_wells_are_labelled():
    """Near P* and at a low temperature, chains stay at the end that they started from."""
    model = Model(V=8, L=24, P=228.0, score="softmax")
    procedure = get_procedure(
        {"name": "langevin", "step": 0.05, "temperature": 0.003, "draws": 200, "warmup": 800, "thin": 2}
    )
    (outcome,) = procedure.run([(model, 0)], Workplace())
    assert set(outcome.values["verdict"]) == {"coexistence"}
    assert outcome.values["well"].tolist() == [0, 0, 1, 1]
    assert (outcome.values["aG"][2:] > outcome.values["aG"][:2] + 0.1).all()


@pytest.mark.slow
def test_a_sweep_of_chains_collects_one_row_a_chain(run):
    description = {
        "seeds": 2, "group": 2, "model": {"V": 4, "score": "softmax"}, "axes": {"L": [5], "P": [20, 30]},
        "procedure": {"name": "hmc", "draws": 40, "warmup": 30, "leaps": 4},
    }  # fmt: skip
    summary, store, _ = run(description)
    assert (summary.done, summary.status) == (4, 0)
    table = collect(store).table
    assert len(table) == 4 * 4
    assert {"aG", "aG_mcse", "aG_rhat", "aG_ess", "verdict", "well", "acceptance"} <= set(table.columns)


def test_what_chains_cannot_do_is_refused_before_work_begins():
    from phasekit.errors import InputError

    with pytest.raises(InputError, match="members = 1: diagnostics need"):
        get_procedure({"name": "sgld", "members": 1, "starts": ["copy"]}).check(CASES[0][0])
    with pytest.raises(InputError, match="draws = 3"):
        get_procedure({"name": "hmc", "draws": 3})


@pytest.mark.slow
def test_a_diverging_chain_fails_its_task_with_its_name(run):
    description = {
        "seeds": 1, "group": 1, "model": {"V": 4, "score": "linear"}, "axes": {"L": [5], "P": [400]},
        "procedure": {"name": "sgld", "draws": 20, "warmup": 0, "step": 10.0},
    }  # fmt: skip
    summary, _, _ = run(description)
    ((kind, message),) = summary.failed.values()
    assert kind == "ChainDiverged"
    assert "start uniform" in message


def test_a_loop_that_is_stopped_goes_on_at_the_size_where_it_was(tmp_path, monkeypatch):
    settings = {"sizes": [0.5, 1, 2], "draws": 20, "thin": 2, "warmup": 110, "members": 2}
    procedure = get_procedure({"name": "hysteresis", **settings})
    whole = procedure.run(CASES[:1], Workplace())
    looks = []

    def stop_at_the_fourth_size(place):
        looks.append(None)
        return len(looks) == 4  # a look at each size: 150 updates

    with monkeypatch.context() as patch:
        patch.setattr(Workplace, "must_stop", stop_at_the_fourth_size)
        with pytest.raises(Stopped):
            procedure.run(CASES[:1], Workplace(checkpoint=tmp_path / "state.npz"))
    with np.load(tmp_path / "state.npz") as saved:
        assert {name.partition(" posterior")[0] for name in saved.files if name.endswith(" U")} == {
            "up 10", "up 20", "up 40"
        }  # fmt: skip
    assert same(procedure.run(CASES[:1], Workplace(checkpoint=tmp_path / "state.npz")), whole)
    place = Workplace(checkpoint=tmp_path / "state.npz")
    other = get_procedure({"name": "hysteresis", **settings, "seed": 1})
    assert not same(other.run(CASES[:1], place), whole)
    assert any("belongs to a run with other seed" in note for note in place.notes)
