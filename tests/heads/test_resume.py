"""Training that is stopped and resumed goes on bit for bit."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.heads import Adam, train
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

SETTINGS = Adam(steps=120)
STARTS = ("uniform", "random")


class StoppedError(Exception):
    pass


def datasets(*seeds):
    return [draw_dataset(Model(V=5, L=7, P=40), seed) for seed in seeds]


def stopping_at(save_number):
    """Return a pause that saves, and raises at its n-th call."""
    calls = []

    def pause(save):
        calls.append(save())
        if len(calls) == save_number:
            raise StoppedError

    return pause


def test_resumed_training_equals_training_in_one_go(tmp_path):
    path = tmp_path / "state.npz"
    asked = {"starts": STARTS, "members": 1, "settings": SETTINGS, "checkpoint": path}
    for stop in (1, 1):
        with pytest.raises(StoppedError):
            train(datasets(0, 1), **asked, pause=stopping_at(stop))
    with np.load(path) as file:
        assert int(file["steps_done"]) == 100
    resumed = train(datasets(0, 1), **asked)
    whole = train(Model(V=5, L=7, P=40), data_seeds=(0, 1), starts=STARTS, members=1, settings=SETTINGS)
    assert resumed.data.identical(whole.data)


def test_a_state_of_the_version_before_is_resumed(tmp_path):
    """It had no header: the same tensors, bare."""
    path = tmp_path / "state.npz"
    asked = {"starts": STARTS, "members": 1, "settings": SETTINGS, "checkpoint": path}
    with pytest.raises(StoppedError):
        train(datasets(0), **asked, pause=stopping_at(1))
    with np.load(path) as file:
        bare = {name: file[name] for name in file.files if name != "header"}
    np.savez(path, **bare)
    assert train(datasets(0), **asked).data.identical(train(datasets(0), **{**asked, "checkpoint": None}).data)
    with pytest.raises(InputError, match="another ensemble"):
        train(datasets(0, 1), **asked)
    np.savez(path, mean=bare["mean"])
    with pytest.raises(InputError, match="another ensemble"):
        train(datasets(0), **asked)


@pytest.mark.parametrize(
    ("name", "changes"), [("datasets", {}), ("seed", {"seed": 3}), ("settings", {"settings": Adam(steps=130)})]
)
def test_the_state_of_another_ensemble_is_refused(name, changes, tmp_path):
    path = tmp_path / "state.npz"
    asked = {"starts": STARTS, "members": 1, "settings": SETTINGS, "checkpoint": path}
    with pytest.raises(StoppedError):
        train(datasets(0), **asked, pause=stopping_at(1))
    with pytest.raises(InputError, match=f"belongs to a run with other .*{name}"):
        train(datasets(1), **{**asked, **changes})
