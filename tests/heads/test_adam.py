import math
from itertools import pairwise

import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import Adam, AdamEnsemble, build_energy, draw_starts
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

MODEL = Model(V=3, L=5, P=60)


def ensemble(settings, members=4, dtype="float64"):
    energy = build_energy([draw_dataset(MODEL, 0)], dtype=dtype, device="cpu", path="moments")
    starts = [("random", number) for number in range(members)]
    return energy, AdamEnsemble(energy, draw_starts([MODEL], starts, 0, energy.dtype, energy.device), settings)


def test_steps_are_those_of_torch():
    """Against torch.optim.Adam, fed by autograd of the energy."""
    settings = Adam(steps=40, rate=0.1, final_rate=0.01, decay="exponential")
    energy, state = ensemble(settings)
    W, G = (part.clone().requires_grad_() for part in state.position.values())
    optimiser = torch.optim.Adam([W, G], betas=(settings.beta1, settings.beta2), eps=settings.eps)
    X = torch.nn.functional.one_hot(torch.from_numpy(energy.datasets[0].tokens.astype("int64")), 3).double()
    for step in range(settings.steps):
        optimiser.param_groups[0]["lr"] = settings.rate_at(step)
        optimiser.zero_grad()
        output = G.softmax(-1)[0][:, None] @ X @ W[0][:, None]
        U = (X.roll(1, 1) - output).square().sum() / (2 * MODEL.L) + W.square().sum() / 2 + G.square().sum() / 2
        U.backward()
        optimiser.step()
    state.run(settings.steps)
    torch.testing.assert_close(state.position["W"], W.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(state.position["G"], G.detach(), rtol=1e-9, atol=1e-9)


def test_steps_can_be_taken_in_pieces():
    settings = Adam(steps=30)
    whole, pieces = ensemble(settings)[1], ensemble(settings)[1]
    whole.run(30)
    for steps in (1, 12, 17):
        pieces.run(steps)
    assert pieces.steps_done == 30
    assert torch.equal(whole.position["W"], pieces.position["W"])
    assert torch.equal(whole.position["G"], pieces.position["G"])


@pytest.mark.parametrize("decay", ["cosine", "exponential"])
def test_the_rate_falls_from_first_to_last(decay):
    settings = Adam(steps=100, rate=0.3, final_rate=0.001, decay=decay)
    rates = [settings.rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.3)
    assert rates[-1] == pytest.approx(0.001)
    assert all(a > b for a, b in pairwise(rates))
    middle = settings.rate_at(49.5)
    assert middle == pytest.approx(math.sqrt(0.3 * 0.001) if decay == "exponential" else 0.1505)


def test_one_step_has_a_rate():
    assert Adam(steps=1, rate=0.3).rate_at(0) == pytest.approx(0.3)


def test_progress_is_reported():
    calls = []
    ensemble(Adam(steps=120))[1].run(120, lambda done, total: calls.append((done, total)))
    assert calls == [(50, 120), (100, 120), (120, 120)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("steps", 2.5),
        ("rate", 0.0),
        ("rate", math.nan),
        ("final_rate", -1.0),
        ("beta1", 1.0),
        ("beta2", -0.1),
        ("eps", 0.0),
        ("decay", "linear"),
    ],
)
def test_wrong_settings_are_refused(field, value):
    with pytest.raises(InputError, match=rf"^{field} = "):
        Adam(**{field: value})


def test_settings_survive_json():
    settings = Adam(steps=7, rate=0.2, decay="exponential")
    assert Adam(**settings.describe()) == settings
