"""Phase diagrams: labels, lines and files."""

import numpy as np
import pytest
import xarray as xr

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.theory.diagram import phase_diagram, save_dataset
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Family, critical_endpoint, find_transitions, transition_table


def test_linear_phases_change_at_the_lines():
    grid = Model(V=8, L=16, score="linear").grid(P=np.geomspace(50, 2000, 60), L=[16, 64])
    diagram = phase_diagram(grid)
    for L in (16, 64):
        column = diagram.sel(L=L)
        P1, P2 = (find_transitions(Model(V=8, L=L, score="linear")).values[name] for name in ("P1", "P2"))
        assert float(column["line_P1"]) == pytest.approx(P1)
        assert float(column["line_P2"]) == pytest.approx(P2)
        expected = np.where(column.P < P1, 0, np.where(column.P < P2, 1, 2))
        np.testing.assert_array_equal(column["phase"], expected)


def test_softmax_phases_change_at_the_jump_and_two_minima_fill_the_window():
    diagram = phase_diagram(Model(V=8, L=64).grid(P=np.geomspace(300, 3000, 80), L=[32, 64]))
    column = diagram.sel(L=64)
    P_star, (low, high) = float(column["line_P_star"]), column["line_spinodals"].to_numpy()
    np.testing.assert_array_equal(column["phase"] == 2, P_star < column.P)
    np.testing.assert_array_equal(column["minima"] == 2, (low < column.P) & (high > column.P))
    np.testing.assert_array_equal(np.isfinite(column["lead"]), column["minima"] == 2)


@pytest.mark.parametrize("axes", [{"V": [4, 8, 16], "L": [16, 32]}, {"sigma_w": [0.5, 1.0], "kappa": [1.0, 2.0]}])
def test_any_two_axes(axes):
    base = Model(V=8, L=16, P=200)
    diagram = phase_diagram(base.grid(**axes))
    assert dict(diagram.sizes) == {name: len(values) for name, values in axes.items()}
    point = {name: values[-1] for name, values in axes.items()}
    alone = find_minima(base.at(**point))
    assert float(diagram["action"].sel(**point)) == pytest.approx(alone.action[0])


def test_saved_diagram_reads_back_with_its_model(tmp_path):
    diagram = phase_diagram(Model(V=8, L=16, score="linear").grid(P=[100.0, 200.0], L=[16, 32]))
    save_dataset(diagram, tmp_path / "diagram.nc")
    with xr.open_dataset(tmp_path / "diagram.nc", engine="h5netcdf") as back:
        xr.testing.assert_equal(back.load(), diagram)
        assert back.attrs["score"] == "linear"
        assert back.attrs["V"] == 8
    assert [path.name for path in tmp_path.iterdir()] == ["diagram.nc"]


def test_P_has_to_come_from_somewhere():
    with pytest.raises(InputError, match="P"):
        phase_diagram(Model(V=8, L=16).grid(L=[16, 32], V=[4, 8]))


def test_P_alone_has_lines_without_an_axis():
    model = Model(V=8, L=64, score="mixture")
    diagram = phase_diagram(model.grid(P=[700.0, 1000.0]))
    assert diagram["line_P_star"].dims == ()
    assert float(diagram["line_P_star"]) == find_transitions(model).threshold("P_star")
    assert diagram["line_spinodals"].dims == ("end",)


def test_attributes_are_what_the_models_have_in_common(tmp_path):
    base = Model(V=8, L=64, P=5, score="mixture")
    table = transition_table(base.grid(L=[16, 64], sigma_g=[1.0, 2.0]))
    assert {"V", "kappa", "score", "estimator"} <= table.attrs.keys()
    assert not {"L", "sigma_g", "P"} & table.attrs.keys()
    save_dataset(table, tmp_path / "mixture.nc")
    diagram = phase_diagram(Model(V=8, L=64, P=5, score="ssa").grid(n=[1.5, 2.0]))
    assert diagram.attrs["score_b"] == 0.8
    assert diagram.attrs["P"] == 5
    assert "score_n" not in diagram.attrs
    end = critical_endpoint(Model(V=8, L=64, score="ssa"), Family("n", (1.01, 8), lambda n: {"n": n, "b": 1 / n}))
    assert not {"score_n", "score_b", "P"} & end.attrs.keys()
