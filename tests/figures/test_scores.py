"""Networks of other scores: their branch, their ends, the table and the picture, on sweeps of seconds."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from figures.laws import _sweeps
from figures.scores import _scores, score_networks, table_scores
from phasekit.drawing import plotting
from phasekit.model import Model
from phasekit.runs.work.backends import Backend
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions
from tests.figures import reading

SWEEP = """
{measure}
seeds = 3
group = 30
[model]
V = 8
L = 32
[axes]
{axes}
[estimator]
name = "adam"
{settings}
[preset.quick]
"""
SSA = 'score = [{{name = "ssa", n = {}, b = 1.0}}]\n'
SWEEPS = {
    "score_jumps": (
        'measure = "P_star"',
        SSA.format("4.0") + 'P = "0.8, 0.98, 1, 1.02, 1.3 × P_star or P_x"',
        "steps = 300\nrate = 0.05",
    ),
    "score_crossovers": ("", SSA.format("1.5") + 'P = "0.8, 1.25 × P_x"', "steps = 400\nrate = 0.2"),
    "score_sparsemax": (
        "", 'score = ["sparsemax"]\nkappa = [1, 16]\nP = "1 × P_x"', "steps = 300\ntolerance = 0.01",
    ),
}  # fmt: skip
JUMPING = Model(V=8, L=32, score={"name": "ssa", "n": 4.0, "b": 1.0})


class Here(Backend):
    """Works in this process: no imports to wait for."""

    workers = threads = 1
    description = "this process"

    def map(self, function, jobs):
        return map(function, jobs)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Run a script on small sweeps, once; return its files and figures by name."""
    folder = tmp_path_factory.mktemp("scores")
    for name, (measure, axes, settings) in SWEEPS.items():
        (folder / f"{name}.toml").write_text(SWEEP.format(measure=measure, axes=axes, settings=settings))

    @cache
    def run(script):
        figures = {}

        def keep(figure, table, stem):
            figures[stem.name] = figure
            with plotting.style():
                figure.draw_without_rendering()
            table.to_csv(stem.with_suffix(".csv"), index=False)
            return [stem.with_suffix(".csv")]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_sweeps, "SIMS", folder)
            patch.setattr(_sweeps, "FOLDER", folder / "runs")
            patch.setattr(_sweeps, "LocalProcesses", Here)
            patch.setattr(table_scores, "LOCATED", ("score_jumps",))
            patch.setattr(score_networks, "NARROW", "score_jumps")
            patch.setattr(score_networks, "CONTEXT", 32)
            patch.setattr(score_networks, "DRAWN_NODES", 3)
            patch.setattr(score_networks, "save", keep)
            return script.main(folder, "quick"), figures

    return run


def made_up(P, aG, start, fate="kept", seed=0):
    return {"P": P, "data_seed": seed, "start": start, "number": 0, "aG": aG, "U": 10.0 + aG, "fate": fate}


def test_networks_belong_to_the_minimum_of_nearest_copying():
    at = find_transitions(JUMPING).values
    P, below = round(at["P_star"]), round(0.8 * at["P_star"])
    low, high = at["jump"]["aG"]
    rows = [made_up(P, low * 1.1, "uniform"), made_up(P, high * 0.9, "copy"), made_up(below, 0.01, "uniform")]
    rows += [made_up(P, low, "copy", "not converged"), made_up(P, high, "uniform", "higher energy")]
    found = _scores.beside_theory(JUMPING, pd.DataFrame(rows))
    assert found["branch"].tolist() == ["low", "high", "only", "high"]
    assert found["minima"].tolist() == [2, 2, 1, 2]
    minima = find_minima(JUMPING.at(P=float(P)))
    order = minima.order_parameters["aG"].argsort()
    np.testing.assert_allclose(found["theory_U"][:2], minima.action[order])
    np.testing.assert_allclose(found["theory_aG"][:2], minima.order_parameters["aG"][order])


