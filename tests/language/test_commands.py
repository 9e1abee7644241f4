"""``phasekit lm eval`` and ``lm compare``: of a saved model, and of a store whose arms were really trained."""

import json

import numpy as np
import pytest

from phasekit import cli
from phasekit.language.corpus import CACHE
from phasekit.language.evaluation import Evaluation, examine
from phasekit.language.models import save
from phasekit.language.pairs import read_paradigms
from phasekit.language.text import FOLDER
from phasekit.measure.examined import evaluation_file, language_tasks, trained_model
from phasekit.measure.language import AVERAGE, compare, experiments
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from tests.language.conftest import SENTENCES
from tests.language.texts import sentences, write
from tests.runs.probes import Here

SWEEP = """
seeds = 2
group = 1
[model]
shape = {preset = "KIND-1m", layers = 1, width = 16, heads = 2, hidden = 16, longest = 64}
corpus = {text = "text.txt", vocabulary = 300, held_out = 0.2}
[axes]
score = ["softmax", "ssa"]
[procedure]
name = "language"
steps = 8
batch = 4
watch_every = 4
pairs = "pairs"
most_documents = 20
"""


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setattr("phasekit.progress.FIRST_WORD", 1e6)

    def call(*words):
        capsys.readouterr()
        status = cli.run([str(word) for word in words])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


@pytest.fixture(params=[pytest.param("decoder", marks=pytest.mark.nightly), "babyberta"])
def store(request, tmp_path, monkeypatch, zorro):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    write(tmp_path, "text.txt", sentences(400))
    (tmp_path / "pairs").symlink_to(zorro)
    (tmp_path / "small.toml").write_text(SWEEP.replace("KIND", request.param))
    sweep = load_sweep(tmp_path / "small.toml")
    summary = run_sweep(sweep, expand(sweep), Store.create(tmp_path / "store"), Here(), Silent())
    assert summary.status == 0, summary.failed
    return tmp_path / "store"


@pytest.mark.slow
def test_all_models_of_a_store_are_examined_and_compared(store, run, tmp_path):
    opened = Store.open(store)
    tasks = list(language_tasks(opened))
    assert len(tasks) == 4
    more = tmp_path / "more"
    more.mkdir()
    (more / "dogs.txt").write_text("a dogs barks .\na dog barks .\nthe dogs barks .\nthe dogs bark .\n")
    write(tmp_path, "other.txt", sentences(300, seed=5))
    status, out, errors = run("lm", "eval", store, "--zorro", more, "--text", "other.txt", "--json")
    assert status == 0, errors
    found = json.loads(out)["models"]
    assert [one["model"] for one in found] == ["softmax, seed 0", "softmax, seed 1", "ssa, seed 0", "ssa, seed 1"]
    for (task, result), one in zip(tasks, found, strict=True):
        trained = trained_model(task, result)
        examined = examine(trained.model, trained.tokenizer, paradigms=read_paradigms(more))
        for way, paradigms in examined.pairs.items():
            (row,) = [row for row in one["pairs"] if row["score"] == way]
            assert row["right"] == pytest.approx(paradigms["dogs"].mean())
        kept = Evaluation.read(evaluation_file(opened, task.id))
        assert {"agreement", "questions", "dogs"} == set(next(iter(kept.pairs.values())))
        own = Evaluation.of(result.arrays)
        for way, paradigms in own.pairs.items():  # a model that is built again judges as it did when it was trained
            again = examine(trained.model, trained.tokenizer, paradigms=read_paradigms(tmp_path / "pairs"))
            for name, right in paradigms.items():
                np.testing.assert_array_equal(again.pairs[way][name], right)
    status, out, errors = run("lm", "compare", store, "--json")
    assert status == 0, errors
    (document,) = json.loads(out)["experiments"]
    (experiment,) = experiments(opened)
    table = compare(experiment)
    assert {row["test"] for row in document["tests"]} == {
        AVERAGE,
        "agreement",
        "questions",
        "dogs",
        "held out",
        "other.txt",
    }
    assert [row["value"] for row in document["tests"]] == pytest.approx(table["value"].tolist())
    assert [row["step"] for row in document["curves"]] == [0, 4, 8, 0, 4, 8]
    status, out, _ = run("lm", "compare", store, "--reference", "ssa")
    assert status == 0
    assert "reference" in out
    for words in (["--reference", "cosformer"], ["--sweep", "nothing"]):
        status, out, errors = run("lm", "compare", store, *words)
        assert (status, out, errors.count("\n")) == (2, "", 1)
    (tmp_path / "alone.toml").write_text((tmp_path / "small.toml").read_text().replace('["softmax", "ssa"]', '["ssa"]'))
    alone = load_sweep(tmp_path / "alone.toml")
    run_sweep(alone, expand(alone), Store.create(tmp_path / "alone"), Here(), Silent())
    status, out, errors = run("lm", "compare", tmp_path / "alone")
    assert (status, out) == (2, "")
    assert "one arm only" in errors


