"""A procedure of one's own, added as docs/runs.md says and nowhere else, has everything that the others have."""

import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.heads import onset_ratio
from phasekit.model import Model
from phasekit.runs.procedures import get_procedure
from phasekit.runs.store.collect import collect
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import SweepErrors, load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from phasekit.tasks.copy import draw_dataset
from tests.runs.probes import Here

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")
SECTION = re.split(r"^## ", PAGE, flags=re.MULTILINE)[[*re.findall(r"^## (.*)", PAGE, flags=re.MULTILINE)].index(
    "Your own procedure") + 1]  # fmt: skip
(CODE,), (SWEEP,) = (re.findall(rf"```{kind}\n(.*?)```", SECTION, flags=re.DOTALL) for kind in ("python", "toml"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder with the two files of the page."""
    (tmp_path / "onset.py").write_text(CODE)
    (tmp_path / "onset.toml").write_text(SWEEP)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("onset", None)


def test_it_runs_and_is_collected(folder):
    sweep = load_sweep(folder / "onset.toml", "quick")
    store, tasks = Store.create(folder / "store"), expand(sweep)
    assert run_sweep(sweep, tasks, store, Here(), Silent()).status == 0
    assert run_sweep(sweep, tasks, store, Here(), Silent()).done == 0, "what is finished is not done again"
    table = collect(store, theory=False).table
    assert len(table) == 2 * 2 * 3
    row = table[(table["P"] == 40) & (table["data_seed"] == 1) & (table["share"] == 0.25)].iloc[0]
    assert row["procedure"] == "onset:DataOnset"
    np.testing.assert_allclose(row["ratio"], onset_ratio(draw_dataset(Model(V=4, L=8, P=10, score="linear"), 1)))


def test_it_reaches_workers_and_comes_back_from_its_description(folder):
    task = expand(load_sweep(folder / "onset.toml", "quick"))[0]
    assert pickle.loads(pickle.dumps(task)) == task
    assert get_procedure(task.procedure.describe()) == task.procedure


def test_its_mistakes_are_one_line(folder):
    with pytest.raises(InputError, match=r"power = 0: must be a finite number above 0"):
        load_sweep(folder / "onset.toml", "quick").procedure.at(power=0)
    (folder / "onset.toml").write_text(SWEEP.replace("linear", "softmax"))
    with pytest.raises(SweepErrors, match="only linear attention has an onset"):
        expand(load_sweep(folder / "onset.toml", "quick"))


def test_a_store_does_not_import_it(folder):
    with pytest.raises(InputError, match="isn't loaded"):
        get_procedure({"name": "onset:DataOnset"})
    assert "onset" not in sys.modules


@pytest.mark.parametrize("name", [".:X", ":Foo", "onset:", "onset:nothing", "onset:Field", "nowhere:X", "", 3, None])
def test_names_that_are_none_are_one_line(folder, name):
    (folder / "onset.toml").write_text(
        SWEEP.replace('"onset:DataOnset"', f'"{name}"' if isinstance(name, str) else "3")
    )
    with pytest.raises(SweepErrors, match="procedure") as refused:
        load_sweep(folder / "onset.toml", "quick")
    assert len(refused.value.mistakes) == 1


def test_the_page_names_every_procedure():
    from phasekit.runs.procedures import PROCEDURES

    table = PAGE.split("| procedure | what it does")[1].split("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z]+)`", row.split("|")[1])}
    assert named == set(PROCEDURES.names())
