"""The procedure ``language``: through the runner into a store, and out of it as one row a test."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.language.corpus import CACHE
from phasekit.language.evaluation import Evaluation
from phasekit.language.text import FOLDER
from phasekit.runs.archive.file import Archive, read_archive, write_archive
from phasekit.runs.procedures import get_procedure
from phasekit.runs.store.collect import collect
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from tests.language.texts import sentences, write
from tests.runs.probes import Here

SWEEP = """
seeds = 2
group = 1
[model]
shape = {preset = "KIND-1m", layers = 1, width = 16, heads = 2, hidden = 16, longest = 96}
corpus = {text = "text.txt.gz", vocabulary = 300, held_out = 0.1}
[axes]
score = ["softmax", "ssa"]
[procedure]
name = "language"
steps = 12
batch = 8
watch_every = 6
pairs = "pairs"
texts = [{source = "more/other.jsonl"}]
most_documents = 20
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, zorro):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    write(tmp_path, "text.txt.gz", sentences(500))
    (tmp_path / "more").mkdir()
    write(tmp_path / "more", "other.jsonl", [f"{line} again" for line in sentences(300, seed=1)])
    (tmp_path / "pairs").symlink_to(zorro)
    return tmp_path


@pytest.fixture
def run(folder):
    def compute(kind, extra=""):
        (folder / "s.toml").write_text(SWEEP.replace("KIND", kind) + extra)
        sweep = load_sweep(folder / "s.toml")
        store, tasks = Store.create(folder / "store"), expand(sweep)
        return store, tasks, run_sweep(sweep, tasks, store, Here(), Silent())

    return compute


@pytest.mark.parametrize(
    ("kind", "extra", "texts", "ways"),
    [
        ("babyberta", "", 2, {"mean_cross_entropy", "pseudo_log_likelihood"}),
        ("decoder", "lengths = [16, 32]\n", 6, {"log_likelihood"}),
    ],
)
def test_a_sweep_gives_one_row_a_test(run, kind, extra, texts, ways):
    store, tasks, summary = run(kind, extra)
    assert summary.status == 0, summary.failed
    found = collect(store)
    table = found.table
    assert len(tasks) == 4
    assert len(table) == 4 * (texts + 2 * len(ways))
    assert set(table["way"]) == {"", *ways}
    on_text = table[table["way"] == ""]
    assert (on_text["loss_low"] < on_text["loss"]).all()
    assert (on_text["loss"] < on_text["loss_high"]).all()
    assert on_text["accuracy"].isna().all()
    on_pairs = table[table["way"] != ""]
    assert set(on_pairs["test"]) == {"agreement", "questions"}
    assert on_pairs["accuracy"].between(0, 1).all()
    arrays = next(iter(found.arrays.values()))
    examined = Evaluation.of(arrays)
    assert set(examined.pairs) == ways
    assert len(examined.texts) == texts
    assert len(arrays["watched_at"]) == len(arrays["watched_loss"]) == 3


def test_an_archive_holds_what_was_examined(run, tmp_path):
    """With names of texts that have a folder, which netCDF would take for a group's."""
    store, _, _ = run("babyberta")
    finished = {name: store.load(name) for name in sorted(store.names())}
    file, kept = tmp_path / "s.full.nc", ("right *", "text *", "watched*", "loss")
    write_archive(Archive("s", "full", tasks=finished), file, kept)
    again = read_archive(file).tasks
    for name, task in finished.items():
        own, other = Evaluation.of(task.arrays), Evaluation.of(again[name].arrays)
        assert own.pairs.keys() == other.pairs.keys()
        for way, paradigms in own.pairs.items():
            for paradigm, right in paradigms.items():
                np.testing.assert_array_equal(right, other.pairs[way][paradigm])


def test_what_is_archived_needs_no_text(run, folder):
    """And what isn't says so before any work."""
    store, tasks, _ = run("babyberta")
    (folder / "text.txt.gz").unlink()
    sweep = load_sweep(folder / "s.toml")
    assert run_sweep(sweep, expand(sweep), store, Here(), Silent()).status == 0
    with pytest.raises(InputError, match=r"text = .*can't be read"):
        run_sweep(sweep, tasks, Store.create(folder / "another"), Here(), Silent())


@pytest.mark.parametrize(
    ("change", "message"),
    [({"pairs": "nothing"}, "no such file or folder"), ({"texts": [{"source": "nothing.txt"}]}, "can't be read")],
)
def test_a_text_or_pairs_that_are_missing_are_named(run, folder, change, message):
    _, tasks, _ = run("babyberta")
    procedure = get_procedure({**tasks[0].procedure.describe(), **change})
    with pytest.raises(InputError, match=message):
        procedure.require(tasks[0].model)


def test_encoders_have_no_blocks(run):
    _, tasks, _ = run("babyberta")
    with pytest.raises(InputError, match="sentences, not blocks"):
        tasks[0].procedure.at(lengths=(16,)).check(tasks[0].model)
    model = tasks[0].model
    with pytest.raises(InputError, match="must be above 0"):
        tasks[0].procedure.check(model.at(corpus=model.corpus.at(held_out=0.0)))