@pytest.mark.slow
@pytest.mark.parametrize("family", ["nemotron", "roberta"])
def test_a_saved_model_carries_its_score(build, tokenizer, run, zorro, tmp_path, family):
    model = build(family).eval().float()
    save(tmp_path / "model", model, tokenizer)
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES), "utf-8")
    lengths = ["--length", "8"] if family == "nemotron" else []
    words = ["lm", "eval", tmp_path / "model", "--zorro", zorro, "--text", tmp_path / "text.txt", *lengths]
    status, out, errors = run(*words, "--json")
    assert status == 0, errors
    (found,) = json.loads(out)["models"]
    examined = examine(
        model, tokenizer, paradigms=read_paradigms(zorro), texts={"t": SENTENCES}, lengths=[8] if lengths else []
    )
    expected = {(way, name): right.mean() for way, of in examined.pairs.items() for name, right in of.items()}
    assert {(row["score"], row["paradigm"]): row["right"] for row in found["pairs"]} == expected
    (text,) = examined.texts.values()
    assert found["texts"][0]["perplexity"] == pytest.approx(text.value, rel=1e-5)
    assert found["texts"][0]["unit"] == ("block" if lengths else "document")
    status, out, _ = run(*words, "--paradigm", "questions", "--most-pairs", "2")
    assert status == 0
    assert "agreement" not in out
    assert "questions" in out


def test_wrong_usage_is_one_line(build, tokenizer, run, zorro, tmp_path):
    save(tmp_path / "model", build("nemotron"), tokenizer)
    (tmp_path / "latin.txt").write_bytes("\xe9t\xe9\n".encode("latin-1"))
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "x.txt").write_text("a .\nb .\nc .\n")
    model = tmp_path / "model"
    for words, said in (
        ([model], "name pairs"),
        ([tmp_path, "--zorro", zorro], "store"),
        ([model, "--zorro", tmp_path / "nowhere"], "no such file or folder"),
        ([model, "--zorro", zorro, "--paradigm", "binding"], "has no file of that name"),
        ([model, "--zorro", tmp_path / "odd"], "two make a pair"),
        ([model, "--text", tmp_path / "latin.txt"], "isn't UTF-8"),
        ([model, "--text", tmp_path / "empty.txt"], "text"),
        ([model, "--text", tmp_path / "nowhere.txt"], "can't be read"),
    ):
        status, out, errors = run("lm", "eval", *words)
        assert (status, out, errors.count("\n")) == (2, "", 1), errors
        assert said in errors
    other = build("nemotron")
    other.resize_token_embeddings(20)
    save(tmp_path / "small", other, tokenizer)
    status, _, errors = run("lm", "eval", tmp_path / "small", "--zorro", zorro)
    assert (status, errors.count("\n")) == (2, 1)
    assert "has more tokens than the model's 20" in errors
