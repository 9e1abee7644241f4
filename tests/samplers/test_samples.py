"""Inference data: files that ArviZ reads, and statistics that know the sign symmetry."""

import arviz_stats
import numpy as np
import pytest
import xarray as xr

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.samplers import HMC, SGLD, Decay, Samples, sample


@pytest.fixture(scope="module")
def linear():
    models = [Model(V=3, L=4, P=P, score="linear") for P in (20, 60)]
    return sample(models, HMC(step=0.2, leaps=3), draws=20, warmup=10, attention=True)


def test_files_are_read_back_whole(linear, tmp_path):
    path = tmp_path / "folder" / "samples.nc"
    linear.save(path)
    back = Samples.load(path)
    xr.testing.assert_identical(back.tree, linear.tree)
    assert (back.model, back.method) == (linear.model, linear.method)
    assert [p.name for p in path.parent.iterdir()] == ["samples.nc"]


def test_schedules_survive_the_file(tmp_path):
    method = SGLD(step=Decay(1e-3, 0.4, 10.0), batch=3)
    sample(Model(V=3, L=4, P=20), method, draws=2).save(tmp_path / "samples.nc")
    assert Samples.load(tmp_path / "samples.nc").method == method


def test_arviz_reads_the_file(linear, tmp_path):
    linear.save(tmp_path / "samples.nc")
    tree = xr.load_datatree(tmp_path / "samples.nc")
    rhat = arviz_stats.rhat(tree)
    expected = arviz_stats.rhat(linear.posterior.loss.isel(dataset=1).values)
    assert float(rhat["loss"][1]) == pytest.approx(float(expected))
    assert "U" in arviz_stats.summary(tree).index.str.split("[").str[0].to_list()


def test_invariants_don_t_see_the_sign(linear):
    data = linear.posterior
    sign = xr.DataArray(np.array([1, -1, -1, 1]), dims="chain")
    flipped = data.assign({name: sign * data[name] for name in ("c1", "cG", "s", "g")})
    other = Samples(xr.DataTree.from_dict({"/": xr.Dataset(attrs=linear.tree.attrs), "posterior": flipped}))
    xr.testing.assert_identical(other.invariants(), linear.invariants())
    xr.testing.assert_allclose(other.folded(), linear.folded())
    folded = linear.folded()
    assert float((folded.c1 + folded.cG).min()) >= 0
    xr.testing.assert_allclose(folded.c1 * folded.cG, linear.invariants().c1_cG)
    xr.testing.assert_allclose(linear.invariants().cG_cG, data.cG**2)


def test_normalised_scores_have_no_sign_to_fold():
    samples = sample(Model(V=3, L=4, P=20), SGLD(step=1e-3), draws=2)
    xr.testing.assert_identical(samples.invariants(), samples.posterior)
    xr.testing.assert_identical(samples.folded(), samples.posterior)


def test_other_files_are_refused(tmp_path):
    missing, other, text = (tmp_path / name for name in ("missing.nc", "other.nc", "text.nc"))
    xr.Dataset({"x": 1}).to_netcdf(other, engine="h5netcdf")
    text.write_text("no netCDF")
    for path, reason in ((missing, "can't be read"), (text, "can't be read"), (other, "must be a")):
        with pytest.raises(InputError, match=reason):
            Samples.load(path)


def test_numbers_that_changed_in_the_file_are_refused(linear, tmp_path):
    path = tmp_path / "samples.nc"
    linear.save(path)
    whole = path.read_bytes()
    for name in ("U", "c1"):
        numbers = linear.posterior[name].values.tobytes()
        place = whole.index(numbers) + len(numbers) // 2
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match="samples file"):
            Samples.load(path)
