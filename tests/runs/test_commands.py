"""The commands on a run store, as a user types them."""

import json
import os
import re
import signal
import socket
import time

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from phasekit import cli
from phasekit.runs.store.collect import collect
from phasekit.runs.store.status import look

SWEEP = """
about = "small networks"
seeds = 2
group = 2
[model]
V = 4
score = "softmax"
[axes]
L = [6, 8]
P = [20, 30]
[procedure]
name = "adam"
steps = 30
[preset.full]
seeds = 3
"""


@pytest.fixture
def command(capsys):
    """Run a command in this process; return exit status, output and what went to standard error."""

    def go(*arguments):
        capsys.readouterr()
        status = cli.run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return go


@pytest.fixture
def sweep(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SWEEP)
    return path


@pytest.fixture
def store(run):
    """A store of 20 finished probes."""

    def make(written, **options):
        _, store, _ = run(written, **options)
        return store

    return make


@pytest.mark.slow
def test_a_sweep_from_its_file_to_its_table(command, sweep, tmp_path):
    folder = tmp_path / "store"
    status, out, _ = command("run", sweep, "--store", folder, "--dry-run", "--json")
    document = json.loads(out)
    assert (status, document["tasks"], document["done"], document["missing"]) == (0, 8, 0, 8)
    assert document["seconds"] > 0
    assert not folder.exists(), "a dry run leaves nothing"

    status, out, err = command("run", sweep, "--store", folder, "--jobs", 1, "--json")
    document = json.loads(out)
    assert (status, document["tasks"], document["done_now"], document["failed"]) == (0, 8, 8, 0)
    assert "8 tasks, 0 done before; 1 local processes" in err, "plain lines where nobody watches a bar"

    status, out, _ = command("status", folder, "--json")
    document = json.loads(out)
    assert (status, document["tasks"], document["done"], document["running"]) == (0, 8, 8, 0)
    assert document["sweeps"] == [
        {"sweep": "small", "preset": "quick", "tasks": 8, "done": 8, "failed": 0, "broken": 0, "missing": 0}
    ]
    assert document["rate"] == pytest.approx(8 / 60)

    tables = {}
    for suffix in (".csv", ".parquet", ".nc"):
        status, out, _ = command("collect", folder, "--out", tmp_path / f"all{suffix}", "--json")
        assert (status, json.loads(out)["rows"]) == (0, 16)
    tables = [pd.read_csv(tmp_path / "all.csv"), pd.read_parquet(tmp_path / "all.parquet")]
    for table in tables:
        assert len(table) == 16
        assert {"task", "V", "L", "P", "data_seed", "start", "U", "aG", "fate", "theory_U", "theory_aG"} <= set(table)
    np.testing.assert_array_equal(tables[0]["U"], tables[1]["U"])
    with xr.open_dataset(tmp_path / "all.nc", engine="h5netcdf") as data:
        assert dict(data.sizes) == {"task": 8, "member": 2}
        assert data.theory_U.dims == ("task",)
        np.testing.assert_array_equal(data.U.values.ravel(), tables[0]["U"])

    status, out, _ = command("run", sweep, "--store", folder, "--preset", "full", "--jobs", 1, "--json")
    assert (status, json.loads(out)["done_before"], json.loads(out)["done_now"]) == (0, 8, 4)
    status, out, _ = command("collect", folder, "--sweep", "small:quick", "--out", tmp_path / "q.csv", "--json")
    assert json.loads(out)["tasks"] == 8


def test_too_few_seeds_to_measure_are_told_before_the_work(command, sweep):
    _, _, err = command("run", sweep, "--dry-run", "--json")
    assert "seeds" not in err
    sweep.write_text(SWEEP.replace("seeds = 2", 'seeds = 2\nmeasure = "P_star"'))
    _, _, err = command("run", sweep, "--dry-run", "--json")
    assert err == "note: 2 seeds, but `phasekit measure` needs at least 3 data sets\n"
    _, _, err = command("run", sweep, "--preset", "full", "--dry-run", "--json")
    assert err == ""


def test_failures_are_shown_and_make_the_status_1(command, store, written):
    made = store(written(failing=[2]))
    status, out, _ = command("status", made.path)
    assert status == 1
    assert "ArithmeticError" in out
    assert "is not liked" in out
    document = json.loads(command("status", made.path, "--json")[1])
    assert (document["done"], document["failed"], document["missing"]) == (16, 4, 0)


def test_status_counts_whom_it_can_see_at_work(store, written):
    made = store(written())
    now = time.time()
    claims = {
        "alive": {"host": socket.gethostname(), "pid": os.getpid(), "since": now},
        "dead": {"host": socket.gethostname(), "pid": 2**22 + 1, "since": now},
        "elsewhere": {"host": "another machine", "pid": 1, "since": now},
    }
    for name, owner in claims.items():
        (made.claims / name).write_text(json.dumps(owner))
    (made.claims / "half-written").write_text("{")
    before = sorted(made.claims.iterdir())
    assert look(made).running == 2
    assert sorted(made.claims.iterdir()) == before, "looking changes nothing"


