"""The step that is chosen for the user: from the stiffest direction, where chains begin."""

import json

import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import build_energy
from phasekit.model import Model
from phasekit.samplers import SGLD, HeadsTarget, Langevin, get_method, sample, stiffest_curvature
from phasekit.tasks.copy import draw_dataset
from tests.samplers import targets


def test_the_stiffest_curvature_of_a_gaussian():
    """In units of the scales: 5 · 3²."""
    target = targets.gaussian([0.7, 2.0, 5.0], chains=4, scales=(0.5, 3.0))
    position = {name: torch.linspace(-1, 2, 12, dtype=torch.float64).view(4, 3) for name in "xy"}
    assert stiffest_curvature(target, position) == pytest.approx(45.0, rel=1e-6)


@pytest.mark.parametrize(("method", "power"), [(SGLD, 1.0), (Langevin, 0.5)])
def test_auto_is_a_tenth_of_the_longest_stable_step(method, power):
    target = targets.gaussian([0.7, 2.0, 5.0], chains=4)
    position = {"x": torch.ones(4, 3, dtype=torch.float64)}
    assert method(step="auto").settled(target, position).step == pytest.approx(0.2 / 5.0**power, rel=0.05)
    assert method(step=0.3).settled(target, position).step == 0.3
    with pytest.raises(InputError, match=r"^step = 'auto': isn't known before chains begin"):
        method(step="auto").build(target, [(k,) for k in range(4)], 0)


@pytest.mark.parametrize("P", [40, 4000])
def test_an_automatic_step_suits_any_size_of_the_data(P, tmp_path):
    """The curvature grows as P: no fixed step serves both. The one that was taken is recorded, and resumed with."""
    model, asked = Model(V=3, L=4, P=P), {"draws": 60, "thin": 5, "warmup": 60, "members": 2, "device": "cpu"}
    found = sample(model, SGLD(step="auto"), checkpoint=tmp_path / "run.npz", **asked)
    target = HeadsTarget(build_energy([draw_dataset(model, 0)], dtype="float64", device="cpu"), 4)
    ends = {name: torch.from_numpy(part) for name, part in found.final().items()}
    assert 0.1 < found.method.step * stiffest_curvature(target, ends) < 0.4  # from 2 on chains diverge
    assert get_method(json.loads(json.dumps(found.method.describe()))) == found.method
    longer = sample(model, SGLD(step="auto"), checkpoint=tmp_path / "run.npz", **{**asked, "draws": 61})
    assert longer.posterior.sizes["draw"] == 61


def test_an_automatic_step_needs_all_data():
    with pytest.raises(InputError, match="needs the gradient of all data"):
        sample(Model(V=3, L=4, P=40), SGLD(step="auto", batch=4), draws=1)
    with pytest.raises(InputError, match=r"^step = 'quick': "):
        SGLD(step="quick")
