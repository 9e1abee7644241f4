"""Trained networks against the theory's numbers, docs/theory.md, section 9."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.heads import Adam, draw_dataset, onset_ratio
from phasekit.heads.reference import PRESETS, Preset, checked_models, table
from phasekit.model import Model

# (score, inputs, P): U, and order parameters where the theory puts them above the transition
THEORY = {
    ("linear", "positional", 128): (63.996, {}),
    ("linear", "positional", 256): (113.987, {"c1": 0.1083, "cG": 0.1015}),
    ("linear", "positional", 512): (146.236, {"c1": 0.0718, "cG": 0.1609}),
    ("softmax", "positional", 64): (27.815, {}),
    ("softmax", "positional", 128): (54.000, {}),
    ("softmax", "positional", 256): (68.975, {"aG": 0.3524}),
    ("softmax", "positional", 512): (80.834, {"aG": 0.4427}),
    ("linear", "token+position", 96): (46.423, {"c1": 0.2948}),
    ("softmax", "token+position", 96): (41.848, {}),
}


def key(model):
    return (model.score.name, model.inputs, int(model.P))


@pytest.fixture(scope="module")
def rows():
    positional = [model for model in checked_models() if model.inputs == "positional"]
    tokens = [model for model in checked_models() if model.inputs == "token+position" and model.P == 96]
    PRESETS["test"] = Preset(draws=2, starts=("uniform", "copy"), members=1, settings=Adam(steps=300))
    try:
        return {key(row.model): row for row in [*table(positional, "quick"), *table(tokens, "test")]}
    finally:
        del PRESETS["test"]


@pytest.mark.parametrize("which", THEORY)
def test_networks_have_the_theory_s_energy(rows, which):
    """Within 0.5 %: what replacing second moments by their expectation costs, plus a few standard errors (< 0.1 %)."""
    assert rows[which].values["U"] == pytest.approx(THEORY[which][0], rel=5e-3)


@pytest.mark.parametrize("which", [which for which, (_, expected) in THEORY.items() if expected])
def test_networks_have_the_theory_s_order_parameters(rows, which):
    """Within 5 % above the transition; standard errors over data are below 1 %."""
    row = rows[which]
    for name, value in THEORY[which][1].items():
        assert row.values[name] == pytest.approx(value, rel=0.05), name
        assert row.errors[name] < 0.01 * value


def test_close_to_the_onset_finite_data_count(rows):
    """Linear, P = 128: 2 % above P₁ = 125.2, where c₁ = 0.0369 grows as √(P - P₁).

    Fluctuations of the counts put the data further past their onset (see :func:`onset_ratio`), as larger P would:
    the theory taken there is within 5 %.
    """
    model = Model(V=8, L=16, P=128, score="linear")
    ratio = np.mean([onset_ratio(draw_dataset(model, seed)) for seed in range(PRESETS["quick"].draws)])
    expected = 0.0369 * np.sqrt((125.2 * ratio - 125.2) / (128 - 125.2))
    assert rows[key(model)].values["c1"] == pytest.approx(expected, rel=0.05)


def test_below_the_transition_copying_is_small(rows):
    """Absolute: 0.1 % of the weight. Close to the first-order transition, P = 128, the median is on the low branch."""
    for which, aG in (("positional", 64), 0.0055), (("positional", 128), 0.0417), (("token+position", 96), 0.0023):
        assert rows["softmax", *which].values["aG"] == pytest.approx(aG, abs=1e-3)


def test_two_patterns_cover_the_attention(rows):
    for which, row in rows.items():
        assert row.values["coverage"] > (0.99 if which[1] == "positional" else 0.9)


def test_every_run_is_counted(rows):
    for (_, inputs, _), row in rows.items():
        assert sum(row.counts.values()) == (24 if inputs == "positional" else 4)
        assert row.counts["not converged"] == row.counts["failed"] == 0
        assert row.draws == len(row.per_draw["U"])
        assert row.values["U"] == pytest.approx(np.median(row.per_draw["U"]))
        flat = row.flat()
        assert flat["U"] == row.values["U"]
        assert flat["score"] in ("linear", "softmax")
        assert all(isinstance(value, int | float | str) for value in flat.values())


def test_rows_keep_the_order_of_models():
    models = [Model(V=3, L=4, P=P, score=score) for P, score in ((30, "linear"), (20, "softmax"), (10, "linear"))]
    calls = []
    found = table(models, "quick", progress=lambda done, total: calls.append((done, total)))
    assert [row.model for row in found] == models
    assert calls == [(2, 3), (3, 3)]


def test_unknown_presets_are_refused():
    with pytest.raises(InputError, match=r"^preset = 'slow'"):
        table([], "slow")
