"""Figures of language models, from sweeps of their names that train for a few steps on a made-up text."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("transformers")

from dataclasses import replace

from figures.language import lm_learning, lm_zorro, table_language
from figures.language._experiments import DECODER, ENCODER, experiment
from phasekit.drawing import plotting
from phasekit.drawing.presets import TINY
from phasekit.language.corpus import CACHE
from phasekit.language.text import FOLDER
from phasekit.measure.language import AVERAGE
from tests.language.conftest import PAIRS
from tests.language.texts import sentences, write

pytestmark = pytest.mark.slow

SWEEP = """
seeds = 2
group = 1
[model]
shape = {preset = "SHAPE", layers = 1, width = 16, heads = 2, hidden = 16, longest = 64}
corpus = {text = "text.txt", vocabulary = 300, held_out = 0.2}
[procedure]
name = "language"
steps = 6
batch = 4
watch_every = 3
pairs = "pairs"
most_documents = 20
LENGTHS
[[part]]
axes.score = SCORES
OTHERS
[preset.tiny]
"""
FIXED = """
[[part]]
model.score = "ssa"
model.learned = "no"
"""


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sims")
    write(folder, "text.txt", sentences(400))
    (folder / "pairs").mkdir()
    for name, pairs in (("agreement", PAIRS), ("questions", PAIRS[2:5])):
        (folder / "pairs" / f"{name}.txt").write_text("".join(f"{bad}\n{good}\n" for bad, good in pairs), "utf-8")
    for name, shape, lengths, scores, others in (
        (ENCODER, "babyberta-1m", "", '["softmax", "ssa", "temperature"]', FIXED),
        (DECODER, "decoder-1m", "lengths = [16, 32]", '["softmax", "ssa"]', ""),
    ):
        text = SWEEP.replace("SHAPE", shape).replace("LENGTHS", lengths).replace("SCORES", scores)
        (folder / f"{name}.toml").write_text(text.replace("OTHERS", others))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(folder))
        patch.setenv(CACHE, str(folder / "cache"))
        patch.setattr(plotting, "_drawn", lambda figure, form, metadata: figure.draw_without_rendering() or b"")
        yield replace(TINY, sims=folder, runs=tmp_path_factory.mktemp("runs"))
    experiment.cache_clear()


def numbers(files):
    (csv,) = (path for path in files if path.suffix == ".csv")
    return pd.read_csv(csv)


def test_learning_curves(preset, tmp_path):
    found = numbers(lm_learning.main(tmp_path, preset))
    one = experiment(preset, ENCODER)
    curves = found[(found["model"] == "encoder") & (found["what"] == "loss")]
    assert set(curves["arm"]) == {"softmax", "ssa", "temperature", "ssa (n = 1.5, b = 0.8)"}
    _, losses = one.arms["ssa"].curve("loss")
    np.testing.assert_allclose(curves[curves["arm"] == "ssa"]["loss"], losses.mean(axis=0))
    less = found[(found["model"] == "encoder") & (found["what"] == "difference")]
    assert "softmax" not in set(less["arm"])
    apart = losses - one.arms["softmax"].curve("loss")[1]
    np.testing.assert_allclose(less[less["arm"] == "ssa"]["loss"], apart.mean(axis=0))
    blocks = found[found["what"] == "by position"]
    assert set(blocks["length"]) == {16, 32}
    part = blocks[(blocks["length"] == 32) & (blocks["arm"] == "ssa")]
    texts = [one.texts["held out 32"] for one in experiment(preset, DECODER).arms["ssa"].examined.values()]
    first = np.mean([text.nats[:, 0].sum() / text.tokens[:, 0].sum() for text in texts])
    assert part["loss"].iloc[0] == pytest.approx(first)
    assert part["position"].tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 24]


def test_pairs_of_each_paradigm(preset, tmp_path):
    found = numbers(lm_zorro.main(tmp_path, preset))
    assert set(found["test"]) == {AVERAGE, "agreement", "questions"}
    assert set(found["way"]) == {"mean_cross_entropy", "pseudo_log_likelihood", "log_likelihood"}
    assert len(found) == 3 * (2 * 4 + 2)
    row = found[(found["way"] == "log_likelihood") & (found["test"] == "agreement") & (found["arm"] == "ssa")].iloc[0]
    right = [
        one.pairs["log_likelihood"]["agreement"] for one in experiment(preset, DECODER).arms["ssa"].examined.values()
    ]
    assert row["value"] == pytest.approx(np.mean(right))


def test_tables(preset, tmp_path):
    csv, md = table_language.main(tmp_path, preset)
    found = pd.read_csv(csv)
    assert set(found["verdict"]) <= {"reference", "lower", "higher", "no difference that these seeds can show"}
    text = md.read_text("utf-8")
    for title in ("encoder: Zorro by pseudo log likelihood", "encoder: texts", "decoder: Zorro by log likelihood"):
        assert f"## {title}" in text
