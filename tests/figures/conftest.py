"""Figures are tested on trainings of seconds and few points (see small.py); every script runs once."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from matplotlib.figure import Figure

from figures import _cache, _ensembles
from phasekit.drawing import plotting
from tests.figures import small

#: The one picture whose PNG and PDF are written too: that costs seconds, and is plotting's job (see test_plotting.py).
RENDERED = "landscape"


class Drawn(NamedTuple):
    """What a script wrote, and the figures it saved by file name."""

    files: list[Path]
    figures: dict[str, Figure]


@pytest.fixture(autouse=True)
def one_thread():
    """Small arrays are fastest on one thread, and test workers share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Where trained networks are kept during the tests: each is trained once."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def drawn(tmp_path_factory, runs):
    """Run a script with small settings, once however often it is asked for; return what it wrote."""

    @cache
    def run(name):
        figures = {}

        def keep(figure, table, stem):
            figures[stem.name] = figure
            if name == RENDERED:
                return plotting.save(figure, table, stem)
            with plotting.style():
                figure.draw_without_rendering()
            csv = stem.with_name(f"{stem.name}.csv")
            plotting._as_frame(table).to_csv(csv, index=False)
            return [csv]

        with pytest.MonkeyPatch.context() as patch:
            make_small(patch, runs)
            if hasattr(small.SCRIPTS[name], "save"):
                patch.setattr(small.SCRIPTS[name], "save", keep)
            files = small.SCRIPTS[name].main(tmp_path_factory.mktemp(name), "quick")
        return Drawn(files, figures)

    return run


@pytest.fixture
def tiny(monkeypatch, runs):
    """Let the figures train next to nothing and compute few points."""
    make_small(monkeypatch, runs)


def make_small(patch, runs):
    patch.setattr(_cache, "FOLDER", runs)
    for name, training in small.TRAININGS.items():
        patch.setattr(_ensembles, name, lambda preset, training=training: training)
    patch.setattr(_ensembles, "limits", lambda preset: small.LIMITS)
    patch.setattr(_ensembles, "SHOWN_DRAWS", {"quick": 2})
    for script, attributes in small.POINTS.items():
        for name, value in attributes.items():
            patch.setattr((small.SCRIPTS | small.HELPERS)[script], name, value)
