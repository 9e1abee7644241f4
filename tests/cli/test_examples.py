"""The example at the end of each command's help runs, and does what the help says."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from phasekit.cli.app import app
from phasekit.cli.examples import EXAMPLES, name_of
from tests.language.texts import sentences, write

ROOT = Path(__file__).resolve().parents[2]
#: A sweep that takes a second: heads of linear attention at a few P.
SWEEP = """
about = "a small head at five P"
seeds = 1
measure = ["P1"]
[model]
V = 4
L = 12
score = "linear"
[axes]
P = [20, 40, 80, 160, 320]
[procedure]
name = "adam"
steps = 300
[preset.tiny]
seeds = 1
"""
#: Two small language models of each score.
LM_SWEEP = """
seeds = 2
group = 1
[model]
shape = {preset = "decoder-1m", layers = 1, width = 16, heads = 2, hidden = 16}
corpus = {text = "text.txt", vocabulary = 300, held_out = 0.1}
[axes]
score = ["softmax", "ssa"]
[procedure]
name = "language"
steps = 6
batch = 4
watch_every = 3
[preset.tiny]
seeds = 2
"""
SLOW = {"endpoint", "check-device", *(name for name in EXAMPLES if name.startswith("evidence "))}


def commands(app, group=""):
    """Yield the name of every command of an app and of its groups, and what it says at the end of its help."""
    for command in app.registered_commands:
        yield f"{group}{name_of(command)}", command.epilog
    for inner in app.registered_groups:
        yield from commands(inner.typer_instance, f"{inner.name} ")


def test_every_command_has_one():
    found = dict(commands(app))
    assert found.keys() == EXAMPLES.keys()
    assert all(epilog == f"Example: {EXAMPLES[name]}" for name, epilog in found.items())
    assert all(EXAMPLES[name].startswith(f"phasekit {name}") for name in EXAMPLES)
    assert all(group.epilog.startswith(f"Example: phasekit {group.name} ") for group in app.registered_groups)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Folders with a text, a sweep and its finished store, by kind of sweep: made when first asked for."""

    made = {}

    def place(kind, run):
        if kind in made:
            return made[kind]
        folder = made[kind] = tmp_path_factory.mktemp("place")
        write(folder, "text.txt", sentences(2000))
        (folder / "small.toml").write_text({"heads": SWEEP, "language": LM_SWEEP}[kind])
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("PHASEKIT_CACHE", str(folder / "cache"))
            if kind == "heads":
                assert run("run", "small.toml", "--preset", "tiny", "--store", "store").status == 0
                assert run("archive", "store", "--out", "archived.nc", "--sims", str(folder)).status == 0
            else:
                assert run("lm", "train", "small.toml", "--preset", "tiny", "--store", "store").status == 0
        return folder

    return place


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in SLOW])
def test_an_example(name, phasekit, places, tmp_path, monkeypatch):
    stored = "{STORE}" in EXAMPLES[name] or name == "archive verify"
    if stored:
        shutil.copytree(places("language" if name.startswith("lm ") else "heads", phasekit), tmp_path / "place")
        if name in ("run", "lm train"):
            shutil.rmtree(tmp_path / "place" / "store")
    else:
        (tmp_path / "place").mkdir()
        write(tmp_path / "place", "text.txt", sentences(2000))
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setenv("PHASEKIT_CACHE", str(tmp_path / "place" / "cache"))
    if name == "archive verify":
        (tmp_path / "place" / "archived.nc").rename("results.nc")
    words = shlex.split(EXAMPLES[name].format(STORE="store", SWEEP="small.toml", TEXT="text.txt"))[1:]
    if name == "figures":
        words += ["--scripts", str(ROOT / "figures")]
    if name.startswith("archive"):
        words += ["--sims", "."]
    done = phasekit(*words)
    assert done.status == 0, done.err
    assert done.out


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(SLOW))
def test_a_slow_example(name, phasekit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert phasekit(*shlex.split(EXAMPLES[name])[1:]).status == 0


def test_help_ends_with_it(phasekit):
    assert "Example: phasekit minima --score softmax" in phasekit("minima", "--help").out.replace("\n ", "\n")


@pytest.mark.slow
def test_networks_of_one_model_beside_theory(phasekit):
    done = phasekit("train", "--score", "softmax", "-V", 4, "-L", 12, "-P", 120, "--steps", 400, "--json")
    found = json.loads(done.out)
    assert done.status == 0
    kept = [row for row in found["networks"] if row["fate"] == "kept"]
    (theory,) = found["theory"]
    assert kept
    assert all(abs(row["U"] / theory["action"] - 1) < 0.05 for row in kept)  # finite data move the energy by some %


@pytest.mark.slow
def test_chains_of_one_model_beside_theory(phasekit):
    done = phasekit("sample", "--score", "softmax", "-V", 4, "-L", 12, "-P", 60, "--json")
    found = json.loads(done.out)
    assert done.status == 0
    (chains,) = found["chains"]
    assert chains["verdict"] == "mixed"
    well = chains["wells"][0]
    assert abs(well["mean"]["aG"] - found["theory"]["branches"][0]["order_parameters"]["aG"]) < 0.02


def test_chains_that_are_too_short_give_no_mean(phasekit):
    done = phasekit("sample", "--score", "softmax", "-V", 4, "-L", 12, "-P", 60, "--draws", 10, "--warmup", 0, "--json")
    assert done.status == 1
    assert json.loads(done.out)["chains"] == [{"data_seed": 0, "verdict": "not mixed", "wells": []}]


@pytest.mark.parametrize(
    "words",
    [
        ("train", "-V", 4, "-L", 12, "-P", 12.5),
        ("train", "-V", 4, "-L", 12),
        ("sample", "-V", 4, "-L", 12, "-P", 20, "--method", "gibbs"),
        ("sample", "-V", 4, "-L", 12, "-P", 20, "--step", "0.1"),
        ("plot", "nowhere"),
        ("explore", "--out", "nowhere/at/all.html"),
    ],
    ids=lambda words: " ".join(map(str, words[:1])),
)
def test_wrong_usage_is_one_line(words, refused):
    assert refused(*words)


def test_scores_say_which_have_a_theory(phasekit):
    found = {row["name"]: row for row in json.loads(phasekit("scores", "--json").out)["scores"]}
    assert found["ssa"]["theory"] == ["map", "posterior"]
    assert found["ssa"]["numbers"]["n"]["default"] == "1.5"
    assert found["sa-softmax"]["theory"] == []
    assert "rows don't sum to one" in found["sa-softmax"]["why_not"]
