"""The page on in-context tasks is executed, and the task that it adds works."""

import re
from pathlib import Path

import numpy as np
import pytest

from phasekit.tasks.in_context import TASKS, Shift, build_task

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "in_context.md").read_text(encoding="utf-8")
TASK_SECTIONS = PAGE.split("## Tasks")[1]
USE, ADD = re.findall(r"```python\n(.*?)```", TASK_SECTIONS, flags=re.DOTALL)[:2]


@pytest.fixture
def page(monkeypatch):
    """What the page defines; what it registers is forgotten afterwards."""
    monkeypatch.setattr(TASKS, "_known", dict(TASKS._known))
    namespace = {"__name__": "page"}
    for snippet in (USE, ADD):
        exec(snippet, namespace)
    return namespace


def test_the_table_names_every_task():
    table = TASK_SECTIONS.split("|---|")[1]
    rows = [row.split("|")[1] for row in TASK_SECTIONS.splitlines() if row.startswith("| `")]
    assert table
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} >= set(TASKS.names())


def test_what_the_page_computes(page):
    assert page["prompts"].tokens.shape == (64, 21, 1)
    assert page["least_squares"].max() < 1e-9


def test_the_added_task_works(page):
    task = build_task("waves", dimension=2)
    prompts = task.draw("test", 0, 0, 50, Shift(points=6))
    errors = task.errors(prompts, task.optimal(prompts))
    assert errors[:, 2:].max() < 1e-6
    assert np.isfinite(errors).all()


def test_the_page_leaves_the_registry_alone():
    assert "waves" not in TASKS.names()
