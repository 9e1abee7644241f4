"""Pictures of datasets show the datasets' numbers, at the right places."""

import numpy as np
import pytest
import xarray as xr

from phasekit.drawing import plotting
from phasekit.drawing.pictures import draw_local_exponent, draw_phase_diagram, draw_scaling_law, name_phases
from phasekit.model import Model
from phasekit.theory.diagram import phase_diagram
from phasekit.theory.minima import find_minima

P, L = np.array([10.0, 100.0, 1000.0]), np.array([16.0, 64.0])


@pytest.fixture
def diagram():
    share = np.arange(6.0).reshape(3, 2) / 6
    return xr.Dataset(
        {
            "copying_share": (("P", "L"), share),
            "phase": (("P", "L"), np.array([[0, 1], [1, 1], [2, 2]])),
            "line_P_star": ("L", [np.nan, 500.0]),
            "line_P_x": ("L", [200.0, np.nan]),
            "line_spinodals": (("L", "end"), [[np.nan, np.nan], [400.0, 600.0]]),
        },
        coords={"P": P, "L": L, "end": ["lower", "upper"]},
    )


def lines(axes):
    return {line.get_label(): (line.get_xdata(), line.get_ydata()) for line in axes.lines}


@pytest.mark.parametrize(("x", "y"), [("L", "P"), ("P", "L")])
def test_phase_diagram(diagram, x, y):
    with plotting.style():
        _, axes = plotting.new_figure()
        mesh = draw_phase_diagram(axes, diagram, x, y)
    shown = mesh.get_array()
    assert shown.shape == (diagram[y].size, diagram[x].size)
    np.testing.assert_array_equal(
        shown.filled(np.nan), diagram["copying_share"].where(diagram["phase"] > 0).transpose(y, x)
    )
    drawn = lines(axes)
    star, other = drawn["$P^*$"] if x == "L" else drawn["$P^*$"][::-1], drawn[r"$P_\times$"]
    np.testing.assert_array_equal(star, [L, [np.nan, 500.0]])
    np.testing.assert_array_equal(other if x == "L" else other[::-1], [L, [200.0, np.nan]])
    assert "spinodals" in drawn
    assert len(axes.lines) == 4
    assert axes.get_xlabel() == f"${x}$"
    assert axes.get_ylabel() == f"${y}$"


def test_cells_surround_their_points_on_the_axis_s_scale(diagram):
    with plotting.style():
        _, axes = plotting.new_figure()
        mesh = draw_phase_diagram(axes, diagram, "L", "P")
    corners = mesh.get_coordinates()
    np.testing.assert_allclose(corners[:, 0, 1], 10.0 ** np.array([0.5, 1.5, 2.5, 3.5]))  # P: three decades
    np.testing.assert_allclose(corners[0, :, 0], [-8, 40, 88])  # L: less than one, so linear
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    np.testing.assert_allclose(axes.get_ylim(), [10**0.5, 10**3.5])


def test_scaling_law_and_its_exponent():
    x = np.geomspace(10, 1000, 9)
    law = xr.Dataset(
        {"P1": ("L", 3 * x**1.5), "local_exponent": ("L", np.full(9, 1.5)), "closed_large_L": ("L", x**2)},
        coords={"L": x},
        attrs={"axis": "L", "quantity": "P1"},
    )
    with plotting.style():
        _, (upper, lower) = plotting.new_figure(2)
        draw_scaling_law(upper, law)
        draw_local_exponent(lower, law)
    drawn = lines(upper)
    np.testing.assert_array_equal(drawn["$P_1$, numeric"][1], 3 * x**1.5)
    np.testing.assert_array_equal(drawn[r"$L \gg V$"][1], x**2)
    assert (upper.get_xscale(), upper.get_yscale(), lower.get_yscale()) == ("log", "log", "linear")
    np.testing.assert_array_equal(lower.lines[0].get_ydata(), np.full(9, 1.5))
    np.testing.assert_allclose(lower.lines[1].get_ydata(), np.full(9, 2.0), rtol=1e-12)
    assert lower.get_ylabel() == r"$d\,\ln P_1 / d\,\ln L$"


def test_copying_begins_where_the_share_passes_a_half_but_not_where_it_jumps():
    """L = 8 crosses over; L = 64 jumps across 1/2 at P*, which is drawn already."""
    found = phase_diagram(Model(V=8, L=8).grid(P=np.geomspace(20, 3000, 60), L=[8, 64]))
    with plotting.style():
        _, axes = plotting.new_figure()
        name_phases(axes, found, "L", "P")
    at, P = lines(axes)["$g^2/q = 1/2$"]
    np.testing.assert_array_equal(at, [8, 64])
    assert np.isnan(P[1])
    assert find_minima(Model(V=8, L=8, P=float(P[0]))).copying_share[0] == pytest.approx(0.5, abs=0.01)
