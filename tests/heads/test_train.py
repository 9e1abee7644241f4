import json
import math

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import Adam, Ensemble, build_energy, select_lowest, train
from phasekit.heads.train import evaluate
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

MODEL = Model(V=4, L=6, P=50)
SHORT = Adam(steps=200)


@pytest.fixture(scope="module")
def ensemble():
    return train([MODEL, MODEL.at(P=200)], data_seeds=[3, 5], starts=("uniform", "copy"), members=3, settings=SHORT)


def test_members_are_labelled(ensemble):
    data = ensemble.data
    assert data.P.values.tolist() == [50, 50, 200, 200]
    assert data.data_seed.values.tolist() == [3, 5, 3, 5]
    assert data.start.values.tolist() == ["uniform"] * 3 + ["copy"] * 3
    assert data.number.values.tolist() == [0, 1, 2] * 2
    assert ensemble.model == MODEL.at(P=None)
    assert ensemble.settings == SHORT
    assert data.attrs["dtype"] == "float32"
    assert data.attrs["device"].startswith(("cpu", "cuda"))
    assert data.attrs["path"] == "moments"


def test_numbers_belong_to_the_recorded_weights(ensemble):
    """Recompute one member from its W and G in float64."""
    data = ensemble.data.isel(dataset=2, member=4)
    energy = build_energy([draw_dataset(MODEL.at(P=200), 3)], dtype="float64", device="cpu")
    W, G = (torch.from_numpy(data[name].values)[None, None] for name in ("W", "G"))
    U, dW, dG = energy.energy_and_gradient(W, G)
    assert float(U) == pytest.approx(float(data.U), rel=1e-12)
    norm = math.sqrt(float(dW.square().sum() + dG.square().sum()))
    assert norm == pytest.approx(float(data.gradient_norm), rel=1e-5, abs=1e-10)
    assert float(data.excess) == pytest.approx(norm**2 / 2, rel=1e-5, abs=1e-18)
    A = np.asarray(G.softmax(-1)[0, 0])
    np.testing.assert_allclose(data.A.values, A, rtol=1e-12)
    g, q = np.mean([A[i, i - 1] for i in range(6)]), (A**2).sum() / 6
    assert float(data.g) == pytest.approx(g)
    assert float(data.q) == pytest.approx(q)
    assert float(data.aG) == pytest.approx((g - 1 / 6) / (1 - 1 / 6))
    assert float(data.a1 + data.aG) == pytest.approx(1)
    assert float(data.coverage) == pytest.approx((data.a1**2 + 2 * data.a1 * data.aG + 6 * data.aG**2) / (6 * q))


def test_members_come_to_rest(ensemble):
    assert ensemble.data.converged.values.all()
    spread = ensemble.data.U.max("member") - ensemble.data.U.min("member")
    assert float((spread / ensemble.data.U.min("member")).max()) < 0.2


def test_too_few_steps_are_flagged():
    data = train(MODEL, members=1, settings=Adam(steps=5)).data
    assert not data.converged.values.any()
    assert not data.failed.values.any()
    assert np.isfinite(data.U.values).all()


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_splitting_an_ensemble_changes_nothing(inputs):
    """Every member has its own streams; only rounding in the shared products may differ (checked in float64)."""
    models = [MODEL.at(inputs=inputs), MODEL.at(inputs=inputs, P=70)]
    options = {"settings": Adam(steps=60), "dtype": "float64", "seed": 4}
    whole = train(models, data_seeds=[0, 1], members=4, **options).data
    for model, data_seed, numbers, start in (
        (models[0], 1, [2, 3], "random"),
        (models[1], 0, [1], "copy"),
        (models[1], 1, [0, 3], "uniform"),
    ):
        part = train(model, data_seeds=[data_seed], starts=[start], members=numbers, **options).data.isel(dataset=0)
        same = whole.isel(
            dataset=((whole.P == model.P) & (whole.data_seed == data_seed)).values,
            member=((whole.start == start) & whole.number.isin(numbers)).values,
        ).isel(dataset=0)
        for name in ("U", "W", "G", "A"):
            np.testing.assert_allclose(part[name].values, same[name].values, rtol=1e-8, atol=1e-10, err_msg=name)