def test_ends_are_apart_where_their_copying_differs():
    rows = [made_up(100, 0.01, "uniform"), made_up(100, 0.2, "copy"), made_up(100, 0.1, "copy", "not converged")]
    rows += [made_up(200, 0.2, "uniform"), made_up(200, 0.205, "copy"), made_up(300, 0.2, "uniform")]
    found = _scores.gaps(pd.DataFrame(rows))
    assert found["P"].tolist() == [100, 200]
    assert found["apart"].tolist() == [True, False]
    assert found["advantage"].tolist() == pytest.approx([0.19, 0.005])
    counted = _scores.counts(pd.DataFrame(rows))
    assert (counted["networks"], counted["kept"], counted["not converged"], counted["seeds"]) == (6, 5, 1, 1)


@pytest.mark.parametrize(
    ("score", "name"),
    [
        ("sparsemax", "sparsemax"),
        ({"name": "ssa", "n": 1.5, "b": 1.0}, "SSA, n = 1.5"),
        ({"name": "entmax", "alpha": 1.5}, "1.5-entmax"),
        ({"name": "temperature", "T": 0.7}, "softmax, T = 0.7"),
    ],
)
def test_labels(score, name):
    assert _scores.label(Model(V=8, L=16, score=score)) == name


def test_table(small):
    (csv, md), _ = small(table_scores)
    rows = pd.read_csv(csv).set_index("score")
    jump, smooth = rows.loc["SSA, n = 4"], rows.loc["SSA, n = 1.5"]
    values = find_transitions(JUMPING).values
    assert (jump["order"], smooth["order"]) == ("first", "crossover")
    assert jump["P"] == pytest.approx(values["P_star"])
    assert abs(jump["measured"] / jump["P"] - 1) < 0.02
    assert jump["verdict"] == smooth["verdict"] == "pass"
    assert jump["found_low"] == pytest.approx(values["jump"]["aG"][0], rel=0.2)
    assert jump["found_high"] == pytest.approx(values["jump"]["aG"][1], rel=0.1)
    assert jump["largest_gap"] > 0.1
    assert jump["higher energy"] > 0
    assert smooth["largest_gap"] < 0.005
    assert smooth["higher energy"] == 0
    sparse = rows.loc["sparsemax"].set_index("kappa")
    for kappa in (1, 16):
        assert sparse.loc[kappa, "aG_drawn"] == pytest.approx(sparse.loc[kappa, "aG"], rel=0.05)
        assert sparse.loc[kappa, "ends_differ"] < 1e-4
    # What is left at κ = 16 of the distance from infinite data is about 1/16 of that at κ = 1.
    shift = sparse["aG"] / sparse["aG_infinite"] - 1
    assert shift[1] > 0.25
    assert 0 < shift[16] < 0.25 * shift[1]
    assert "2 of 2 rows stay within 0.5%" in md.read_text()


def test_picture(small):
    (csv,), figures = small(score_networks)
    (figure,) = figures.values()
    assert figure.get_figwidth() == plotting.PAGE
    smooth, jump, sparse = (axes for axes in figure.axes if reading.title(axes))
    assert [reading.title(axes) for axes in (smooth, jump, sparse)] == ["SSA, n = 1.5", "SSA, n = 4", "sparsemax"]
    values = find_transitions(JUMPING).values
    line, other = (reading.line(jump, "0.3", style) for style in ("-", "--"))
    minima = find_minima(JUMPING.grid(P=line[:, 0] * values["P_star"]))
    np.testing.assert_allclose(line[:, 1], minima.order_parameters["aG"][:, 0], rtol=1e-6)
    low, high = (end / values["P_star"] for end in values["spinodals"])
    assert low < other[:, 0].min() < 1 < other[:, 0].max() < high
    drawn, infinite = reading.line(sparse, "C3"), reading.line(sparse, "0.3")
    middle = np.abs(np.log(drawn[:, 0])).argmin()
    assert drawn[middle, 1] > 1.2 * np.interp(drawn[middle, 0], *infinite.T)
    numbers = pd.read_csv(csv)
    kept = numbers[(numbers["kind"] == "network") & (numbers["fate"] == "kept") & (numbers["score"] == "SSA, n = 4")]
    assert sorted(reading.circles(jump)[:, 1]) == pytest.approx(sorted(kept["aG"]))
    assert "Adam from the copy end (faint: filtered)" in reading.legend(figure)
