"""docs/theory.md: its numbers are those of the emitted theory, and its pointers lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from phasekit.derivations.catalogue import DERIVATIONS
from phasekit.theory.action.generated import linear_map, softmax_map, thresholds
from tests.derivations.test_copying import closed
from tests.derivations.test_jump import direct, thin, uniform

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text("utf-8")


def section(title: str) -> str:
    """Text from the heading that contains ``title`` to the next heading of any level."""
    return re.search(rf"^#+ [^\n]*{re.escape(title)}.*?\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE).group(1)


def tables(text: str) -> list[list[list[str]]]:
    """All tables of a text: rows of cells, without the line of dashes."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "---" not in line]
        for table in found
    ]


def decimals(text: str) -> int:
    return len(text.partition(".")[2])


def test_pointers_to_derivations() -> None:
    named = re.findall(r"`phasekit derive (\w+)`", PAGE.replace("derive NAME", ""))
    assert set(named) <= set(DERIVATIONS)
    used = {derivation.name for derivation in DERIVATIONS.values() if derivation.section[0] in "2345"}
    assert used & {"moments", "evidence", "patterns", "prior", "linear", "landau", "copying", "softmax", "jump"} <= set(
        named
    )


def linear_minimum(place: tuple[float, float], numbers: tuple[float, ...]) -> tuple[float, np.ndarray]:
    """Newton's method from the listed order parameters; the action and the place."""
    found = np.array(place)
    for _ in range(60):
        value, g1, gG, h11, h1G, hGG = linear_map.jet(*found, *numbers)
        found = found - np.linalg.solve([[h11, h1G], [h1G, hGG]], [g1, gG])
    assert np.linalg.eigvalsh([[h11, h1G], [h1G, hGG]])[0] > 0
    return float(value), found


def test_minima() -> None:
    positional, token_position = tables(section("Numbers to check"))
    rows = [(row[0], float(row[1]), row[2], row[3], row[4]) for row in positional[1:]]
    assert len(rows) == 7
    for score, P, action, order, loss in rows:
        parameters = dict(re.findall(r"(\w+) ([\d.]+)", order))
        if score == "linear":
            numbers = (P, 8.0, 16.0, 1.0, 1.0, 1.0, 256.0)
            value, place = linear_minimum((float(parameters["c1"]), float(parameters["cG"])), numbers)
            assert [f"{c:.4f}" for c in place] == [parameters["c1"], parameters["cG"]]
        else:
            copy = float(parameters["aG"]) * (1 - 1 / 16) + 1 / 16
            gap = np.log(15 * copy / (1 - copy))
            numbers = (P, 8.0, 16.0, 1.0, 1.0, 1.0)
            for _ in range(60):
                value, slope, curvature = softmax_map.jet(gap, *numbers)
                gap -= slope / curvature
            assert curvature > 0
            copy = softmax_map.averages(gap, 16.0)[2]
            assert f"{(copy - 1 / 16) / (1 - 1 / 16):.4f}" == parameters["aG"]
            assert f"{softmax_map.loss(gap, *numbers):.{decimals(loss)}f}" == loss
        assert f"{value:.{decimals(action)}f}" == action
    cost = (8 * 24 / 32) ** 2
    assert len(token_position) == 5
    for P, action, c1, cG in token_position[1:]:
        value, place = linear_minimum((float(c1), float(cG)), (float(P), 8.0, 24.0, 1.0, 1.0, 1.0, cost))
        assert [f"{value:.{decimals(action)}f}", *(f"{c:.4f}" for c in place)] == [action, c1, cG]


def test_thresholds() -> None:
    text = section("Numbers to check")
    cost = (8 * 24 / 32) ** 2
    assert f"P_1 = {thresholds.onset(8, 24, 1, 1, 1, cost):.3f}" in text
    assert f"P_2 = {closed(8, 24, cost):.2f}" in text
    assert f"P^* = {direct(8, 64):.2f}" in text
    ratios = tables(section("Crossover to copying"))[0]
    lengths = [24, 64, 256, 1024, 1e4, 1e6]
    for row, costs in zip(
        ratios[1:], ([L**2 for L in lengths], [(8 * L / (8 + L)) ** 2 for L in lengths]), strict=True
    ):
        for listed, L, cost in zip(row[1:], lengths, costs, strict=True):
            assert listed == f"{closed(8, L, cost) / thresholds.copying_leading(8, L, 1, 1, 1):.3f}"


def test_jump_table() -> None:
    _, jumps, over_thin, over_uniform = tables(section("The jump"))[0]
    models = [(8, 64), (8, 1024), (64, 64), (1024, 1024), (1e5, 64), (1e9, 64)]
    for k, (V, L) in enumerate(models):
        P = direct(V, L)
        listed = float(re.sub(r"\$|\\cdot10\^6", "", jumps[k + 1])) * (1e6 if "10^6" in jumps[k + 1] else 1)
        assert listed == pytest.approx(P, rel=5e-5)
        assert float(over_thin[k + 1]) == pytest.approx(P / thin(V, L), rel=5e-3)
        assert float(over_uniform[k + 1]) - 1 == pytest.approx(P / uniform(V, L)[0] - 1, rel=0.2)


def balanced(gap: float, V: float, L: float) -> float:
    """P at which a gap is stationary: the data's force grows with P."""
    return brentq(lambda P: softmax_map.gradient(gap, P, V, L, 1.0, 1.0, 1.0), 1e-3, 1e15, rtol=1e-13)


@pytest.mark.parametrize(("V", "shortest"), [(8.0, 14), (64.0, 9)])
def test_shortest_context_with_two_minima(V: float, shortest: int) -> None:
    """There are two minima for some P where P isn't a monotonic function of the stationary gap."""

    def folds(L: float) -> bool:
        return bool(np.any(np.diff([balanced(gap, V, L) for gap in np.linspace(0.5, 3.5, 300)]) < 0))

    assert f"$L = {shortest}$" in section("The jump")
    assert folds(float(shortest))
    assert not folds(shortest - 1.0)


def test_jump_and_spinodals_at_the_documented_point() -> None:
    text = section("Numbers to check")
    numbers = (8.0, 64.0, 1.0, 1.0, 1.0)
    P = direct(8, 64)
    for start, listed in ((0.05, "0.0180"), (4.0, "0.1699")):
        gap = start
        for _ in range(100):
            _, slope, curvature = softmax_map.jet(gap, P, *numbers)
            gap -= np.clip(slope / abs(curvature), -0.2, 0.2)
        assert f"{softmax_map.averages(gap, 64.0)[2]:.4f}" == listed
        assert listed in text
    # At a spinodal slope and curvature vanish together: P from the slope at each gap, its extrema over the gap.
    gaps = np.linspace(0.05, 5, 400)

    curve = np.array([balanced(gap, 8.0, 64.0) for gap in gaps])
    turning = np.flatnonzero(np.diff(np.sign(np.diff(curve)))) + 1
    upper, lower = curve[turning]
    assert (f"{lower:.1f}", f"{upper:.1f}") == ("698.5", "1269.3")
    assert "698.5 < P < 1269.3" in text