def test_linear_heads_are_reported_with_positive_sign():
    data = train(MODEL.at(score="linear", P=100), starts=["random"], members=6, settings=Adam(steps=600)).data
    assert (data.s.values > 0).all()
    assert (data.c1 + data.cG > 0).values.all()
    np.testing.assert_allclose(data.A.values, data.G.values / 6)
    model = MODEL.at(score="linear", P=100)
    energy = build_energy([draw_dataset(model, 0)], dtype="float64", device="cpu")
    W, G = (torch.from_numpy(data[name].values) for name in ("W", "G"))
    np.testing.assert_allclose(energy.energy_and_gradient(W, G)[0].numpy(), data.U.values, rtol=1e-12)


def test_a_failed_member_is_recorded_and_harms_no_other():
    energy = build_energy([draw_dataset(MODEL, 0)], dtype="float32", device="cpu")
    W, G = torch.ones(1, 3, 4, 4), torch.zeros(1, 3, 6, 6)
    clean = evaluate(energy, W, G, 1e-7)
    W[0, 1, 2, 3] = torch.nan
    G[0, 2, 0, 0] = torch.inf
    found = evaluate(energy, W, G, 1e-7)
    assert found["failed"].tolist() == [[False, True, True]]
    assert not found["converged"][0, 1:].any()
    for name in ("U", "loss", "aG", "q"):
        assert torch.isnan(found[name][0, 1:]).all()
        assert found[name][0, 0] == clean[name][0, 0]


def test_an_infinite_energy_has_not_converged():
    energy = build_energy([draw_dataset(MODEL, 0)], dtype="float64", device="cpu")
    G = torch.full((1, 1, 6, 6), 1e160, dtype=torch.float64)  # finite gradient, infinite prior term
    found = evaluate(energy, torch.zeros(1, 1, 4, 4, dtype=torch.float64), G, 1e-7)
    assert found["failed"].item()
    assert not found["converged"].item()


def test_diverging_training_is_recorded():
    """A learning rate beyond float32: members end in NaN, are counted, and none is dropped."""
    found = train(MODEL.at(score="linear"), starts=["copy"], members=2, settings=Adam(steps=5, rate=1e30))
    assert found.data.failed.values.all()
    assert np.isnan(found.data.U.values).all()
    assert select_lowest(found).counts("failed").tolist() == [2]


def test_rows_hold_plain_values(ensemble):
    rows = ensemble.rows()
    assert len(rows) == 24
    assert rows[13]["P"] == 200
    assert rows[13]["U"] == float(ensemble.data.U[2, 1])
    assert {"start", "number", "data_seed", "aG", "converged", "failed", "steps", "dtype", "device", "seed"} <= set(
        rows[0]
    )
    assert json.loads(json.dumps(rows))[0]["start"] == "uniform"


def test_ensembles_survive_the_disk(ensemble, tmp_path):
    path = tmp_path / "sub" / "ensemble.nc"
    ensemble.save(path)
    loaded = Ensemble.load(path)
    assert loaded.data.identical(ensemble.data)
    assert loaded.rows() == ensemble.rows()
    assert list(path.parent.iterdir()) == [path]


def test_foreign_files_are_refused(tmp_path, ensemble):
    with pytest.raises(InputError, match="ensemble file"):
        Ensemble.load(tmp_path / "missing.nc")
    text = tmp_path / "text.nc"
    text.write_text("no")
    with pytest.raises(InputError, match="ensemble file"):
        Ensemble.load(text)
    other = tmp_path / "other.nc"
    ensemble.data.U.to_dataset().to_netcdf(other, engine="h5netcdf")
    with pytest.raises(InputError, match="must be a"):
        Ensemble.load(other)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"starts": []}, "starts"),
        ({"starts": ["cold"]}, "start"),
        ({"starts": ["copy", "copy"]}, "starts"),
        ({"starts": "copy"}, "starts"),
        ({"members": 0}, "members"),
        ({"members": [1, 1]}, "members"),
        ({"data_seeds": []}, "data_seeds"),
        ({"data_seeds": [-1]}, "data seed"),
        ({"tolerance": 0}, "tolerance"),
        ({"dtype": "half"}, "dtype"),
        ({"device": "gpu0"}, "device"),
        ({"path": "fast"}, "path"),
    ],
)
def test_wrong_arguments_are_refused(arguments, field):
    with pytest.raises(InputError, match=rf"^{field} = "):
        train(MODEL, settings=Adam(steps=1), **arguments)


def test_a_model_needs_P():
    with pytest.raises(InputError, match=r"^P = "):
        train(MODEL.at(P=None))


def test_settings_that_are_none_are_one_line():
    with pytest.raises(InputError, match=r"settings = .*: must be phasekit\.heads\.Adam"):
        train(Model(V=4, L=8, P=20.0, score="linear"), settings={"steps": 2})
