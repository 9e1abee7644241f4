"""Pictures: one style, the conventions of lines and marks, and files that are whole and reproducible."""

import errno
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from PIL import Image

from phasekit.drawing import plotting
from phasekit.errors import InputError

X = np.geomspace(10, 1e4, 20)


def picture():
    with plotting.style():
        figure, axes = plotting.new_figure()
        plotting.draw_theory(axes, X, np.tanh(X / 1e3), label="theory")
        plotting.mark_transition(axes, 823.0, "P_star")
        plotting.shade_window(axes, (698.5, 1269.3))
        axes.set(xscale="log", xlabel=plotting.LABELS["P"], ylabel=plotting.LABELS["aG"])
        axes.legend()
    return figure


def test_the_style_holds_inside_only_and_whatever_the_user_has_set():
    with mpl.rc_context({"font.size": 20, "axes.grid": True}):
        with plotting.style():
            assert mpl.rcParams["font.size"] == 8
            assert not mpl.rcParams["axes.grid"]
            assert mpl.rcParams["figure.figsize"] == [plotting.COLUMN, 2.5]
            assert mpl.rcParams["pdf.fonttype"] == 42
            assert not mpl.rcParams["text.usetex"]
        assert mpl.rcParams["font.size"] == 20


def test_colours_differ_for_readers_without_red_or_green_cones():
    """Simulated by Viénot's projections (1999), neighbours in the cycle must stay apart in linear RGB."""
    with plotting.style():
        cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    rgb = np.array([mpl.colors.to_rgb(colour) for colour in cycle])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    protan = np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]])
    deutan = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])
    for projection in (np.eye(3), protan, deutan):
        seen = linear @ projection.T
        distance = np.linalg.norm(seen[:, None] - seen[None, :], axis=-1)
        assert distance[np.triu_indices(len(cycle), 1)].min() > 0.05
    # The same measure does find the pair that readers without red cones confuse.
    red, green = np.array([0.6, 0.0, 0.0]), np.array([0.0, 0.076, 0.0])
    assert np.linalg.norm(protan @ (red - green)) < 0.05


@pytest.mark.parametrize(("branch", "dashes"), [("global", "-"), ("metastable", "--"), ("saddle", ":")])
def test_branches_have_their_line_styles(branch, dashes):
    with plotting.style():
        _, axes = plotting.new_figure()
        plotting.draw_theory(axes, X, X, branch=branch)
    assert axes.lines[0].get_linestyle() == dashes
    with pytest.raises(InputError, match="branch = 'unstable'"):
        plotting.draw_theory(axes, X, X, branch="unstable")


def test_networks_are_open_circles_without_a_line():
    with plotting.style():
        _, axes = plotting.new_figure()
        plotting.draw_networks(axes, X, X, error=X / 10, color="C1")
    points, _, (bars,) = axes.containers[0]
    assert points.get_marker() == "o"
    assert points.get_linestyle() == "None"
    assert points.get_markerfacecolor() == "white"
    np.testing.assert_allclose([segment[:, 1] for segment in bars.get_segments()], np.c_[0.9 * X, 1.1 * X])


def test_a_transition_is_marked_where_it_is():
    (axes,) = picture().axes
    assert axes.lines[1].get_xdata() == [823.0, 823.0]
    assert [text.get_text() for text in axes.texts] == ["$P^*$"]
    assert axes.patches[0].get_x() == 698.5
    assert axes.patches[0].get_x() + axes.patches[0].get_width() == pytest.approx(1269.3)


def test_panels_keep_the_style_s_proportions():
    with plotting.style():
        figure, axes = plotting.new_figure(2, 3, width=plotting.PAGE, sharex=True)
    assert axes.shape == (2, 3)
    width, height = figure.get_size_inches()
    assert width == plotting.PAGE
    assert height == pytest.approx(2 * plotting.PAGE / 3 * 2.5 / 3.4)


def test_save_writes_picture_and_numbers(tmp_path):
    files = plotting.save(picture(), {"P": X, "aG": np.tanh(X / 1e3)}, tmp_path / "new" / "V=8.5")
    assert [path.name for path in files] == ["V=8.5.png", "V=8.5.pdf", "V=8.5.csv"]
    with Image.open(files[0]) as image:
        assert image.size == (round(3.4 * 300), round(2.5 * 300))
    assert b"/FontFile2" in files[1].read_bytes()
    assert files[2].read_text().startswith("P,aG\n")
    np.testing.assert_array_equal(np.loadtxt(files[2], delimiter=",", skiprows=1), np.c_[X, np.tanh(X / 1e3)])


def test_the_same_picture_gives_the_same_bytes(tmp_path):
    one, two = (plotting.save(picture(), {"P": X}, tmp_path / folder / "a") for folder in "xy")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


@pytest.mark.slow
def test_a_failure_keeps_all_old_files(tmp_path, monkeypatch):
    old = plotting.save(picture(), {"P": X}, tmp_path / "a")
    before = [path.read_bytes() for path in old]
    monkeypatch.setattr(pd.DataFrame, "to_csv", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plotting.save(picture(), {"P": X, "more": X}, tmp_path / "a")
    assert sorted(tmp_path.iterdir()) == sorted(old)
    assert [path.read_bytes() for path in old] == before


def test_a_full_disk_is_reported_as_such(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)  # pictures reach the disk nowhere else
    with pytest.raises(OSError, match="No space left"):
        plotting.save(picture(), {"P": X}, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_tables_of_every_kind(tmp_path):
    dataset = xr.Dataset({"S": (("L", "P"), [[1.0, 2.0], [3.0, np.nan]])}, coords={"L": [4, 8], "P": [1.0, 2.0]})
    csv = plotting.save(picture(), dataset, tmp_path / "a")[2]
    assert csv.read_text() == "L,P,S\n4,1.0,1.0\n4,2.0,2.0\n8,1.0,3.0\n8,2.0,\n"
    csv = plotting.save(picture(), pd.DataFrame({"x": [1], "name": ["low"]}), tmp_path / "a")[2]
    assert csv.read_text() == "x,name\n1,low\n"
    with pytest.raises(InputError, match="columns must be of equal length"):
        plotting.save(picture(), {"x": [1, 2], "y": [1]}, tmp_path / "b")
    assert not (tmp_path / "b.png").exists()
