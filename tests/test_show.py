"""Results show themselves: as tables of at most twelve lines, in terminals and notebooks."""

import numpy as np
import pytest

import phasekit
from phasekit.heads import Adam, train
from phasekit.samplers import HMC, sample
from phasekit.saturation import get_theorem, verify
from phasekit.show import MOST_LINES, Table

MODEL = phasekit.Model(V=4, L=8, P=20, score="ssa:n=2")
SHOWN = {
    "Model": lambda: MODEL,
    "Grid": lambda: MODEL.grid(P=[10, 20], L=[8, 16]),
    "Minima": lambda: phasekit.find_minima(MODEL),
    "Minima of a grid": lambda: phasekit.find_minima(MODEL.grid(P=np.arange(10, 40.0))),
    "Minima with a caveat": lambda: phasekit.find_minima(MODEL.at(inputs="token+position")),
    "Transitions": lambda: phasekit.find_transitions(MODEL),
    "Theorem": lambda: get_theorem("ssa-limit"),
    "Verification": lambda: verify([get_theorem("ssa-limit")], 10, starts=0)[0],
    "Ensemble": lambda: train([MODEL.at(P=P) for P in range(10, 20)], settings=Adam(steps=2), members=1),
    "Samples": lambda: sample(MODEL, HMC(), draws=4, members=1),
}


@pytest.mark.parametrize("name", SHOWN)
def test_in_a_terminal_and_in_a_notebook(name):
    one = SHOWN[name]()
    text, page = repr(one), one._repr_html_()
    assert 1 <= len(text.splitlines()) <= MOST_LINES
    assert page.count("<table>") == page.count("</table>") == 1
    assert "nan" not in text.lower().replace("nano", "")


def test_a_model_shows_what_is_not_at_its_default_and_reads_it_back():
    assert repr(MODEL) == "Model(V=4, L=8, P=20.0, score=SSA(n=2.0))"


def test_long_tables_say_how_much_is_left_out_and_keep_the_caveat():
    notes = ["one", "two", "three", "caveat: rough"]
    table = Table("title", ["a", "b"], [(k, k / 3) for k in range(40)], notes)
    lines = table.text().splitlines()
    assert len(lines) == MOST_LINES
    assert lines[-1] == "caveat: rough"
    (cut,) = (line for line in lines if line.startswith("… and"))
    kept = [line for line in lines if line[:1].isdigit()]
    assert cut == f"… and {40 - len(kept)} more"
    assert "<b>a&amp;b</b>" in Table("a&b", [""], []).html()


def test_minima_as_a_dataset_have_names_and_units():
    grid = MODEL.grid(P=[10.0, 40.0], L=[8, 16])
    found = phasekit.find_minima(grid)
    data = found.to_xarray()
    assert data.sizes["P"] == data.sizes["L"] == 2
    np.testing.assert_array_equal(data.aG, found.order_parameters["aG"])
    assert all("long_name" in data[name].attrs for name in data.variables)
    single = phasekit.find_minima(MODEL, "posterior").to_xarray()
    assert single.covariance_aG_aG.dims == ("branch",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        lambda: phasekit.phase_diagram(MODEL.grid(P=[10.0, 20, 40], L=[8, 16])),
        lambda: phasekit.transition_table(MODEL.grid(L=[8, 16])),
        lambda: phasekit.scaling_law(phasekit.Model(V=4, L=8, score="softmax"), "P_star", "L", [64, 96, 128, 192, 256]),
        lambda: phasekit.find_minima(MODEL).to_xarray(),
    ],
)
def test_every_variable_has_a_name_and_numbers_have_units(made):
    data = made()
    for name in data.variables:
        assert data[name].attrs["long_name"]
        assert data[name].dtype.kind not in "fiu" or data[name].attrs["units"] == "1"


@pytest.mark.slow
def test_the_course_of_a_model_as_a_picture():
    models = [phasekit.Model(V=4, L=12, P=P, score="linear") for P in (20, 160)]
    ensemble = train(models, settings=Adam(steps=300), members=1)
    figure, table = phasekit.plot_transition(models[0], ensemble)
    assert set(table["kind"]) == {"theory", "network"}
    assert [axes.get_ylabel() for axes in figure.axes][1:] == ["loss", "coverage"]
    _, curve = phasekit.plot_transition(phasekit.Model(V=8, L=64, score="softmax"))
    assert set(curve["branch"]) == {"global", "metastable", "saddle"}


def test_what_there_is():
    assert {"Model", "find_minima", "plot_transition"} <= set(dir(phasekit))
    assert "phasekit.find_transitions(model)" in phasekit.__doc__
