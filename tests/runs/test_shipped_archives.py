"""The archives in sims/archive are whole, small, and of the sweeps as they are today."""

from pathlib import Path

import pytest

from phasekit.runs.archive.file import archive_of, read_archive
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.sweeps.expand import expand

SIMS = Path(__file__).resolve().parents[2] / "sims"
FILES = sorted((SIMS / "archive").glob("*.nc"))


def test_they_are_small_together():
    assert sum(file.stat().st_size for file in FILES) <= 30e6


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_archive_holds_what_its_sweep_asks_for(file):
    name, preset, _ = file.name.split(".")
    sweep = load_sweep(SIMS / f"{name}.toml", preset)
    assert archive_of(sweep.source, preset) == file
    archive = read_archive(file)
    assert (archive.sweep, archive.preset) == (name, preset)
    assert archive.tasks.keys() <= {task.id for task in expand(sweep, archive.thresholds)}
    for task in archive.tasks.values():
        assert task.record["seconds"] > 0
        assert task.record["phasekit"]
        assert not {"host", "pid"} & task.record.keys()
