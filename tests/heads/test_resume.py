"""Training that is stopped and resumed goes on bit for bit."""

import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import Adam, train, train_on
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

SETTINGS = Adam(steps=120)
STARTS = ("uniform", "random")


class StoppedError(Exception):
    pass


def datasets(*seeds):
    return [draw_dataset(Model(V=5, L=7, P=40), seed) for seed in seeds]


def test_resumed_training_equals_training_in_one_go():
    saved = {}

    def pause(ensemble):
        saved.update(ensemble.state())
        raise StoppedError

    with pytest.raises(StoppedError):
        train_on(datasets(0, 1), starts=STARTS, members=1, settings=SETTINGS, pause=pause)
    assert int(saved["steps_done"]) == 50
    resumed = train_on(datasets(0, 1), starts=STARTS, members=1, settings=SETTINGS, state=saved)
    whole = train(Model(V=5, L=7, P=40), data_seeds=(0, 1), starts=STARTS, members=1, settings=SETTINGS)
    assert resumed.data.identical(whole.data)


def test_a_state_is_a_copy():
    states = []
    train_on(datasets(0), starts=STARTS, members=1, settings=SETTINGS, pause=lambda x: states.append(x.state()))
    assert [int(state["steps_done"]) for state in states] == [50, 100]
    assert not torch.equal(states[0]["parameters"], states[1]["parameters"])


def test_the_state_of_another_ensemble_is_refused():
    states = []
    train_on(datasets(0), starts=STARTS, members=1, settings=SETTINGS, pause=lambda x: states.append(x.state()))
    with pytest.raises(InputError, match="another ensemble"):
        train_on(datasets(0, 1), starts=STARTS, members=1, settings=SETTINGS, state=states[0])
    with pytest.raises(InputError, match="another ensemble"):
        train_on(datasets(0), starts=STARTS, members=1, settings=SETTINGS, state={"mean": states[0]["mean"]})