def test_remaining_time_follows_from_the_rate_of_the_last_minute(store, written):
    made = store(written())
    victims = sorted(made.names())[:8]
    for name in victims:
        made.set_aside(name)
    for name in sorted(made.names())[:6]:
        os.utime(made.workspace / name, (0, time.time() - 3600))
    found = look(made)
    assert (found.done, found.missing) == (12, 8)
    assert found.rate == pytest.approx(6 / 60)
    assert found.remaining == pytest.approx(80)


def test_broken_results_are_reported_collected_around_and_repaired(command, store, written, tmp_path):
    made = store(written())
    first, second = sorted(made.names())[:2]
    (made.workspace / first / "result.npz").write_bytes(b"short")
    (made.workspace / "notes.txt").write_text("mine")
    status, out, err = command("collect", made.path, "--out", tmp_path / "x.csv", "--no-theory", "--json")
    assert status == 1
    assert json.loads(out)["tasks"] == 19
    assert first in json.loads(out)["broken"]
    assert "phasekit repair" in err

    status, out, err = command("status", made.path, "--json")
    found = json.loads(out)
    assert (status, found["done"], found["broken"], found["missing"]) == (1, 19, 1, 0)
    assert "phasekit repair" in err

    (made.plans / "0001.json").write_text("damaged")
    assert command("status", made.path)[0] == 2
    places = {first, "notes.txt", "plans/0001.json"}
    status, out, _ = command("repair", made.path, "--dry-run", "--json")
    assert (status, set(json.loads(out)["broken"]), json.loads(out)["moved"]) == (1, places, {})
    status, out, _ = command("repair", made.path)
    assert status == 0
    assert "3 broken" in out
    assert command("status", made.path, "--json")[0] == 0
    assert made.has(second)
    assert not made.has(first)
    assert len(list((made.path / "broken").iterdir())) == 3
    assert command("repair", made.path, "--dry-run")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "nowhere"], ["no run store"]),
        (["collect", "STORE", "--out", "x.txt"], ["out = 'x.txt'", ".nc"]),
        (["collect", "STORE", "--out", "x.csv", "--sweep", "other"], ["sweep = 'other'", "probes:None"]),
        (["run", "SWEEP", "--backend", "ray"], ["backend = 'ray'", "local, dask"]),
        (["run", "SWEEP", "--device", "tpu"], ["device = 'tpu'", "cpu, cuda, auto"]),
        (["run", "SWEEP", "--preset", "slow"], ["preset = 'slow'", "quick, medium, full"]),
        (["run", "SWEEP", "--backend", "dask"], ["scheduler", "missing"]),
        (["run", "SWEEP", "--scheduler", "tcp://x"], ["goes with --backend dask"]),
        (["run", "SWEEP", "--jobs", "0"], ["jobs = 0", "at least 1"]),
        (["run", "SWEEP", "--threads", "0"], ["threads = 0", "at least 1"]),
        (["run", "SWEEP", "--jobs", "-1", "--dry-run"], ["jobs = -1", "at least 1"]),
        (["run", "SWEEP", "--threads", "0", "--dry-run"], ["threads = 0", "at least 1"]),
        (["run", "SWEEP", "--backend", "dask", "--scheduler", "tcp://127.0.0.1:1", "--jobs", "2"], ["jobs = 2"]),
        (["run", "nowhere.toml"], ["can't be read"]),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    command, store, written, sweep, tmp_path, arguments, words, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    made = store(written(seeds=1))
    before = sorted(tmp_path.iterdir())
    status, out, err = command(*({"STORE": made.path, "SWEEP": sweep}.get(word, word) for word in arguments))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_missing_dask_is_said_before_anything_else(command, tmp_path, monkeypatch, dry):
    monkeypatch.setattr("phasekit.extras.find_spec", lambda module: None if module == "distributed" else 1)
    status, _, err = command(
        "run", tmp_path / "not_even_there.toml", "--backend", "dask", "--scheduler", "tcp://x", *dry
    )
    assert (status, err.count("\n")) == (2, 1)
    assert "pip install 'phasekit[cluster]'" in err


def test_sequences_that_nobody_could_store_are_refused_in_a_dry_run(command, sweep, tmp_path):
    sweep.write_text(re.sub(r"P = .*", "P = [1e18]", sweep.read_text()))
    status, _, err = command("run", sweep, "--dry-run")
    assert status == 2
    assert "don't fit into memory" in err


def test_an_interrupt_reaches_a_run_in_the_background_of_a_script(command, sweep):
    """Shells let such processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        command("run", sweep, "--preset", "slow")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_all_mistakes_of_a_file_are_printed(command, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(SWEEP.replace("seeds = 2", "seeds = 0").replace('"adam"', '"adm"'))
    status, _, err = command("run", path)
    assert status == 2
    assert err.count("error: ") == 2


def test_an_empty_store_has_nothing_to_collect(command, tmp_path):
    from phasekit.runs.store.store import Store

    store = Store.create(tmp_path / "store")
    status, _, err = command("collect", store.path, "--out", tmp_path / "x.csv")
    assert (status, "holds no finished task" in err) == (2, True)


def test_columns_do_not_depend_on_what_was_run_first(store, written):
    made = store(written())
    table = collect(made, theory=False).table
    assert table["task"].nunique() == 20
    assert table.equals(table.sort_values(["L", "P", "data_seed", "number"]).reset_index(drop=True))
