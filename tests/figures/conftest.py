"""Figures are tested on the numbers that they write, at the tiny preset: sweeps of seconds and few points."""

import importlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

import figures
from phasekit.drawing import plotting
from phasekit.drawing.presets import TINY

#: The one picture whose PNG and PDF are written too: that costs seconds, and is plotting's job (see test_plotting.py).
RENDERED = "landscape"


class Drawn(NamedTuple):
    """What a script wrote, and the figures it saved by file name."""

    files: list[Path]
    figures: dict[str, Figure]

    def numbers(self, name: str) -> pd.DataFrame:
        """Return the table behind a picture."""
        (path,) = (path for path in self.files if path.name == f"{name}.csv")
        return pd.read_csv(path, low_memory=False)


def script(name):
    """Import a script, wherever its chapter is."""
    (path,) = Path(figures.__file__).parent.glob(f"*/{name}.py")
    return importlib.import_module(f"figures.{path.parent.name}.{name}")


@pytest.fixture(autouse=True)
def one_thread():
    """Small arrays are fastest on one thread, and test workers share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The tiny preset, with stores of its own: each sweep runs once."""
    return replace(TINY, runs=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def drawn(tmp_path_factory, tiny):
    """Run a script at the tiny preset, once however often it is asked for; return what it wrote."""

    @cache
    def run(name):
        made = []
        render = plotting._drawn

        def keep(figure, form, metadata):
            made.append(figure)
            if name == RENDERED:
                return render(figure, form, metadata)
            figure.draw_without_rendering()
            return b""

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plotting, "_drawn", keep)
            files = script(name).main(tmp_path_factory.mktemp(name), tiny)
        stems = [path.stem for path in files if path.suffix == ".png"]
        return Drawn(files, dict(zip(stems, made[::2], strict=True)))

    return run
