"""How axes are written on the command line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasekit.cli.axes import parse_axis, remarks_on
from phasekit.errors import InputError


def test_geometric_steps_by_default():
    name, points = parse_axis("P=10:1e5:5")
    assert name == "P"
    np.testing.assert_allclose(points, [1e1, 1e2, 1e3, 1e4, 1e5], rtol=1e-14)


def test_even_steps_on_request_and_a_list():
    np.testing.assert_allclose(parse_axis("sigma-w=0.5:2:4:lin")[1], [0.5, 1, 1.5, 2])
    assert parse_axis("sigma-w=0.5:2:4:lin")[0] == "sigma_w"
    assert parse_axis("kappa=3,1,2")[1].tolist() == [3, 1, 2]
    assert parse_axis("P=7:7:1")[1].tolist() == [7]


@pytest.mark.parametrize(
    ("old", "new"), [("10:1000:3", "10..1000 in 3"), ("1:2:5:lin", "1 .. 2 in 5 even"), ("1:2:5:log", "1..2 in 5")]
)
def test_ranges_are_written_as_in_sweeps_and_the_old_way_is_still_read(old, new):
    assert parse_axis(f"P={old}")[1].tolist() == parse_axis(f"P={new}")[1].tolist()


def test_numbers_of_scores_are_axes():
    name, points = parse_axis("n=1:4:4:lin")
    assert name == "n"
    assert points.tolist() == [1, 2, 3, 4]
    assert parse_axis("alpha=1.2,1.5")[1].tolist() == [1.2, 1.5]


@given(
    first=st.integers(2, 50),
    factor=st.floats(1.5, 100),
    count=st.integers(2, 200),
    spacing=st.sampled_from(["log", "lin"]),
)
def test_sizes_become_distinct_integers_in_the_range(first, factor, count, spacing):
    last = int(first * factor) + 1
    _, points = parse_axis(f"L={first}:{last}:{count}:{spacing}")
    assert (points == np.rint(points)).all()
    assert (np.diff(points) > 0).all()
    assert points[0] == first
    assert points[-1] == last
    assert points.size <= count


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("P", "must be written NAME="),
        ("", "must be written NAME="),
        ("Q=1:2:3", "must be one of P, V, L"),
        ("P=1:2", "an axis is written"),
        ("P=1:2:3:lin:4", "an axis is written"),
        ("P=1:2:0", "from 1 to"),
        ("P=1:2:-5", "from 1 to"),
        ("P=1:2:2.5", "from 1 to"),
        ("P=1:2:", "from 1 to"),
        ("P=1:2:1000000000", "from 1 to"),
        (f"P=1:2:{'9' * 5000}", "from 1 to"),
        ("P=1:2:3:cubic", "an axis is written"),
        ("P=2:1:3", "below the last"),
        ("P=2:2:3", "below the last"),
        ("P=0:1:3", "above 0"),
        ("P=-1:1:3", "above 0"),
        ("P=nan:1:3", "finite"),
        ("P=1:inf:3", "finite"),
        ("P=1..2 in 0", "from 1 to"),
        ("P=1..2 in 1", "at least 2"),
        ("P=2..1", "below the last"),
        ("P=1..2 × P_star", "belong into a sweep"),
        ("P=1..2 x Q", "must be multiples of P1, P2, P_star, P_x, or of one or another: P_star or P_x"),
        ("P=a:1:3", "not a number"),
        ("P=", "not a number"),
        ("P=1,,2", "not a number"),
        ("P=1,nan", "finite"),
    ],
)
def test_a_wrong_axis_is_refused_in_one_line(text, line):
    with pytest.raises(InputError, match=line) as refused:
        parse_axis(text)
    assert "\n" not in str(refused.value)


def test_repeats_of_rounded_values_are_told():
    assert remarks_on("L=64..65 in 5", "P=1..2 in 5", "V=8,16", "L=2..100 in 4") == [
        "note: L=64..65 in 5 asks for 5 values, of which 2 differ as whole numbers"
    ]
