"""What is drawn where: theory through the minima, networks where they ended, transitions where they are."""

import numpy as np
import pytest

from figures import _ensembles
from figures._ensembles import LINEAR, LINEAR_TOKENS, SOFTMAX
from figures.transitions import attention_matrices, landscape, linear_transition, phase_diagrams, softmax_transition
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions
from tests.figures import reading


def test_landscape_marks_all_minima_and_their_twins(drawn):
    figure = drawn("landscape").figures["landscape"]
    panels = figure.axes[:3]
    P1, P2 = (find_transitions(LINEAR_TOKENS).values[name] for name in ("P1", "P2"))
    assert f"$<$ $P_1$ = {P1:.1f}" in reading.title(panels[0])
    assert f"$>$ $P_2$ = {P2:.0f}" in reading.title(panels[2])
    for axes, count in zip(panels, (1, 2, 4), strict=True):
        points = np.concatenate([np.column_stack(line.get_data()) for line in axes.lines])
        assert len(points) == count
        distances = np.linalg.norm(points[:, None] + points[None], axis=2)  # to the mirror images
        np.testing.assert_allclose(distances.min(axis=1), 0, atol=1e-12)
    assert reading.legend(figure) == ["global minimum", "metastable minimum"]


def test_landscape_is_the_action_above_its_minimum():
    """Against S written out from docs/theory.md, sections 2 and 4."""
    model = LINEAR_TOKENS.at(P=1000.0)
    rows = landscape.landscape(model, (5, 7))
    c1, cG, V, L, P = rows["c1"], rows["cG"], 8, 24, 1000.0
    t, s, g, q = P / V, c1 + cG, cG + c1 / L, cG**2 + 2 * c1 * cG / L + c1**2 / L
    data = P / (2 * V) * (1 - t * s**2 / (1 + t * s**2) + (V - 1) * (1 - t * g**2 / (1 + t * q)))
    S = data + ((V * L / (V + L)) ** 2 * s**2 + L**2 * (L - 1) * cG**2) / 2
    np.testing.assert_allclose(rows["S_above_minimum"], S - find_minima(model).action[0], rtol=1e-9)


def test_linear_transition(drawn):
    files, figures = drawn("linear_transition")
    upper, middle, lower = figures["linear_transition"].axes
    values = find_transitions(LINEAR).values
    for axes in (upper, middle, lower):
        assert reading.verticals(axes) == pytest.approx([values["P1"], values["P2"]])
    assert [text.get_text() for text in upper.texts] == ["$P_1$", "$P_2$"]
    for axes, name in ((upper, "c1"), (upper, "cG"), (middle, "loss")):
        line = reading.line(axes, linear_transition.COLOURS[name])
        minima = find_minima(LINEAR.grid(P=line[:, 0]))
        expected = minima.loss[:, 0] if name == "loss" else minima.order_parameters[name][:, 0]
        np.testing.assert_allclose(line[:, 1], expected, atol=1e-12)
        assert {values["P1"], values["P2"]} <= set(line[:, 0])  # no kink is cut
    numbers = reading.numbers(files, "linear_transition")
    networks = numbers[numbers["kind"] == "network"]
    losses = networks[networks["fate"] == "kept"].groupby(["P", "data_seed"])["loss"].mean()
    assert sorted(reading.circles(middle)[:, 1]) == pytest.approx(sorted(losses))
    for P in (256, 1024):  # networks lie on the line, within the noise of one data set
        np.testing.assert_allclose(losses[P], find_minima(LINEAR.at(P=float(P))).loss[0], rtol=0.02)
    kept = f"Adam, {(networks['fate'] == 'kept').sum()} kept of {len(networks)}"
    assert kept in reading.legend(figures["linear_transition"])
    assert {"data_seed", "start", "seed", "steps", "dtype", "device", "U"} <= {*networks.dropna(axis=1)}


def test_networks_of_higher_energy_are_drawn_faint_and_counted(drawn):
    files, figures = drawn("softmax_transition")
    upper, middle, _ = figures["softmax_transition"].axes
    numbers = reading.numbers(files, "softmax_transition")
    higher = numbers[numbers["fate"] == "higher energy"]
    assert len(higher) >= 2
    assert f"{len(higher)} higher energy" in reading.legend(figures["softmax_transition"])
    for axes, name in ((upper, "aG"), (middle, "loss")):
        assert sorted(reading.circles(axes, alpha=0.6)[:, 1]) == pytest.approx(sorted(higher[name]))
    # They lie on the metastable branch (at P = 823, next to P*, either branch may be lower for one data set).
    branch = numbers[numbers["branch"] == "metastable"]
    for _, network in higher[higher["P"] != 823].iterrows():
        near = np.abs(np.log(branch["P"] / network["P"])) < 0.02
        assert np.abs(branch["aG"][near] - network["aG"]).min() < 0.03


