"""The commands that compute: what they print, the files they write, and what they refuse."""

import json
import time

import numpy as np
import pytest
import torch
import xarray as xr

from phasekit.cli.output import working
from phasekit.theory.transitions import Transitions

MODEL = ["-V", 8, "-L", 64]


def document(outcome):
    """Return the one JSON document that a command printed; NaN and Infinity aren't JSON."""
    assert outcome.err == ""

    def no_constant(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(outcome.out, parse_constant=no_constant)


def test_minima_as_json(phasekit):
    outcome = phasekit("minima", *MODEL, "-P", 823, "--json")
    assert outcome.status == 0
    found = document(outcome)
    assert found["model"]["V"] == 8
    assert found["model"]["score"] == {"name": "softmax"}
    assert found["global"] == 0
    low, high = found["branches"]
    assert {"action", "order_parameters", "loss", "converged"} <= low.keys()
    assert set(low["order_parameters"]) == {"a1", "aG"}
    assert low["action"] == pytest.approx(high["action"], rel=1e-4)  # P* = 823.01 (docs/theory.md, section 9)


def test_minima_for_people(phasekit):
    outcome = phasekit("minima", *MODEL, "-P", 400, "--score", "linear", "--inputs", "token+position")
    assert outcome.status == 0
    assert "V = 8, L = 64, P = 400" in outcome.out
    for heading in ("action", "c1", "cG", "loss", "converged"):
        assert heading in outcome.out


def test_minima_at_several_P(phasekit):
    found = document(phasekit("minima", *MODEL, "-P", "700,8.23e2", "--json"))
    assert "P" not in found["model"]
    assert [point["P"] for point in found["points"]] == [700, 823]
    for point in found["points"]:
        alone = document(phasekit("minima", *MODEL, "-P", point["P"], "--json"))
        assert alone["branches"] == point["branches"]
        assert alone["global"] == point["global"]
    shown = phasekit("minima", *MODEL, "-P", "700..823 in 2").out
    assert sum(line.startswith(("global", "metastable")) for line in shown.splitlines()) == 4


def test_headers_write_models_as_the_command_line_does(phasekit):
    score = "mixture:scores=softmax+ssa(n=2,b=1.0000001):shares=0.25+0.75"
    out = phasekit("minima", *MODEL, "-P", 100, "--score", score, "--kappa", 1.0000001).out
    assert f"({score}, positional, map, V = 8, L = 64, P = 100, sigma_w = 1, sigma_g = 1, kappa = 1.0000001)" in out


@pytest.mark.nightly
def test_tables_are_whole_where_there_is_no_terminal(phasekit, tmp_path):
    shares = "0.2500000000001+0.7499999999999"
    scores = [f"mixture:scores=softmax+ssa(n=2.000000000{k},b=1.0000000001):shares={shares}" for k in (1, 2)]
    assert min(map(len, scores)) > 90
    out = phasekit("compare", "-V", 4, "-L", 8, "--scores", ",".join(scores), "-o", tmp_path).out
    assert all(score in out for score in scores)
    assert "…" not in out


@pytest.mark.parametrize(("scores", "words"), [("softmax,softmax", "repeat"), ("softmax,", "none of them empty")])
def test_lists_of_scores_that_are_none(refused, scores, words):
    assert words in refused("compare", "-V", 8, "-L", 16, "--scores", scores)


@pytest.mark.parametrize(
    ("score", "order", "keys"),
    [("linear", "second", {"P1", "P2"}), ("softmax", "first", {"P_star", "spinodals", "jump"})],
)
def test_transitions(phasekit, score, order, keys):
    found = document(phasekit("transitions", *MODEL, "--score", score, "--json"))
    assert found["order"] == order
    assert keys <= found.keys()
    shown = phasekit("transitions", *MODEL, "--score", score)
    assert shown.status == 0
    assert f"{found['P1' if score == 'linear' else 'P_star']:.6g}" in shown.out


def test_a_smooth_transition(phasekit):
    found = document(phasekit("transitions", "-V", 8, "-L", 8, "--json"))
    assert found["order"] == "crossover"
    assert found["P_x"] > 0


@pytest.mark.slow
def test_diagram_writes_data_pictures_and_tables(phasekit, tmp_path):
    axes = ["--x", "L=16:64:3", "--y", "P=100:1000:4"]
    outcome = phasekit("diagram", "-V", 8, *axes, "-o", tmp_path, "--json")
    assert outcome.status == 0
    found = document(outcome)
    names = ["diagram-lines.csv", "diagram.csv", "diagram.nc", "diagram.pdf", "diagram.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert sorted(found["files"]) == sorted(str(tmp_path / name) for name in names)
    assert found["axes"]["L"] == [16, 32, 64]
    assert sum(found["phases"].values()) == pytest.approx(1)
    with xr.open_dataset(tmp_path / "diagram.nc", engine="h5netcdf") as data:
        assert data["aG"].shape == (3, 4)
        assert bool(data["converged"].all())
        rows = np.genfromtxt(tmp_path / "diagram.csv", delimiter=",", names=True)
        assert rows.size == 12
        np.testing.assert_array_equal(rows["aG"], data["aG"].to_numpy().ravel())
    shown = phasekit("diagram", "-V", 8, *axes, "-o", tmp_path, "--score", "linear", "--show", "cG")
    assert shown.status == 0
    assert f"wrote {tmp_path / 'diagram.png'}" in shown.out


@pytest.mark.slow
def test_a_diagram_names_its_phases_and_takes_a_row_for_each_point(phasekit, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("phasekit.drawing.plotting.save", lambda figure, *_: drawn.append(figure) or [])
    axes = ["--x", "L=8..64 in 8", "--y", "P=30..3000 in 9"]
    assert phasekit("diagram", "-V", 8, *axes, "-o", tmp_path).status == 0
    lines = np.genfromtxt(tmp_path / "diagram-lines.csv", delimiter=",", names=True)
    assert len(set(lines["L"])) == lines.size == 8
    assert {"line_spinodals_lower", "line_spinodals_upper"} <= set(lines.dtype.names)
    written = [text.get_text() for text in drawn[0].axes[0].texts]
    assert written == ["pooling", "copying"]
    assert drawn[0].axes[0].get_title("left") == "softmax, map, $V$ = 8"
    with xr.open_dataset(tmp_path / "diagram.nc", engine="h5netcdf") as data:
        assert all(variable.attrs["long_name"] for variable in data.variables.values())
        assert data["L"].attrs["long_name"] == "context length"


@pytest.mark.slow
def test_compare_takes_mixtures_and_says_what_no_P_can_be_computed_for(phasekit, refused, tmp_path):
    mixtures = "mixture:scores=softmax+ssa,mixture:scores=softmax+softmax:shares=0.1+0.9,softmax"
    found = document(phasekit("compare", "-V", 4, "-L", 8, "--scores", mixtures, "-o", tmp_path, "--json"))
    assert sorted(row["score"] for row in found["scores"]) == [
        "mixture:scores=softmax+softmax:shares=0.1+0.9",
        "mixture:scores=softmax+ssa(n=1.5,b=0.8)",
        "softmax",
    ]
    longest = ["compare", "-V", 8, "-L", 2**53, "--scores", "softmax", "-o", tmp_path]
    assert phasekit(*longest).status == 0
    assert "no score's loss falls to 1/2 at a P that can be computed" in refused(*longest, "--kappa", 1e6)


@pytest.mark.slow
def test_two_models_have_two_folders_and_an_empty_name_is_none(phasekit, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for V in (8, 9):
        assert phasekit("diagram", "-V", V, "--x", "L=8,16", "--y", "P=50,100").status == 0
    assert [path.name for path in sorted((tmp_path / "build/diagram").iterdir())] == [
        f"L-P-softmax-positional-map-V={V}-sigma_w=1-sigma_g=1-kappa=1" for V in (8, 9)
    ]
    assert "must name a folder" in refused("diagram", "-V", 8, "--x", "L=8,16", "--y", "P=50,100", "-o", "")


@pytest.mark.slow
def test_a_number_of_a_score_may_be_an_axis_of_diagrams_and_scaling_laws(phasekit, tmp_path):
    diagram = ["diagram", "--score", "ssa", "-V", 8, "-L", 16, "--x", "n=1..3 in 2 even", "--y", "P=100..1000 in 3"]
    assert phasekit(*diagram, "-o", tmp_path).status == 0
    law = ["scaling", "--score", "temperature", "-V", 8, "-L", 64, "--axis", "T=0.5..1.5 in 5"]
    assert phasekit(*law, "-o", tmp_path).status == 0


@pytest.mark.slow
def test_a_diagram_without_P_as_an_axis(phasekit, tmp_path):
    axes = ["--x", "L=16:64:3", "--y", "V=8,16"]
    assert phasekit("diagram", "-P", 500, *axes, "-o", tmp_path).status == 0
    assert not (tmp_path / "diagram-lines.csv").exists()


@pytest.mark.slow
def test_a_diagram_of_one_phase_and_one_of_one_point(phasekit, tmp_path):
    below_onset = ["-V", 8, "--score", "linear", "--x", "L=64:128:3", "--y", "P=1:2:2", "--show", "loss"]
    found = document(phasekit("diagram", *below_onset, "-o", tmp_path, "--json"))
    assert found["phases"] == {"no pattern": 1.0, "pooling": 0.0, "copying": 0.0}
    assert phasekit("diagram", "-V", 8, "--x", "L=64", "--y", "P=100", "-o", tmp_path).status == 0


@pytest.mark.slow
def test_scaling_writes_data_and_finds_the_exponent(phasekit, tmp_path):
    outcome = phasekit("scaling", "-V", 8, "--score", "linear", "--axis", "L=64:65536:13", "-o", tmp_path, "--json")
    assert outcome.status == 0
    found = document(outcome)
    assert found["threshold"] == "P1"
    assert len(found["values"]) == len(found["P1"]) == 13
    assert found["exponent"]["value"] == pytest.approx(1.0, abs=0.02)  # P1 → κVL for positional inputs, L ≫ V
    assert {law["law"] for law in found["laws"]} >= {"power law"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"P1-L.{end}" for end in ("csv", "nc", "pdf", "png")]


@pytest.mark.slow
def test_scaling_over_a_short_axis_says_why_it_gives_no_exponent(phasekit, tmp_path):
    arguments = ["scaling", "-V", 8, "--axis", "L=32:128:6", "-o", tmp_path]
    assert document(phasekit(*arguments, "--json"))["exponent"] is None
    assert "two decades" in phasekit(*arguments).out


COMPUTING = {
    "minima": [],
    "diagram": ["--x", "sigma_w=1,2", "--y", "kappa=1,2"],
}


@pytest.mark.parametrize("command", COMPUTING)
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["-V", "1"], "V = '1'"),
        (["-L", "1"], "L = '1'"),
        (["-L", "3.5"], "L = '3.5'"),
        (["-V", "eight"], "V = 'eight'"),
        (["-P", "0"], "P = '0'"),
        (["-P", "-1"], "P = '-1'"),
        (["-P", "nan"], "P = 'nan'"),
        (["-P", "inf"], "P = 'inf'"),
        (["--sigma-g", "-1"], "sigma_g = '-1'"),
        (["--score", "hardmax"], "choose from"),
        (["--score", "linear", "--n", "2"], "score linear: n"),
        (["--inputs", "tokens"], "positional, token+position"),
        (["--estimator", "mle"], "map, posterior"),
        (["--heads", "2"], "--heads"),
        (["extra"], "extra"),
        (["-V"], "-V"),
    ],
)
def test_a_wrong_model_is_refused(refused, tmp_path, command, wrong, named):
    out = [] if command == "minima" else ["-o", tmp_path / "out"]
    assert named in refused(command, "-V", 8, "-L", 64, "-P", 100, *COMPUTING[command], *out, *wrong)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    "wrong",
    [
        ["minima", "-V", 8, "-L", 64],
        ["minima", "-L", 64, "-P", 3],
        ["transitions", "-V", 8],
        ["transitions", "-V", 8, "-L", 64, "-P", 3],
        ["scaling", "-V", 8],
        ["scaling", "-V", 8, "--axis", "P=1:1000:20"],
        ["scaling", "-V", 8, "-L", 8, "--axis", "L=16:1000:20"],
        ["scaling", "-V", 8, "--axis", "L=16:1000:0"],
        ["scaling", "-V", 8, "--axis", "L=16:1000:3"],
        ["scaling", "-V", 8, "--axis", "L=2:9:8"],
        ["scaling", "-V", 8, "--axis", "L=4..20 in 6"],
        ["scaling", "-V", 8, "--axis", "L=16:1000:20", "--threshold", "P3"],
        ["scaling", "-V", 8, "--axis", "L=16:1000:20", "--threshold", "P1"],
        ["diagram", "-V", 8, "--x", "L=16:64:3"],
        ["diagram", "-V", 8, "--x", "L=16:64:3", "--y", "L=1:2:3"],
        ["diagram", "-V", 8, "--x", "L=16:64:3", "--y", "P=100:1000:0"],
        ["diagram", "-V", 8, "--x", "L=16:64:3", "--y", "P=-1,1"],
        ["diagram", "--x", "L=16:64:3", "--y", "P=100:1000:3"],
        ["diagram", "-V", 8, "--x", "L=16:64:3", "--y", "P=100:1000:3", "--show", "c1"],
    ],
)
def test_a_wrong_task_is_refused_and_leaves_nothing(refused, tmp_path, wrong):
    out = ["-o", tmp_path / "out"] if wrong[0] in ("scaling", "diagram") else []
    refused(*wrong, *out)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize("wrong", [["nonsense"], ["--nonsense"], ["derive", "nonsense"]])
