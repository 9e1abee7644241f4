"""``phasekit evidence``: what it prints, its exit status, and what it refuses."""

import json

import pytest

HEAD = ["-V", 2, "-L", 3]
SHORT = ["--draws", 32, "--thin", 12, "--warmup", 40, "--members", 4]


def document(outcome):
    assert outcome.err == ""
    return json.loads(outcome.out)


@pytest.mark.parametrize(("score", "quantity"), [("softmax", "aG"), ("linear", "cG_cG")])
def test_hysteresis(phasekit, score, quantity):
    arguments = ["evidence", "hysteresis", *HEAD, "--score", score, "-P", "8,32", *SHORT]
    outcome = phasekit(*arguments, "--json")
    assert outcome.status == 0
    found = document(outcome)
    assert found["quantity"] == quantity
    assert found["model"]["L"] == 3
    assert [point["P"] for point in found["points"]] == [8, 32]
    up, down = ([point[way] for point in found["points"]] for way in ("up", "down"))
    assert up[1] > up[0] > 0
    # Two points: the trapezium rule of down - up over ln P.
    area = (down[0] - up[0] + down[1] - up[1]) / 2 * 1.3862943611
    assert found["area"] == pytest.approx(area, rel=1e-6)
    shown = phasekit(*arguments)
    assert shown.status == 0
    assert f"{up[0]:.6g}" in shown.out
    assert f"{found['area']:.3g} ± " in shown.out
    assert f"work lost, in units of the temperature: {found['work']:.3g} ± " in shown.out
    assert found["problem"] is None


def test_chains_that_never_moved_are_no_loop(phasekit):
    stuck = ["--draws", 8, "--thin", 1, "--warmup", 2, "--members", 2, "--step", 1e-300]
    arguments = ["evidence", "hysteresis", "-V", 8, "-L", 16, "-P", "100,200", *stuck]
    outcome = phasekit(*arguments, "--json")
    assert outcome.status == 1
    found = document(outcome)
    assert found["area"] is None
    assert "P = 100 and 200" in found["problem"]
    shown = phasekit(*arguments)
    assert shown.status == 1
    assert "no closed loop" in shown.out


@pytest.mark.slow
def test_barrier(phasekit):
    arguments = ["evidence", "barrier", "-V", 8, "-L", 8, "-P", 60, "--windows", 5, "--members", 3, "--leaps", 8]
    settings = ["--draws", 60, "--warmup", 30, "--bins", 12]
    outcome = phasekit(*arguments, *settings, "--json")
    found = document(outcome)
    assert outcome.status == (0 if found["trusted"] else 1)
    assert found["barrier"] is None  # one well at L = 8
    assert len(found["free_energy"]["F"]) == 12
    assert min(F for F in found["free_energy"]["F"] if F is not None) == 0
    assert found["overlap"] > 0.03


@pytest.mark.slow
def test_a_barrier_that_cannot_be_trusted_fails_the_check(phasekit):
    """Two windows far apart don't overlap."""
    arguments = ["evidence", "barrier", "-V", 8, "-L", 8, "-P", 60, "--windows", 2, "--members", 2, "--leaps", 1]
    outcome = phasekit(*arguments, "--draws", 8, "--warmup", 0, "--bins", 4)
    assert outcome.status == 1
    assert "not to be trusted" in outcome.out or "overlap" in outcome.err


def test_a_missing_package_is_named_before_any_work(phasekit, monkeypatch):
    monkeypatch.setattr("phasekit.extras.find_spec", lambda module: None)
    outcome = phasekit("evidence", "barrier", "-V", 8, "-L", 64, "-P", 1437)
    assert outcome.status == 2
    assert "pymbar" in outcome.err
    assert "phasekit[evidence]" in outcome.err


def test_susceptibility_beside_theory(phasekit):
    arguments = ["evidence", "susceptibility", "-V", 8, "-L", 8, "--score", "linear", "-P", "20,40", "--step", 0.1]
    outcome = phasekit(*arguments, "--draws", 60, "--thin", 4, "--members", 8, "--warmup", 60, "--json")
    points = document(outcome)["points"]
    assert outcome.status == (1 if "not mixed" in {point["verdict"] for point in points} else 0)
    assert [(point["P"], point["quantity"]) for point in points] == [(20, "c1"), (20, "cG"), (40, "c1"), (40, "cG")]
    mixed = [point for point in points if point["verdict"] == "mixed"]
    assert mixed
    for point in mixed:
        assert point["variance"] == pytest.approx(point["theory"], rel=0.5)


@pytest.mark.slow
def test_warning(phasekit):
    arguments = ["evidence", "warning", *HEAD, "-P", "4,6,8,12,16,24,32", "--event", 20, *SHORT]
    outcome = phasekit(*arguments, "--json")
    assert outcome.status == 0
    found = document(outcome)
    assert found["disagree"] == []
    assert [row["P"] for row in found["indicators"] if row["before"]] == [4, 6, 8, 12, 16]
    assert set(found["trends"]) == {"variance", "lag1"}
    assert found["warned"] == all(trend["p"] < 0.05 for trend in found["trends"].values())
    shown = phasekit(*arguments)
    assert ("no warning before P = 20" in shown.out) != found["warned"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["hysteresis", *HEAD, "-P", "8"], "P = '8'"),
        (["hysteresis", *HEAD, "-P", "0,8"], "at least 1"),
        (["hysteresis", *HEAD, "-P", "8:x:2"], "axis P"),
        (["hysteresis", *HEAD, "-P", "8,9", "--step", "0"], "step = 0"),
        (["hysteresis", *HEAD, "-P", "8,9", "--members", "1"], "--members"),
        (["hysteresis", "-V", "4", "-L", "1000000000", "-P", "8,9"], "fit into memory"),
        (["hysteresis", *HEAD, "-P", "8,9", "--draws", "2"], "--draws"),
        (["hysteresis", "-V", "2", "-P", "8,9"], "L"),
        (["barrier", *HEAD, "-P", "8,9"], "must be one size"),
        (["barrier", *HEAD, "-P", "8", "--windows", "1"], "--windows"),
        (["warning", *HEAD, "-P", "8,9", "--event", "20"], "a trend needs at least 5"),
        (["warning", "-V", 8, "-L", 64, "-P", "100,200"], "a trend needs at least 5"),
        (["warning", *HEAD, "-P", "8,9", "--event", "20", "--draws", "99999999999999"], "a trend needs at least 5"),
        (["hysteresis", *HEAD, "-P", "8,9", "--draws", "99999999999999"], "draws = 99999999999999"),
        (["hysteresis", *HEAD, "-P", "1e18,2e18"], "don't fit into memory"),
        (["hysteresis", *HEAD, "-P", "8,129.6"], "must be whole numbers"),
        (["barrier", *HEAD, "-P", "129.6"], "must be whole numbers"),
        (["susceptibility", *HEAD, "-P", "8,9", "--score", "soft"], "score"),
        (["nothing"], "nothing"),
        ([], "command"),
    ],
)
def test_what_is_refused(refused, arguments, named):
    short = [] if arguments in ([], ["nothing"]) or "--draws" in arguments else ["--draws", 8, "--warmup", 1]
    assert named in refused("evidence", *arguments, *short)
