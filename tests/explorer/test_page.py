"""The explorer in a real browser: from disk, offline, by mouse and by keyboard, for everybody."""

import csv
import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

import phasekit
from phasekit.explorer import PAGE, build

AXE = Path(__file__).parent / "axe" / "axe.min.js"
COMPUTING = "return [...document.querySelectorAll('.note')].some(note => note.textContent.includes('Computing'))"
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
    """Wait until phase diagrams are drawn and the address is written."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not browser.execute_script(COMPUTING):
            time.sleep(0.3)
            return
        time.sleep(0.1)
    raise AssertionError("phase diagrams weren't finished")


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
    time.sleep(0.3)
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
    time.sleep(0.2)
    assert number(summary(browser), "at P") == pytest.approx(836.4)
    assert number(summary(browser), "aG") > 0.15
    cross = browser.find_element("css selector", "#cell-diagram-L-1 .handle")
    cross.send_keys(Keys.ARROW_RIGHT)
    time.sleep(0.3)
    assert "L=65" in browser.current_url


def test_a_link_restores_a_state_and_names_what_it_does_not_understand(page):
    browser = page("score=ssa&score.n=2&score.b=0.8&second=sparsemax&V=8&L=64&P=700&kappa=-1&q=3")
    assert browser.find_element("id", "control-score").get_attribute("value") == "ssa"
    assert "kappa = -1" in browser.find_element("id", "refused").text
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


def test_downloads_and_the_python_line(page):
    browser = page("score=ssa&score.n=2&score.b=0.8&second=none&V=8&L=64&P=700")
    for view in ("action", "diagram-L"):
        cell = browser.find_element("id", f"cell-{view}-1")
        browser.execute_script("arguments[0].querySelector('details').open = true; arguments[0].scrollIntoView()", cell)
        time.sleep(0.3)
        python = cell.find_element("css selector", ".python").get_attribute("value")
        for button in cell.find_elements("css selector", ".actions button"):
            button.click()
        rows = list(csv.reader(saved(browser, f"phasekit-{view}.csv").read_text("utf-8").splitlines()))
        found = eval(python, {"phasekit": phasekit})
        if view == "action":
            assert float(rows[1][1]) == pytest.approx(found[0], rel=1e-9)
        else:
            mine = {float(row[1]): float(row[2]) for row in rows if row[0].startswith("P*")}
            theirs = found.P_star.dropna("L")
            assert len(mine) == theirs.size > 5
            np.testing.assert_allclose([mine[float(L)] for L in theirs.L], theirs, rtol=1e-9)
        assert "<path" in saved(browser, f"phasekit-{view}.svg").read_text("utf-8")


def saved(browser, name):
    file = browser.downloads / name
    for _ in range(50):
        if file.exists() and file.stat().st_size:
            return file
        time.sleep(0.1)
    raise AssertionError(f"{name} wasn't saved")


def test_nothing_is_fetched_and_nothing_is_complained_of(page):
    browser = page("score=entmax&second=linear&inputs=token%2Bposition")
    browser.execute_script("change({P: 3000})")
    settle(browser)
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "about"}
    assert all(url.partition("#")[0] == PAGE.as_uri() for url in asked if url.startswith("file"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_violation_of_accessibility(page, theme):
    browser = page("score=softmax&second=linear")
    browser.execute_script(f"setTheme('{theme}'); document.querySelectorAll('details').forEach(d => d.open = true)")
    time.sleep(0.5)
    browser.execute_script(AXE.read_text("utf-8"))
    found = browser.execute_async_script("const done = arguments[0]; axe.run().then(r => done(r.violations))")
    serious = [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")]
    assert serious == []


def test_it_fits_a_phone(page):
    browser = page("second=linear")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    time.sleep(0.3)
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