def test_wrong_usage_is_refused(refused, wrong):
    assert "nonsense" in refused(*wrong)


@pytest.mark.parametrize(
    "task",
    [
        ["diagram", "-V", 8, "--x", "L=16:64:3", "--y", "P=100:1000:3"],
        ["scaling", "-V", 8, "--axis", "L=16:1000:20"],
    ],
)
def test_an_unwritable_output_is_refused(refused, tmp_path, task):
    (tmp_path / "taken").write_text("a file")
    assert "can't be written to" in refused(*task, "--out", tmp_path / "taken" / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_an_unconverged_minimum_is_shown_and_fails(phasekit, monkeypatch):
    monkeypatch.setattr("phasekit.theory.minima.TOLERANCE", -1.0)
    outcome = phasekit("minima", *MODEL, "-P", 700, "--json")
    assert outcome.status == 1
    assert not all(branch["converged"] for branch in document(outcome)["branches"])


def test_a_minimum_that_is_not_found_fails_in_one_line(phasekit):
    outcome = phasekit("minima", "--score", "linear", "--inputs", "token+position", "-V", 8, "-L", 2**53, "-P", 1e20,
                       "--sigma-g", 31622.776601683795, "--kappa", 1e-9, "--sigma-w", 1e-9)  # fmt: skip
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (3, "", 1)
    assert "no minimum was found of linear, token+position, map, V = 8, L = 9007199254740992" in outcome.err


@pytest.mark.parametrize("command", ["minima", "transitions", "diagram", "scaling", "figures", "derive"])
def test_help_explains_the_physics(phasekit, command):
    outcome = phasekit(command, "--help")
    assert outcome.status == 0
    assert outcome.err == ""
    assert any(word in outcome.out for word in ("action", "transition", "theory"))


def test_no_command_prints_the_help(phasekit):
    outcome = phasekit()
    assert outcome.status == 0
    for command in ("minima", "transitions", "diagram", "scaling", "figures", "derive"):
        assert command in outcome.out


def test_version(phasekit):
    from phasekit import __version__

    assert phasekit("--version").out == f"phasekit {__version__}\n"


@pytest.mark.slow
def test_compare(phasekit, tmp_path):
    outcome = phasekit("compare", "-V", 8, "-L", 20, "--scores", "softmax,ssa:n=4:b=1,linear", "-o", tmp_path, "--json")
    found = document(outcome)
    assert [row["score"] for row in found["scores"]] == ["ssa:n=4:b=1", "softmax", "linear"]
    assert found["scores"][2]["loss_after"] is None  # no jump
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compare.csv", "compare.pdf", "compare.png"]
    shown = phasekit("compare", "-V", 8, "-L", 20, "-P", 100, "--scores", "linear", "-o", tmp_path)
    assert "loss at P" in shown.out
    refused = phasekit("compare", "-V", 8, "-L", 20, "--scores", "ssa:n", "-o", tmp_path)
    assert refused.status == 2
    assert len(refused.err.splitlines()) == 1


@pytest.mark.slow
def test_endpoint(phasekit):
    found = document(phasekit("endpoint", "-V", 8, "--between", "L=6:40", "--exponents", "--json"))
    assert 13 < found["endpoints"][0]["L"] < 14
    assert [one["exponent"] for one in found["exponents"]] == pytest.approx([1 / 2, 1 / 3], abs=1e-3)
    shown = phasekit("endpoint", "--between", "L=6:40", "--axis", "V=8,16")
    assert shown.status == 0
    assert "13.7415" in shown.out


def test_no_endpoint_is_a_sentence_and_a_status(phasekit):
    command = ["endpoint", "-V", 8, "--between", "L=50..60"]
    shown = phasekit(*command)
    assert shown.status == 1
    assert "no endpoint: the passage is of the same kind from L = 50 to 60" in shown.out
    outcome = phasekit(*command, "--exponents", "--json")
    assert outcome.status == 1
    assert document(outcome)["endpoints"][0]["P"] is None
    some = phasekit("endpoint", "--between", "L=10..40", "--axis", "V=8,1000")
    assert some.status == 0
    assert "no endpoint for 1 of 2" in some.out


def test_transitions_of_which_there_are_none(phasekit, monkeypatch):
    def nothing(model, estimator, **_):
        return Transitions(model, estimator, "none", (), {"why": "one minimum at every P"})

    monkeypatch.setattr("phasekit.theory.transitions.find_transitions", nothing)
    shown = phasekit("transitions", "-V", 8, "-L", 8)
    assert shown.status == 1
    assert "nothing changes at any P" in shown.out
    outcome = phasekit("transitions", "-V", 8, "-L", 8, "--json")
    assert outcome.status == 1
    assert document(outcome)["order"] == "none"


@pytest.mark.parametrize(
    "between", ["n", "n=1", "nn=1..3", "n=1:1e300", "n=3:2", "n=a:b", "L=6:40", "n=1:inf", "sigma_g=1:1e30"]
)
@pytest.mark.filterwarnings("error")
def test_endpoint_refuses(phasekit, between):
    refused = phasekit("endpoint", "-V", 8, "-L", 64, "--score", "ssa", "--between", between)
    assert refused.status == 2
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize("sides", [(2, 10**12, 10**12), (10**9, 10**9)])
def test_too_little_memory_for_torch_is_one_line(refused, monkeypatch, sides):
    """PyTorch says so by RuntimeErrors, of which there are many other kinds."""
    monkeypatch.setattr("phasekit.theory.minima.find_minima", lambda *_: torch.empty(sides))
    assert "not enough memory" in refused("minima", "-V", 8, "-L", 8, "-P", 8)
    monkeypatch.setattr("phasekit.theory.minima.find_minima", lambda *_: torch.zeros(2) @ torch.zeros(3))
    with pytest.raises(RuntimeError, match="size"):
        refused("minima", "-V", 8, "-L", 8, "-P", 8)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["minima", "diagram", "transitions"])
