"""What pictures of transitions show, in numbers: theory through the minima, networks where they ended."""

import numpy as np
import pytest

from figures._sweeps import networks_of_one
from figures.transitions import attention_matrices, landscape, phase_diagrams
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

LINEAR = Model(V=8, L=16, score="linear")
SOFTMAX = Model(V=8, L=64, score="softmax")


def test_landscape_has_all_minima_and_their_twins(drawn):
    rows = drawn("landscape").numbers("landscape")
    minima = rows[rows["kind"] == "minimum"]
    for (_, at), count in zip(minima.groupby("P"), (1, 2, 4), strict=True):
        points = at[["c1", "cG"]].to_numpy()
        assert len(points) == count
        distances = np.linalg.norm(points[:, None] + points[None], axis=2)  # to the mirror images
        np.testing.assert_allclose(distances.min(axis=1), 0, atol=1e-12)


def test_landscape_is_the_action_above_its_minimum():
    """Against S written out from docs/theory.md, sections 2 and 4."""
    model = landscape.MODEL.at(P=1000.0)
    rows = landscape.landscape(model, (5, 7))
    c1, cG, V, L, P = rows["c1"], rows["cG"], 8, 24, 1000.0
    t, s, g, q = P / V, c1 + cG, cG + c1 / L, cG**2 + 2 * c1 * cG / L + c1**2 / L
    data = P / (2 * V) * (1 - t * s**2 / (1 + t * s**2) + (V - 1) * (1 - t * g**2 / (1 + t * q)))
    S = data + ((V * L / (V + L)) ** 2 * s**2 + L**2 * (L - 1) * cG**2) / 2
    np.testing.assert_allclose(rows["S_above_minimum"], S - find_minima(model).action[0], rtol=1e-9)


def test_linear_transition(drawn):
    rows = drawn("linear_transition").numbers("linear_transition")
    values = find_transitions(LINEAR).values
    line = rows[(rows["kind"] == "theory") & (rows["branch"] == "global")]
    minima = find_minima(LINEAR.grid(P=line["P"].to_numpy()))
    np.testing.assert_allclose(line["loss"], minima.loss[:, 0], atol=1e-12)
    for name in ("c1", "cG"):
        np.testing.assert_allclose(line[name], minima.order_parameters[name][:, 0], atol=1e-12)
    assert {values["P1"], values["P2"]} <= set(line["P"])  # no kink is cut
    networks = rows[(rows["kind"] == "network") & (rows["fate"] == "kept")]
    losses = networks.groupby("P")["loss"].mean()
    above = losses[losses.index > 1.4 * values["P1"]]
    assert len(above) == 2
    for P, loss in above.items():  # networks lie on the line, within the noise of two data sets
        assert loss == pytest.approx(find_minima(LINEAR.at(P=float(P))).loss[0], rel=0.02)
    assert {"task", "data_seed", "start", "U"} <= {*networks.dropna(axis=1)}


def test_networks_of_higher_energy_lie_on_the_metastable_branch(drawn):
    rows = drawn("softmax_transition").numbers("softmax_transition")
    higher = rows[rows["fate"] == "higher energy"]
    assert len(higher) >= 2
    branch = rows[rows["branch"] == "metastable"]
    for _, network in higher[higher["P"] != 823].iterrows():  # next to P* either branch may be lower for one data set
        near = np.abs(np.log(branch["P"] / network["P"])) < 0.02
        assert np.abs(branch["aG"][near] - network["aG"]).min() < 0.03


def test_softmax_transition_has_the_window_and_its_branches(drawn):
    rows = drawn("softmax_transition").numbers("softmax_transition")
    low, high = find_transitions(SOFTMAX).values["spinodals"]
    for branch in ("metastable", "saddle"):
        P = rows[rows["branch"] == branch]["P"]
        assert low * 0.999 < P.min() < P.max() < high * 1.001


def test_lines_of_phase_diagrams_end_in_the_critical_point(drawn):
    rows = drawn("phase_diagrams").numbers("phase_diagrams")
    softmax = rows[(rows["score"] == "softmax") & rows["L"].notna()]
    line = softmax[softmax["kind"] == "P_star"]
    for L, P in line[["L", "P"]].to_numpy()[::3]:
        assert find_transitions(Model(V=8, L=int(L))).values["P_star"] == pytest.approx(P)
    (end,) = softmax[softmax["kind"] == "critical point"].to_dict("records")
    assert end["L"] < line["L"].min()


def test_critical_point_is_where_the_curve_begins_to_fold():
    """By brute force: the P at which a gap is stationary stops rising with the gap."""
    diagram = phase_diagrams.diagram_of(Model(V=8, L=16, score="softmax"), "L", 4)
    L_end, P_end = diagram.attrs["critical_point"]
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
    result = drawn("scaling_laws")
    rows = result.numbers("scaling_laws")
    onset = rows[(rows["threshold"] == "P1") & rows["value"].between(4, 4e4)][9:]  # the second law: L = 10⁷
    assert onset["value"].max() / onset["value"].min() >= 1e3
    for V, P1 in onset[["value", "numeric"]].to_numpy()[::4]:
        model = Model(V=int(V), L=10**7, score="linear", inputs="token+position")
        assert find_transitions(model).values["P1"] == pytest.approx(P1)
    jump = result.numbers("scaling_jump")
    assert jump["L"].max() / jump["L"].min() >= 1e3
    names = ("any_regime", "self_consistent", "L_ln2_L", "power law")
    common = jump[[f"residual_{name}" for name in names]].dropna()  # laws are fitted where all of them have a value
    left = {name: common[f"residual_{name}"] for name in names}
    assert all(abs(values.mean()) < 1e-9 for values in left.values())  # by the choice of the prefactor
    assert left["self_consistent"].std() < 0.2 * min(left["L_ln2_L"].std(), left["power law"].std())


def test_attention_matrices(drawn):
    rows = drawn("attention_matrices").numbers("attention_matrices")
    softmax = rows[rows["score"] == "softmax"]
    np.testing.assert_allclose(softmax.groupby(["P", "fate", "query"])["weight"].sum(), 1)
    one_back = softmax[(softmax["key"] - softmax["query"]) % 64 == 63].groupby(["P", "fate"])
    g = one_back["weight"].mean()
    np.testing.assert_allclose(one_back["aG"].first(), (g - 1 / 64) / (1 - 1 / 64), rtol=1e-5)
    largest = max(P for P, _ in g.index)
    assert g[(largest, "kept")] > 5 * g[(largest, "higher energy")]


def test_a_network_that_does_not_exist_is_not_invented(tiny):
    _, networks = networks_of_one(tiny, "softmax_transition")
    with pytest.raises(LookupError, match="no network is failed"):
        attention_matrices.one_of(networks, 823, "failed")