def test_softmax_transition_shows_window_and_transition(drawn):
    panels = drawn("softmax_transition").figures["softmax_transition"].axes
    values = find_transitions(SOFTMAX).values
    low, high = values["spinodals"]
    for axes in panels:
        window = axes.patches[0]
        assert (window.get_x(), window.get_width()) == pytest.approx((low, high - low))
        assert reading.verticals(axes) == pytest.approx([values["P_star"]])
    assert [text.get_text() for text in panels[0].texts] == ["$P^*$"]
    for style in ("--", ":"):
        line = reading.line(panels[0], softmax_transition.COLOURS["aG"], style)
        assert low * 0.999 < line[:, 0].min() < line[:, 0].max() < high * 1.001
    (pooling,) = panels[0].child_axes
    assert pooling.get_ylabel() == "$a_1$ = 1 − $a_G$"


def test_phase_diagrams_draw_lines_up_to_the_critical_point(drawn):
    files, figures = drawn("phase_diagrams")
    linear, softmax = figures["phase_diagrams"].axes[:2]
    assert reading.title(linear) == "linear, $V$ = 8"
    line = np.column_stack(softmax.lines[0].get_data())
    line = line[np.isfinite(line[:, 1])]
    for L, P in line:
        assert find_transitions(Model(V=8, L=int(L))).values["P_star"] == pytest.approx(P)
    rows = reading.numbers(files, "phase_diagrams")
    (end,) = rows[(rows["kind"] == "critical point") & rows["L"].notna()].to_dict("records")
    assert (softmax.lines[-1].get_xdata()[0], softmax.lines[-1].get_ydata()[0]) == pytest.approx((end["L"], end["P"]))
    assert end["L"] < line[:, 0].min()


def test_critical_point_is_where_the_curve_begins_to_fold():
    """By brute force: the P at which a gap is stationary stops rising with the gap."""
    L_end, P_end = phase_diagrams.critical_point(Model(V=8, L=16, score="softmax"), "L")
    gaps = np.linspace(0.5, 3.0, 4001)

    def slope(P, L):
        t, alpha = P / 8, np.exp(gaps) / (np.exp(gaps) + L - 1)
        change, rest = alpha * (1 - alpha), (1 - alpha) / (L - 1)
        q, dq = alpha**2 + (1 - alpha) * rest, 2 * (alpha - rest) * change
        gain = (2 * alpha * change * (1 + t * q) - t * alpha**2 * dq) / (1 + t * q) ** 2
        return -P * 7 / 16 * t * gain + (L - 1) * gaps

    def stationary_P(L):
        low, high = np.zeros(gaps.size), np.full(gaps.size, 12.0)  # ln P
        for _ in range(60):
            middle = (low + high) / 2
            pulled_down = slope(np.exp(middle), L) > 0
            low, high = np.where(pulled_down, middle, low), np.where(pulled_down, high, middle)
        return np.exp(low)

    assert np.diff(stationary_P(L_end * 0.9995)).min() > 0 > np.diff(stationary_P(L_end * 1.0005)).min()
    beyond = stationary_P(L_end * 1.002)
    assert beyond[:-1][np.diff(beyond) < 0].mean() == pytest.approx(P_end, rel=3e-3)


def test_scaling_laws_pass_through_single_models(drawn):
    files, figures = drawn("scaling_laws")
    onset = np.column_stack(figures["scaling_laws"].axes[0].lines[0].get_data())
    assert onset[-1, 0] / onset[0, 0] >= 1e3
    for V, P1 in onset[::4]:
        model = Model(V=int(V), L=10**7, score="linear", inputs="token+position")
        assert find_transitions(model).values["P1"] == pytest.approx(P1)
    assert reading.legend(figures["scaling_laws"]) == ["numeric", "closed form", "leading form"]
    assert "10^{44}" in figures["scaling_jump"].axes[0].texts[0].get_text()
    rows = reading.numbers(files, "scaling_jump")
    assert rows["L"].max() / rows["L"].min() >= 1e3
    left = {name: rows[f"residual_{name}"].dropna() for name in ("self_consistent", "L_ln2_L", "power law")}
    assert all(abs(values.mean()) < 1e-9 for values in left.values())  # by the choice of the prefactor
    assert left["self_consistent"].std() < 0.2 * min(left["L_ln2_L"].std(), left["power law"].std())


def test_attention_matrices(drawn):
    files, figures = drawn("attention_matrices")
    rows = reading.numbers(files, "attention_matrices")
    softmax = rows[rows["score"] == "softmax"]
    np.testing.assert_allclose(softmax.groupby(["P", "fate", "query"])["weight"].sum(), 1)
    one_back = softmax[(softmax["key"] - softmax["query"]) % 64 == 63].groupby(["P", "fate"])
    g = one_back["weight"].mean()
    np.testing.assert_allclose(one_back["aG"].first(), (g - 1 / 64) / (1 - 1 / 64), rtol=1e-5)
    assert g[(880, "kept")] > 5 * g[(880, "higher energy")]
    for axes in figures["attention_matrices"].axes[:6]:
        assert "$P$ = " in reading.title(axes)
        assert "_G$ = " in reading.title(axes)


def test_a_network_that_does_not_exist_is_not_invented(tiny):
    networks = attention_matrices.trained(_ensembles.softmax_transition("quick"))
    with pytest.raises(LookupError, match="no network of P = 5 is kept"):
        attention_matrices.one_of(networks, 5, "kept")
