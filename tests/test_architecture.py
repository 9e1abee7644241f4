"""Imports go one way, from the storeys below to those above, and an installed phasekit is one package."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.structure import House

ROOT = Path(__file__).resolve().parents[1]
HOUSE = House(ROOT)
#: From the ground up (see ARCHITECTURE.md). A room may import from storeys below its own, and from nothing else.
STOREYS = (
    ("scores", "encodings", "masks", "tokens"),
    ("model", "derivations", "attention"),
    ("theory", "tasks", "saturation"),
    ("heads", "transformers"),
    ("samplers", "language"),
    ("evidence",),
    ("runs",),
    ("measure",),
    ("drawing", "explorer"),
    ("cli",),
)


def test_every_folder_has_its_storey():
    folders = {path.parent.name for path in (ROOT / "phasekit").glob("*/__init__.py")}
    assert folders == {room for storey in STOREYS for room in storey}


@pytest.mark.slow
def test_imports_go_down():
    storey = {room: number for number, rooms in enumerate(STOREYS) for room in rooms}
    ground = -1  # files that lie directly in phasekit/
    upward = [
        f"{room} imports {other}"
        for room, others in HOUSE.imports.items()
        for other in others
        if (storey.get(room, ground) <= storey.get(other, ground)) and not (room not in storey and other not in storey)
    ]
    assert not upward


def test_no_circle_of_imports():
    assert HOUSE.circles == 0


def test_no_function_is_there_for_tests_only():
    assert HOUSE.tested_only == []


def test_a_house_is_read_as_it_stands(tmp_path):
    package = tmp_path / "phasekit"
    (package / "upper").mkdir(parents=True)
    (package / "ground.py").write_text("def called():\n    return 1\n\n\ndef uncalled():\n    return 2\n")
    (package / "upper" / "__init__.py").write_text("from phasekit import other\nfrom phasekit.ground import called\n")
    (package / "upper" / "room.py").write_text(
        "found = called()\nt = P * sigma_w**2 / (kappa * V)\nP = found['P_star']\nfrom phasekit.ground import called\n"
    )
    (package / "other").mkdir()
    (package / "other" / "__init__.py").write_text("from phasekit.upper.room import found\n")
    house = House(tmp_path)
    assert house.imports == {"ground": set(), "upper": {"ground", "other"}, "other": {"upper"}}
    assert house.circles == 2
    assert house.tested_only == ["phasekit/ground.py:uncalled"]
    assert house.strengths == ["phasekit/upper/room.py:2"]
    assert house.keys == ["phasekit/upper/room.py:3"]


@pytest.mark.slow
def test_a_wheel_holds_one_package_and_no_link(tmp_path):
    source = tmp_path / "source"  # building leaves files behind
    shutil.copytree(ROOT / "phasekit", source / "phasekit", symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 2e6
    with zipfile.ZipFile(wheel) as archive:
        names = [entry.filename for entry in archive.infolist()]
        assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"phasekit"}
        assert not [entry.filename for entry in archive.infolist() if entry.external_attr >> 28 == 0o12]  # links
    assert {
        "phasekit/py.typed",
        "phasekit/drawing/style.mplstyle",
        "phasekit/derivations/steps.py",
        "phasekit/explorer/explorer.html",
    } <= set(names)
