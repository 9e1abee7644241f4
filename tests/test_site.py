"""The documentation site builds without a warning, runs its notebooks, and knows every public module."""

import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import phasekit

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; the pages are copied first, because Sphinx writes the reference beside them."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    for part in ("docs", "phasekit", "derivations"):
        ignored = shutil.ignore_patterns("api", "__pycache__")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "docs", "site"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # notebooks call phasekit
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "site"


@pytest.mark.slow
def test_every_page_is_there_and_no_link_leads_nowhere(site):
    for page in DOCS.glob("**/*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()
    broken = []
    for page in site.glob("**/*.html"):
        text = page.read_text("utf-8")
        for link in re.findall(r'(?:href|src)="([^"#?]+)', text):
            local = not re.match(r"[a-z]+:|//|/", link)
            if local and not (page.parent / link).exists():
                broken.append((page.name, link))
    assert not broken


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site):
    pages = "".join((site / name).read_text("utf-8") for name in ("index.html", "theory.html", "scores.html"))
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://[^"]+"', pages)


@pytest.mark.slow
def test_every_public_module_is_in_the_reference(site):
    reference = "".join(page.read_text("utf-8") for page in (site / "api").glob("*.html"))
    modules = [
        module.name
        for module in pkgutil.walk_packages(phasekit.__path__, "phasekit.")
        if not re.search(r"\.(_\w+|generated\b.*)", module.name)
    ]
    assert len(modules) > 150
    assert [name for name in modules if f"module-{name}" not in reference] == []
    for name in phasekit.__all__:
        assert f"{getattr(phasekit, name).__module__}.{name}" in reference


@pytest.mark.slow
def test_notebooks_show_pictures(site):
    for name, pictures in (("phase_diagram", 2), ("theory_and_networks", 1)):
        assert (site / "notebooks" / f"{name}.html").read_text("utf-8").count("<img") >= pictures


def test_the_glossary_names_what_the_code_has():
    names = re.findall(r"^\| [^|]* \| `(\w+)` \|", (DOCS / "glossary.md").read_text("utf-8"), flags=re.MULTILINE)
    known = set(phasekit.Model.model_fields) | set(phasekit.find_minima(phasekit.Model(V=4, L=8, P=9)).to_xarray())
    known |= set(phasekit.find_minima(phasekit.Model(V=4, L=8, P=9, score="linear")).order_parameters)
    elsewhere = {
        "A",
        "W",
        "G",
        "averages",
        "estimator",
        "spinodals",
        "P1",
        "P2",
        "P_star",
        "P_x",
        "delta",
        "front",
        "lam",
    }
    assert set(names) <= known | elsewhere
