"""The explorer in a real browser: from disk, offline, by mouse and by keyboard, for everybody."""

import csv
import json
import re
import shlex
import time
from pathlib import Path

import numpy as np
import pytest

import phasekit
from phasekit import cli
from phasekit.explorer import PAGE, build

AXE = Path(__file__).parent / "axe" / "axe.min.js"
#: Whether all that the last change asks for is done: views drawn, diagrams computed, the address written.
DONE = """
const done = arguments[0], notes = [...document.querySelectorAll(".note")];
requestAnimationFrame(() => requestAnimationFrame(() => done(
  !waiting && location.hash === `#${toHash(state)}` && !notes.some((note) => note.textContent.includes("Computing"))
)));
"""
CHOOSE = """
const [id, to] = arguments, one = document.getElementById(id);
one.value = to;
one.dispatchEvent(new Event("change"));
"""
pytestmark = pytest.mark.slow


def test_the_page_is_current_and_small():
    assert build.main(["--check"]) == 0
    assert PAGE.stat().st_size < 1.5e6


@pytest.fixture
def page(chromium):
    """Open the page at a state; close over what it logged."""

    def opened(state=""):
        chromium.get("about:blank")
        for kind in ("browser", "performance"):
            chromium.get_log(kind)
        chromium.get(f"{PAGE.as_uri()}#{state}")
        settle(chromium)
        return chromium

    return opened


def settle(browser):
    """Wait until the page shows its state: a loaded machine may take long."""
    deadline = time.monotonic() + 60
    while not browser.execute_async_script(DONE):
        assert time.monotonic() < deadline, "the page isn't done"
        time.sleep(0.05)


def summary(browser):
    return browser.find_element("id", "summary").text.partition("·")[0]


def number(text, name):
    return float(re.search(rf"{re.escape(name)} = ([0-9.e+-]+)", text)[1].rstrip("."))


def test_dragging_P_through_a_jump(page):
    from selenium.webdriver import ActionChains

    browser = page("score=softmax&second=none&V=8&L=64&P=760")
    before = summary(browser)
    assert "first-order jump" in before
    assert number(before, "P*") == pytest.approx(823.01, abs=0.01)
    assert number(before, "aG") < 0.01
    handle = browser.find_element("css selector", "#cell-course-1 .handle")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", handle)
    ActionChains(browser).drag_and_drop_by_offset(handle, 25, 0).perform()
    settle(browser)
    after = summary(browser)
    assert number(after, "at P") > 823
    assert number(after, "aG") > 0.15
    frames = browser.execute_script("return frames")
    assert len(frames) > 0


def test_keyboard_moves_the_cross_and_P(page):
    from selenium.webdriver import Keys

    browser = page("score=softmax&second=none&V=8&L=64&P=820")
    handle = browser.find_element("css selector", "#cell-course-1 .handle")
    handle.send_keys(Keys.ARROW_RIGHT)
    settle(browser)
    assert number(summary(browser), "at P") == pytest.approx(836.4)
    assert number(summary(browser), "aG") > 0.15
    cross = browser.find_element("css selector", "#cell-diagram-L-1 .handle")
    cross.send_keys(Keys.ARROW_RIGHT)
    settle(browser)
    assert "L=65" in browser.current_url


def test_a_link_restores_a_state_and_names_what_it_does_not_understand(page):
    browser = page("score=ssa&score.n=2&score.b=0.8&second=sparsemax&V=8&L=64&P=700&kappa=-1&q=3&second.n=99")
    assert browser.find_element("id", "control-score").get_attribute("value") == "ssa"
    for word in ("kappa = -1", "q = 3", "second.n = 99"):
        assert word in browser.find_element("id", "refused").text
    model = phasekit.Model(V=8, L=64, score="ssa:n=2:b=0.8")
    assert number(summary(browser), "P*") == pytest.approx(
        phasekit.find_transitions(model).threshold("P_star"), rel=1e-4
    )
    address = browser.current_url
    browser.execute_script(CHOOSE, "control-second", "none")
    settle(browser)
    assert len(browser.find_elements("css selector", ".cell")) == 7
    again = page(address.partition("#")[2])
    assert again.current_url == address
    assert len(again.find_elements("css selector", ".cell")) == 14


def test_switching_the_score(page):
    from selenium.webdriver.support.ui import Select

    browser = page("second=none")
    for name, words in (
        ("linear", "second-order onset"),
        ("sparsemax", "smooth crossover"),
        ("softmax", "first-order jump"),
    ):
        Select(browser.find_element("id", "control-score")).select_by_value(name)
        settle(browser)
        assert words in summary(browser)
        assert not browser.find_elements("css selector", ".failed") or name == "linear"


LINES = ("ssa&score.n=2&score.b=0.8", "linear&inputs=relative", "sparsemax&inputs=token%2Bposition&sigma_g=1.5")


VIEWS = ("action", "course", "loss", "diagram-L", "diagram-V", "matrix", "rows")


@pytest.mark.parametrize("score", LINES)
def test_downloads_and_the_python_line(page, score):
    browser = page(f"score={score}&second=none&V=8&L=64&P=700")
    for file in browser.downloads.iterdir():
        file.unlink()
    shown = [
        view for view in VIEWS if view != "rows" or not score.startswith("linear")
    ]  # linear weights don't saturate: it says so
    for view in shown:
        cell = browser.find_element("id", f"cell-{view}-1")
        browser.execute_script("arguments[0].querySelector('details').open = true; arguments[0].scrollIntoView()", cell)
        settle(browser)
        python = cell.find_element("css selector", ".python").get_attribute("value")
        for button in cell.find_elements("css selector", ".actions button"):
            button.click()
        rows = list(csv.reader(saved(browser, f"phasekit-{view}.csv").read_text("utf-8").splitlines()))
        compare(view, rows[1:], answer(python))
        shape = "<rect" if view == "matrix" else "<path"
        assert shape in saved(browser, f"phasekit-{view}.svg").read_text("utf-8")


