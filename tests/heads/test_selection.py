import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.heads import Adam, Ensemble, select_lowest, train
from phasekit.model import Model


@pytest.fixture
def ensemble():
    """Real runs whose energies and flags are then set by hand: 2 data sets, 4 members."""
    found = train(Model(V=3, L=4, P=10), data_seeds=[0, 1], starts=["random"], members=4, settings=Adam(steps=2))
    data = found.data.copy(deep=True)
    data.U.values[:] = [[10.0, 10.0005, 10.1, 9.0], [5.0, np.nan, 4.0, 4.0003]]
    data.converged.values[:] = [[True, True, True, False], [False, False, False, False]]
    data.failed.values[:] = [[False] * 4, [False, True, False, False]]
    data.aG.values[:] = [[0.1, 0.3, 0.5, 0.7], [1, 1, 1, 1]]
    return Ensemble.of(data)


def test_members_are_sorted_and_counted(ensemble):
    selection = select_lowest(ensemble, tolerance=1e-4)
    assert selection.data.fate.values.tolist() == [
        ["kept", "kept", "higher energy", "not converged"],
        ["not converged", "failed", "not converged", "not converged"],
    ]
    assert selection.counts("kept").tolist() == [2, 0]
    assert selection.counts("higher energy").tolist() == [1, 0]
    assert selection.counts("not converged").tolist() == [1, 3]
    assert selection.counts("failed").tolist() == [0, 1]
    assert selection.data.attrs["selection_tolerance"] == 1e-4
    np.testing.assert_array_equal(selection.data.U_lowest, [10.0, np.nan])


def test_averages_are_over_kept_members(ensemble):
    selection = select_lowest(ensemble, tolerance=1e-4)
    np.testing.assert_allclose(selection.mean("aG"), [0.2, np.nan])
    assert select_lowest(ensemble, tolerance=0).counts("kept").tolist() == [1, 0]
    assert select_lowest(ensemble, tolerance=0.02).counts("kept").tolist() == [3, 0]


def test_a_selection_is_saved_with_its_counts(ensemble, tmp_path):
    selection = select_lowest(ensemble)
    selection.save(tmp_path / "kept.nc")
    loaded = type(selection).load(tmp_path / "kept.nc")
    assert loaded.counts("kept").tolist() == [2, 0]
    assert loaded.rows()[0]["fate"] == "kept"


def test_both_branches_of_the_softmax_window_are_seen():
    """V = 8, L = 64, P = 823: two minima of nearly equal action, copy weight 0.018 and 0.170 (docs/theory.md, 9)."""
    found = train(Model(V=8, L=64, P=823), starts=("uniform", "copy"), members=1, settings=Adam(steps=500))
    assert found.data.converged.values.all()
    # the higher branch moves fastest with the data: its slope dg/dlnP is 0.09, and one draw shifts P by 10 %
    np.testing.assert_allclose(found.data.g.values, [[0.0180, 0.1699]], rtol=0.06)
    assert sorted(select_lowest(found).data.fate.values[0]) == ["higher energy", "kept"]


@pytest.mark.parametrize("tolerance", [-1.0, np.nan])
def test_wrong_tolerances_are_refused(ensemble, tolerance):
    with pytest.raises(InputError, match=r"^tolerance = "):
        select_lowest(ensemble, tolerance)


def test_unknown_fates_are_refused(ensemble):
    with pytest.raises(InputError, match=r"^fate = 'lost'"):
        select_lowest(ensemble).counts("lost")
