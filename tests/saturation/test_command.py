"""``phasekit saturation``: its table, its JSON, and its exit status when a bound, or a slope, is wrong."""

import dataclasses
import json

import pytest

from phasekit import cli
from phasekit.saturation import get_theorem, slopes, theorems
from phasekit.saturation.theorems import floor


@pytest.fixture
def command(capsys, monkeypatch):
    """Run ``phasekit saturation`` on some theorems; return exit status, standard output and standard error."""

    def run(chosen, *arguments):
        monkeypatch.setattr(theorems, "THEOREMS", tuple(chosen))
        capsys.readouterr()
        status = cli.run(["saturation", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


FLOOR = get_theorem("ssa-floor")


def without_the_two(xp, x):
    """The floor with exponent n in place of 2n."""
    return floor.ssa_floor(xp, x) + x["n"] * xp.log1p(x["lam"] * x["b"] * floor.largest_magnitude(xp, x))


WRONG = dataclasses.replace(FLOOR, lower=without_the_two)


def test_the_table_names_theorem_domain_trials_slack_tightness_and_slope(command):
    status, out, err = command([FLOOR], "--trials", "400")
    assert status == 0
    assert err == ""
    assert "n 0.3…5; b 0.01…30" in out
    row = next(line for line in out.splitlines() if line.startswith("ssa-floor") and "lower" in line)
    assert row.split()[:3] == ["ssa-floor", "lower", "400"]
    assert "1.000000" in row
    (slope,) = slopes.fit_slopes([FLOOR])
    assert any(f"{slope.fitted:.4f}  " in line and line.split().count("-3") == 1 for line in out.splitlines())
    assert out.rstrip().endswith("400 random rows: all bounds kept, all slopes reproduced.")


def test_the_reading_is_printed(command):
    _, out, _ = command([FLOOR], "--trials", "50")
    text = " ".join(out.split())
    assert "no ratio falls faster than λ^(−2n)" in text
    assert "SSA never becomes one-hot" in text
    assert "Δ < 0.5313 (n = 1.5, b = 0.8), Δ < 1.7528 (n = 2, b = 0.8)" in text


def test_a_wrong_bound_exits_1_and_shows_where(command):
    status, out, _ = command([WRONG], "--trials", "400")
    assert status == 1
    assert "NOT KEPT: ssa-floor, lower:" in out
    assert "n = [" in out
    assert "FAILED" in out


def test_json_is_one_document(command):
    status, out, _ = command([FLOOR, get_theorem("softmax-floor")], "--trials", "300", "--seed", "4", "--json")
    assert status == 0
    document = json.loads(out)
    assert document["kept"] is True
    assert (document["trials"], document["seed"]) == (300, 4)
    assert [entry["name"] for entry in document["theorems"]] == ["ssa-floor", "softmax-floor"]
    (bound,) = document["theorems"][0]["bounds"]
    assert bound["side"] == "lower"
    assert bound["random"]["rows"] == 150
    assert bound["adversary"]["rows"] > 100
    assert bound["worst_slack"] == 0
    assert document["theorems"][0]["statement"] == FLOOR.statement
    assert {slope["theorem"] for slope in document["slopes"]} == {"ssa-floor", "softmax-floor"}
    assert [round(entry["gap"], 4) for entry in document["crossover"]] == [0.5313, 1.7528]


def test_json_of_a_wrong_bound_exits_1_with_examples(command):
    status, out, _ = command([WRONG], "--trials", "300", "--json")
    document = json.loads(out)
    assert status == 1
    assert document["kept"] is False
    bound = document["theorems"][0]["bounds"][0]
    assert bound["kept"] is False
    assert bound["worst_slack"] < 0
    example = bound["random"]["examples"][0]
    lower, _ = WRONG.bounds(**flat(example["inputs"]))
    assert float((WRONG.evaluate(**flat(example["inputs"])) - lower).min()) == pytest.approx(example["slack"], rel=1e-9)


def flat(inputs):
    return {name: values if name in ("z", "others") else values[0] for name, values in inputs.items()}


def test_a_wrong_slope_exits_1(command, monkeypatch):
    wrong = [dataclasses.replace(case, predicted=-1.5) for case in slopes.SLOPES["ssa-floor"]]
    monkeypatch.setitem(slopes.SLOPES, "ssa-floor", wrong)
    status, out, _ = command([FLOOR], "--trials", "50")
    assert status == 1
    assert "NOT REPRODUCED: ssa-floor" in out


def test_one_theorem_can_be_chosen(command):
    status, out, _ = command(theorems.THEOREMS, "--theorem", "ssa-imbalance-uniform", "--trials", "200")
    assert status == 0
    assert "200 random rows" in out
    assert "ssa-floor" not in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--theorem", "ssa-floors"], "theorem = 'ssa-floors': must be one of"),
        (["--trials", "3"], "trials = 3: must be at least 16"),
        (["--trials", "many"], "valid integer"),
        (["--seed", "-1"], "seed = -1: must not be negative"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(command, arguments, complaint):
    status, out, err = command(theorems.THEOREMS, *arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert complaint in err
