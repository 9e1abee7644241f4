"""Laws of P* of every score: what is drawn is what was computed, and the table says it in words."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba

from figures.scores import _score_laws, score_laws
from phasekit.drawing import plotting
from phasekit.drawing.presets import TINY
from phasekit.errors import InputError

KEPT = (("softmax", "wide_vocabulary"), ("1.5-entmax", "scarce_data"), ("sparsemax", "scarce_data"))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Run the script with three quick cases; return its files and the figure."""
    figures = []

    def keep(figure, table, stem):
        figures.append(figure)
        csv = stem.with_name(f"{stem.name}.csv")
        table.to_csv(csv, index=False)
        return [csv]

    with pytest.MonkeyPatch.context() as patch:
        cases = tuple(case for case in _score_laws.CASES if (case.name, case.regime) in KEPT)
        patch.setattr(score_laws, "CASES", cases)
        patch.setattr(score_laws, "STEP", {"tiny": 8})
        patch.setattr(score_laws, "save", keep)
        files = score_laws.main(tmp_path_factory.mktemp("laws"), TINY)
    return files, figures[0]


def test_points_are_the_numbers_and_lie_on_the_lines(drawn):
    files, figure = drawn
    rows = pd.read_csv(files[0])
    assert figure.get_figwidth() == plotting.COLUMN
    assert sorted(set(rows["L"])) == [2.0**8, 2.0**16, 2.0**24]
    for k, (name, regime) in enumerate(KEPT):
        part = rows[(rows["score"] == name) & (rows["regime"] == regime)]
        panels = figure.axes[2 * list(_score_laws.STRENGTH).index(regime) :][:2]
        wanted = (part["numeric"] / part["law"], part["exponent_L"])
        for axes, values in zip(panels, wanted, strict=True):
            colour = to_rgba(score_laws._COLOURS[name])
            own = [line for line in axes.lines if to_rgba(line.get_color()) == colour]
            (points,) = (line.get_ydata() for line in own if line.get_marker() == "o")
            np.testing.assert_allclose(points, values, rtol=1e-12)
            smooth = next(line for line in own if len(line.get_xdata()) == score_laws.LINE)
            assert smooth.get_ydata()[-1] == pytest.approx(values.iloc[-1], rel=1e-3), k


def test_strength_of_the_data_is_where_the_regime_says(drawn):
    rows = pd.read_csv(drawn[0][0])
    power = rows["regime"].map(_score_laws.STRENGTH)
    np.testing.assert_allclose(np.log(rows["t"]) / np.log(rows["L"]), power, atol=0.02)


def test_table(drawn):
    files, _ = drawn
    text = files[-1].read_text("utf-8")
    assert files[-1].name == "score_laws.md"
    assert all(case in text for case, _ in KEPT)
    assert "0.519, 0.501, 0.500" in text  # 1.5-entmax with scarce data, on the way to 1/2


def test_no_jump_is_refused():
    (case,) = (each for each in _score_laws.CASES if (each.name, each.regime) == ("SSA n = 4", "long_context"))
    with pytest.raises(InputError, match="no jump in this regime"):
        _score_laws.follow(case, np.array([64.0, 256.0]))
