"""Files appear whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phasekit.errors import InputError
from phasekit.files import atomic, output_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_half(target, failure):
    with atomic(target) as temporary:
        temporary.write_text("half")
        raise failure


def test_a_file_appears_whole(tmp_path):
    target = tmp_path / "deep" / "er" / "table.csv"
    with atomic(target) as temporary:
        assert temporary.suffix == ".csv"
        assert temporary.parent == target.parent
        temporary.write_text("1,2\n")
        assert not target.exists()
    assert target.read_text() == "1,2\n"
    assert names(target.parent) == ["table.csv"]


def test_a_failure_leaves_nothing_new_and_the_old_file(tmp_path):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("kept")
    for target in (old, new):
        with pytest.raises(RuntimeError, match="half-way"):
            write_half(target, RuntimeError("half-way"))
    assert names(tmp_path) == ["old.csv"]
    assert old.read_text() == "kept"


def test_an_interrupt_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "a.csv", KeyboardInterrupt())
    assert names(tmp_path) == []


def test_an_existing_file_is_replaced(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")
    with atomic(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.csv"]


def test_data_reach_the_disk_before_the_name_does(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append("fsync") or fsync(fd))
    monkeypatch.setattr(os, "replace", lambda a, b: calls.append("replace") or replace(a, b))
    with atomic(tmp_path / "a.csv") as temporary:
        temporary.write_text("x")
    assert calls == ["fsync", "replace"]


def test_permissions_follow_the_umask(tmp_path):
    mask = os.umask(0o027)
    try:
        with atomic(tmp_path / "a.csv") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(mask)
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o640


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for refuse in (lambda: output_folder(tmp_path / "file"), lambda: atomic(tmp_path / "file" / "a.csv").__enter__()):
        with pytest.raises(InputError, match=r"output folder.*can't be written to"):
            refuse()


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        atomic(tmp_path).__enter__()


def test_a_folder_that_forbids_writing_is_refused(monkeypatch, tmp_path):
    # Root may write anywhere, so the system's refusal is imitated rather than provoked.
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        output_folder(tmp_path)
    monkeypatch.undo()
    assert names(tmp_path) == []


def test_a_new_file_never_changes_the_mask_of_the_process(tmp_path, monkeypatch):
    """Other threads would create files that everybody may write, for an instant."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask was set"))
    with atomic(tmp_path / "a.csv") as temporary:
        temporary.write_text("x")


@pytest.mark.parametrize("there", [True, False])
def test_the_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path, there):
    disk, link = tmp_path / "disk", tmp_path / "a.csv"
    disk.mkdir()
    if there:
        (disk / "b.csv").write_text("old")
    link.symlink_to("disk/b.csv")
    with atomic(link) as temporary:
        assert temporary.parent == disk
        temporary.write_text("new")
    assert link.is_symlink()
    assert (disk / "b.csv").read_text() == "new"
    assert names(disk) == ["b.csv"]


def test_devices_pipes_and_circles_of_links_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "circle.csv").symlink_to("circle.csv")
    for name in ("pipe.csv", "circle.csv", "/dev/null"):
        with pytest.raises(InputError, match="must be a file"):
            atomic(tmp_path / name).__enter__()
    assert names(tmp_path) == ["circle.csv", "pipe.csv"]


@pytest.mark.slow
def test_a_full_disk_while_netcdf_is_written_is_an_error_of_the_system():
    """HDF5 itself would end the process with a segmentation fault."""
    code = """
import resource, sys, tempfile
import numpy as np, xarray as xr
from phasekit.files import write_netcdf
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
data = xr.Dataset({"x": ("i", np.random.default_rng(0).random(5000))})
with tempfile.TemporaryDirectory() as folder:
    for one in (data, xr.DataTree.from_dict({"/": data, "/group": data})):
        try:
            write_netcdf(one, folder + "/deep/a.nc")
        except OSError as error:
            print(error.strerror)
    import os
    print(os.listdir(folder + "/deep"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "File too large\nFile too large\n[]\n"), done.stderr


def test_nothing_else_writes_netcdf():
    root = Path(__file__).resolve().parents[1]
    sources = [path for folder in ("phasekit", "figures") for path in (root / folder).rglob("*.py")]
    assert [path.name for path in sources if ".to_netcdf(" in path.read_text()] == ["files.py"]