def test_tables_and_json_say_where_a_theory_is_approximate(phasekit, command, tmp_path):
    model = ["--score", "linear", "--inputs", "token+position", "-L", 6]
    sizes = {
        "minima": ["-V", 3, "-P", 20, "--estimator", "posterior"],
        "transitions": ["-V", 3],
        "diagram": ["--x", "P=20,40", "--y", "V=2,3", "--out", tmp_path],
    }[command]
    assert "caveat: approximate" in phasekit(command, *model, *sizes).out
    assert "approximate" in json.loads(phasekit(command, *model, *sizes, "--json").out)["caveat"]
    exact = ["positional" if word == "token+position" else word for word in model]
    assert "caveat" not in phasekit(command, *exact, *sizes).out


@pytest.mark.parametrize(
    "arguments",
    [
        ["diagram", "--score", "ssa", "-V", 8, "-L", 16, "--x", "n=1..2 in 3 even", "--y", "P=100..1000 in 4"],
        ["scaling", "--score", "temperature", "-V", 8, "-L", 64, "--axis", "T=0.5..1.5 in 5 even"],
    ],
)
def test_a_number_of_the_score_can_be_an_axis(phasekit, tmp_path, arguments):
    """Labels of axes come from an open registry."""
    outcome = phasekit(*arguments, "-o", tmp_path)
    assert outcome.status == 0, outcome.err
    assert any(path.suffix == ".png" for path in tmp_path.iterdir())


