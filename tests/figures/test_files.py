"""What every script writes: labelled pictures of a column's width with the numbers behind them; tables as text."""

import pandas as pd
import pytest
from PIL import Image

from figures._trainings import Training
from phasekit.drawing import plotting
from tests.figures import golden, small

WRITTEN = {
    "linear_transition": ("linear_transition", "linear_transition_tokens"),
    "scaling_laws": ("scaling_laws", "scaling_jump"),
}


@pytest.mark.parametrize("name", [name for name in small.NAMES if not name.startswith("table")])
def test_pictures_are_as_wide_as_a_column_and_labelled(name, drawn):
    files, figures = drawn(name)
    stems = WRITTEN.get(name, (name,))
    assert [path.name for path in files if path.suffix == ".csv"] == [f"{stem}.csv" for stem in stems]
    assert [*figures] == [*stems]
    for figure in figures.values():
        assert figure.get_figwidth() == (plotting.PAGE if name == "agreement" else plotting.COLUMN)
        # Panels above each other share their horizontal axis, panels beside each other their vertical one, and those
        # inside a grid both.
        words = [
            (a.get_xlabel(), a.get_ylabel(), a.get_title(loc="left"), a.get_title(loc="right"))
            for a in figure.axes
            if at_the_edge(a)
        ]
        assert all(any(each) for each in words)
        assert any(x for x, *_ in words)
        assert any(y for _, y, *_ in words)


def at_the_edge(axes):
    place = axes.get_subplotspec()
    return place is None or place.is_first_row() or place.is_last_row() or place.is_first_col()


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


@pytest.mark.parametrize("name", golden.THEORY_ONLY)
def test_numbers_behind_theory_pictures_are_the_golden_ones(name, drawn):
    for path in golden.tables(drawn(name).files):
        expected = pd.read_csv(golden.FOLDER / path.name)
        pd.testing.assert_frame_equal(pd.read_csv(path), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_presets_train_the_same_models_and_the_full_one_more_of_them(preset):
    from figures import _ensembles

    for name, tiny in small.TRAININGS.items():
        training = getattr(_ensembles, name)(preset)
        assert isinstance(training, Training)
        assert training.model == tiny.model
        assert training.draws >= getattr(_ensembles, name)("quick").draws
