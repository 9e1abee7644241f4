"""Trainings are done once, kept in files named by what was asked for, and used only if they still hold."""

import dataclasses

import numpy as np
import pytest

from figures import _cache, _trainings
from figures._trainings import Training, draw_rows, energies_hold, network_rows, trained
from phasekit.heads import Ensemble
from phasekit.model import Model

SMALL = Training(Model(V=3, L=6, score="softmax"), (40, 60), draws=2, starts=("uniform", "copy"), steps=60)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(_cache, "FOLDER", tmp_path / "runs")


@pytest.fixture
def trainings_done(monkeypatch):
    done = []
    train = _trainings.train

    def counted(models, **settings):
        done.append(len(models))
        return train(models, **settings)

    monkeypatch.setattr(_trainings, "train", counted)
    return done


def test_networks_are_trained_once(trainings_done):
    first, second = SMALL.networks(), SMALL.networks()
    assert trainings_done == [2]
    assert first.data.identical(second.data)
    assert len(first.rows()) == 2 * 2 * 2


def test_the_file_is_named_by_everything_that_matters():
    others = [
        dataclasses.replace(SMALL, **change)
        for change in (
            {"P": (40, 61)}, {"draws": 3}, {"starts": ("copy", "random")}, {"members": 2}, {"steps": 61},
            {"model": SMALL.model.at(kappa=2.0)},
        )
    ]  # fmt: skip
    assert len({training.file for training in [SMALL, *others]}) == 7
    same = dataclasses.replace(SMALL, P=(60, 40), starts=("copy", "uniform"))
    assert same.file == SMALL.file


def test_a_damaged_file_is_reported_and_replaced(trainings_done, capsys):
    SMALL.networks()
    SMALL.file.write_bytes(SMALL.file.read_bytes()[:1000])
    SMALL.networks()
    assert trainings_done == [2, 2]
    assert "computing again" in capsys.readouterr().err
    SMALL.networks()
    assert trainings_done == [2, 2]


def test_a_file_of_another_training_is_not_used(trainings_done):
    other = dataclasses.replace(SMALL, steps=50)
    other.networks()
    other.file.rename(SMALL.file)
    assert SMALL.networks().settings.steps == 60
    assert trainings_done == [2, 2]


def test_energies_that_no_longer_hold_are_noticed(trainings_done):
    networks = SMALL.networks()
    assert energies_hold(networks)
    changed = networks.data.assign(U=networks.data.U * (1 + 1e-6))
    Ensemble(changed).save(SMALL.file)
    assert not energies_hold(Ensemble.load(SMALL.file))
    assert SMALL.networks().data.U.equals(networks.data.U)
    assert trainings_done == [2, 2]


def test_other_data_under_the_same_seeds_are_noticed(monkeypatch):
    networks = SMALL.networks()
    draw = _trainings.draw_dataset
    monkeypatch.setattr(_trainings, "draw_dataset", lambda model, seed: draw(model, seed + 1))
    assert not energies_hold(networks)


def test_only_trainings_that_belong_together_are_joined():
    both = trained(SMALL, dataclasses.replace(SMALL, P=(80,)))
    assert both.data.P.values.tolist() == [40, 40, 60, 60, 80, 80]
    with pytest.raises(ValueError, match="P and draws only"):
        trained(SMALL, dataclasses.replace(SMALL, steps=50))


def test_rows_say_where_they_come_from_and_average_over_kept_networks():
    networks = network_rows(trained(SMALL))
    assert {"P", "data_seed", "start", "number", "seed", "steps", "dtype", "device", "path", "fate"} <= {*networks}
    networks["fate"] = ["kept", "higher energy"] * 4
    networks["aG"] = np.arange(8.0)
    draws = draw_rows(networks)
    assert draws["aG"].tolist() == [0.0, 2.0, 4.0, 6.0]
    assert draws[["P", "data_seed"]].to_numpy().tolist() == [[40, 0], [40, 1], [60, 0], [60, 1]]


def test_a_matrix_of_zeros_has_no_coverage():
    training = Training(Model(V=3, L=6, score="linear"), (2,), draws=1, starts=("uniform",), steps=300)
    networks = network_rows(trained(training))
    assert (networks["q"] < 1e-8).all()
    assert networks["coverage"].isna().all()