def test_induction(phasekit):
    """Both layers of an induction head: its minima, its passages, and what has no theory."""
    task = ["--task", "induction"]
    branches = document(phasekit("minima", *task, "-V", 8, "-L", 8, "-P", 140, "--json"))["branches"]
    assert [set(branch["order_parameters"]) for branch in branches] == [{"alpha1", "alpha2"}] * 2
    assert branches[0]["action"] == pytest.approx(61.72, abs=0.005)
    found = document(phasekit("transitions", *task, "-V", 16, "-L", 8, "--json"))
    assert found["order"] == "first"
    assert found["P_star"] == pytest.approx(259.1, abs=0.05)
    assert found["spinodals"][1] == pytest.approx(940.7, abs=0.05)
    assert set(found["jump"]) == {"alpha1", "alpha2", "loss"}
    assert phasekit("transitions", *task, "-V", 65536, "-L", 6).status == 0
    for words, told in [
        (["-V", 8, "-L", 9], "at least L = 9"),
        (["-V", 8, "-L", 8, "--score", "linear"], "softmax or temperature"),
        (["-V", 8, "-L", 8, "--estimator", "posterior"], "use map"),
        (["-V", 8, "-L", 8, "--mask", "causal"], "cyclic"),
        (["-V", 8, "-L", 8, "--tokens", "zipf:1"], "without repetition"),
    ]:
        outcome = phasekit("transitions", *task, *words)
        assert outcome.status == 2
        assert told in outcome.err
        assert outcome.err.count("\n") == 1