def answer(python):
    """Run a line as one would paste it, from nothing but its own imports."""
    first, _, last = python.rpartition("; ")
    names = {}
    exec(first, names)
    return eval(last, names)


def compare(view, rows, found):
    """Hold what was saved of a view against what its line of Python gives."""
    if view == "action":
        mine = sorted(float(row[1]) for row in rows if row[0].endswith("minimum"))
        np.testing.assert_allclose(mine, found, rtol=1e-9)
    elif view in ("course", "loss"):
        theirs = {**found.order_parameters, "loss": found.loss, "coverage": found.coverage}
        names = list(found.order_parameters) if view == "course" else ["loss", "coverage"]
        for name in names:
            compare_course(name, rows, found.models.parameters().P, theirs[name][:, 0])
    elif view == "matrix":
        np.testing.assert_allclose([float(row[1]) for row in rows], found, rtol=1e-9)
    elif view == "rows":
        others = [float(row[2]) for row in rows if row[0] == "weights of other keys"]
        np.testing.assert_allclose(others, found[:, 1:].T.ravel(), rtol=1e-9, atol=1e-12)
    else:
        axis = view[-1]
        for column, words in (("P_star", "P*"), ("P_x", "P×"), ("P1", "P₁"), ("P2", "P₂")):
            mine = {float(row[1]): float(row[2]) for row in rows if row[0].startswith(words)}
            theirs = found[column].dropna(axis) if column in found else []
            assert len(mine) == len(theirs)
            np.testing.assert_allclose([mine[float(x[axis])] for x in theirs], theirs, rtol=1e-9)


def compare_course(name, rows, P, theirs):
    """The lowest branch at the P of the line; the page adds the ends of branches."""
    label = {"a1": "a₁, uniform pooling", "aG": "a_G, copying", "c1": "c₁, pooling", "cG": "c_G, copying"}.get(
        name, name
    )
    mine = {f"{float(row[1]):.9g}": float(row[2]) for row in rows if row[0] == label}
    np.testing.assert_allclose([mine[f"{x:.9g}"] for x in P], theirs, rtol=1e-9, atol=1e-12)


def test_networks_are_shown_beside_their_own_model(page):
    browser = page("score=ssa&score.n=4&score.b=1&second=ssa&second.n=1&second.b=4&V=8&L=64&P=700")
    shown = [len(browser.find_elements("css selector", f"#cell-course-{k} .chart .network")) for k in (1, 2)]
    assert shown[0] > 8
    assert shown[1] == 0


def saved(browser, name):
    file = browser.downloads / name
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and file.stat().st_size:
            return file
        time.sleep(0.02)
    raise AssertionError(f"{name} wasn't saved")


def test_a_number_out_of_range_is_said(page):
    from selenium.webdriver import Keys

    browser = page("score=softmax&second=none&V=8&L=64&P=700")
    field = browser.find_element("css selector", "#control-V ~ input")
    for typed, valid in (("1", False), ("9", True)):
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(typed, Keys.ENTER)
        settle(browser)
        assert browser.execute_script("return arguments[0].validity.valid", field) == valid
        assert browser.execute_script("return state.V") == (9 if valid else 8)


def test_commands_for_what_the_page_lacks_run(page):
    """As they are written there, for the model on the sliders."""
    for state, count in (("score=softmax&V=16&L=12&kappa=2", 4), ("score=ssa&score.n=2&score.b=1&inputs=relative", 1)):
        browser = page(f"{state}&second=none")
        found = [code.text for code in browser.find_elements("css selector", "#beyond code")]
        assert len(found) == count
        for words in map(shlex.split, found):
            assert words[:2] == ["phasekit", "transitions"]
            assert cli.run(words[1:]) == 0, words


def test_nothing_is_fetched_and_nothing_is_complained_of(page):
    browser = page("score=entmax&second=linear&inputs=token%2Bposition")
    browser.execute_script("change({P: 3000})")
    settle(browser)
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "about"}
    assert all(url.partition("#")[0] == PAGE.as_uri() for url in asked if url.startswith("file"))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_violation_of_accessibility(page, theme, width):
    browser = page("score=softmax&second=linear")
    screen = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 1000}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.execute_script(f"setTheme('{theme}'); document.querySelectorAll('details').forEach(d => d.open = true)")
    settle(browser)
    browser.execute_script(AXE.read_text("utf-8"))
    try:
        found = browser.execute_async_script("const done = arguments[0]; axe.run().then(r => done(r.violations))")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    serious = [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")]
    assert serious == []


def test_it_fits_a_phone(page):
    browser = page("second=linear")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    settle(browser)
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_diagram_that_is_not_finished_gives_no_numbers(page):
    """What is saved is whole: while sizes are computed there is nothing to save, and then there is."""
    browser = page("score=ssa")
    begun = browser.execute_script(
        """
        diagrams.clear();
        const cell = document.createElement("div");
        const result = diagramView("L")(modelOf(state), () => {});
        return [result.unfinished, result.note];
        """
    )
    assert begun == [True, "Computing …"]


def test_linear_attention_says_why_it_has_no_row_weights(page):
    text = page("score=linear").execute_script("return document.getElementById('views').textContent")
    assert "Linear attention's weights are the logits themselves" in text
    assert "No answer: linear" not in text
