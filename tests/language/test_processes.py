"""Several processes, through accelerate: the same weights as one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phasekit.errors import InputError
from phasekit.language import LanguageModel, Shape, prepare, train_language
from phasekit.language.corpus import CACHE
from phasekit.transformers import Training
from tests.language.texts import sentences, write

pytest.importorskip("accelerate")

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"steps": 4, "batch": 6, "precision": "float64", "clip": 0.5}
SCRIPT = """
import json, sys
import torch
from accelerate import Accelerator
from phasekit.language import LanguageModel, train_language
from phasekit.transformers import Training
subject, settings, out = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
accelerator = Accelerator(cpu=True)
assert accelerator.num_processes == 2
model, history = train_language(LanguageModel(**subject), Training(**settings), seed=2, accelerator=accelerator)
if accelerator.is_main_process:
    torch.save([p.detach() for p in model.parameters()], out)
"""


@pytest.fixture
def subject(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    text = str(write(tmp_path, "text.txt", sentences(300)))

    def make(family):
        shape = Shape(family=family, layers=1, heads=2, width=16, hidden=16, longest=64)
        corpus = {"text": text, "vocabulary": 300, "held_out": 0.1}
        found = LanguageModel(corpus=corpus, shape=shape, score="ssa")
        prepare(found.corpus)
        return found

    return make


@pytest.mark.slow
@pytest.mark.parametrize("family", [pytest.param("nemotron", marks=pytest.mark.nightly), "babyberta"])
def test_two_processes_train_the_network_of_one(subject, tmp_path, family):
    """Masked sentences have different numbers of places that count, so the average of two means would be another."""
    own = subject(family)
    script, out = tmp_path / "script.py", tmp_path / "weights.pt"
    script.write_text(SCRIPT)
    words = [json.dumps(own.describe()), json.dumps(SETTINGS), str(out)]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launch, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    model, _ = train_language(own, Training(**SETTINGS), seed=2)
    for alone, together in zip(model.parameters(), torch.load(out), strict=True):
        assert (alone - together).abs().amax() < 1e-7


def test_a_batch_has_a_row_for_each_process(subject):
    class Three:
        process_index, num_processes, device = 0, 3, torch.device("cpu")

    with pytest.raises(InputError, match="must be at least 3"):
        train_language(subject("nemotron"), Training(steps=1, batch=2), accelerator=Three())
    with pytest.raises(InputError, match="neither save checkpoints nor watch"):
        train_language(subject("nemotron"), Training(steps=1), accelerator=Three(), watch_every=1)