def test_a_failed_search_has_its_own_status_and_says_which_model(phasekit, monkeypatch, tmp_path):
    (tmp_path / "clips.py").write_text(CLIP)
    monkeypatch.syspath_prepend(tmp_path)
    outcome = phasekit("transitions", *MODEL, "--score", "clips:Clip:c=1")
    assert (outcome.status, outcome.out) == (3, "")
    model = "clips:Clip:c=1, positional, map, V = 8, L = 64, sigma_w = 1, sigma_g = 1, kappa = 1"
    assert outcome.err == f"error: the transitions of {model} weren't found: the search failed\n"
    assert "3 no answer" in " ".join(phasekit("--help").out.split())


CLIP = """
import sympy
from phasekit.scores import ElementwiseSoftmax

class Clip(ElementwiseSoftmax):
    name = "clip"
    c: float = 6.0

    def transform(self, z, **values):
        return z.clamp(-self.c, self.c)

    def symbolic_transform(self, x, **values):
        return sympy.Piecewise((-self.c, x < -self.c), (self.c, x > self.c), (x, True))
"""


def test_inputs_that_change_nothing_are_told(phasekit):
    for score, told in (("softmax", True), ("sparsemax", True), ("ssa", False)):
        out = phasekit("transitions", *MODEL, "--score", score, "--inputs", "token+position").out
        assert ("evidence: inputs = as with positional inputs" in out) == told
    assert "as with positional" not in phasekit("transitions", *MODEL).out


def test_endpoint_says_what_its_columns_prove(phasekit):
    assert (
        "gradient, softest, tilt: first, second and third" in phasekit("endpoint", "-V", 8, "--between", "L=6..40").out
    )


def test_long_work_is_told_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr("phasekit.progress.FIRST_WORD", 0.01)
    with working("counting"):
        time.sleep(0.1)
    told = capsys.readouterr().err.splitlines()
    assert 2 <= len(told) <= 5
    assert all(line.startswith("counting: 0.") and line.endswith("s so far") for line in told)


def test_a_diagram_says_and_draws_what_copying_is(phasekit, tmp_path):
    out = phasekit("diagram", "-V", 8, "--x", "L=6..12 in 4", "--y", "P=20..300 in 6", "-o", tmp_path).out
    assert "copying: g²/q at least 1/2" in out
    assert "g²/q ≥ 1/2" in phasekit("diagram", "--help").out
    assert "the largest d ln g/d ln P" in phasekit("transitions", "-V", 8, "-L", 8).out
