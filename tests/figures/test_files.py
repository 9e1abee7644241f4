"""What every script writes: labelled pictures of a column's width with the numbers behind them; tables as text."""

from io import StringIO

import pandas as pd
import pytest
from PIL import Image

from phasekit.drawing import plotting
from tests.figures import golden
from tests.figures.labels import assert_labelled

#: Those that train many networks are looked at where their numbers are tested, so that they are drawn once.
PICTURES = {
    "landscape": plotting.COLUMN, "linear_transition": plotting.COLUMN, "softmax_transition": plotting.COLUMN,
    "phase_diagrams": plotting.COLUMN, "attention_matrices": plotting.COLUMN, "scaling_laws": plotting.COLUMN,
    "posterior_transitions": plotting.COLUMN,
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_as_wide_as_they_should_be_and_labelled(name, drawn):
    assert_labelled(drawn(name), PICTURES[name])


def test_png_and_pdf(drawn):
    png, pdf, _ = drawn("landscape").files
    with Image.open(png) as image:
        assert image.width == round(plotting.COLUMN * 300)
    assert pdf.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("name", ["table_map", "table_claims"])
def test_tables_are_csv_and_markdown(name, drawn):
    csv, md = drawn(name).files
    assert (csv.name, md.name) == (f"{name}.csv", f"{name}.md")
    assert len(pd.read_csv(csv)) > 10
    assert md.read_text().startswith("## ")


@pytest.mark.parametrize("name", golden.TABLES)
def test_numbers_behind_theory_pictures_are_the_golden_ones(name):
    expected = pd.read_csv(golden.FOLDER / f"{name}.csv")
    found = pd.read_csv(StringIO(golden.TABLES[name]().to_csv(index=False)))
    pd.testing.assert_frame_equal(found[expected.columns], expected, rtol=1e-6, atol=1e-9)


def test_the_jump_s_laws_are_the_golden_ones(drawn):
    expected = pd.read_csv(golden.FOLDER / "scaling_jump.csv")
    pd.testing.assert_frame_equal(drawn("scaling_laws").numbers("scaling_jump"), expected, rtol=1e-6, atol=1e-9)
