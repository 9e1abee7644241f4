"""Sphinx settings of the documentation site: `make site` builds it into build/site, offline."""

import re
import shutil
from pathlib import Path

import phasekit
from phasekit.explorer import PAGE

ROOT = Path(__file__).resolve().parents[1]

project = "phasekit"
author = "the phasekit developers"
project_copyright = author
version = release = phasekit.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.apidoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["images"]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}

myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline", "deflist"]
myst_heading_anchors = 3
# Pages read well beside the source, too: links to source files are links there.
myst_url_schemes = ("http", "https", "mailto")
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
bibtex_bibfiles = ["references.bib"]

# One page for each room; files that the derivations emit are code to read, not to call.
apidoc_modules = [
    {
        "path": "../phasekit",
        "destination": "api",
        "exclude_patterns": ["**/generated/*", "**/__main__.py"],
        "max_depth": 1,
        "separate_modules": False,
        "include_private": False,
        "no_headings": False,
        "module_first": True,
    }
]
toc_object_entries = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True, "ignore-module-all": True}
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"phasekit {release}"
html_extra_path: list[str] = []
html_theme_options = {"top_of_page_buttons": []}
# "shape" and "path" are words in a docstring, and attributes of several classes: such words link nowhere.
suppress_warnings = ["config.cache", "ref.python"]


#: Code, and emphasis: what stands between is plain words, in which | and * are signs of mathematics.
_MARKUP = re.compile(r"(``.+?``|`.+?`|(?<![\w*])\*[^*\s][^*]*[^*\s]\*(?![\w*])|^\*\*\w+(?=$| :))")


def setup(app):
    """Take docstrings as the plain text that they are, and put the explorer beside the pages."""
    app.connect("autodoc-process-docstring", _escape, priority=100)
    app.connect("build-finished", _add_explorer)


def _escape(app, what, name, obj, options, lines):
    for k, line in enumerate(lines):
        indent, bullet, words = re.match(r"(\s*)(\* )?(.*)", line).groups()
        parts = _MARKUP.split(words)
        parts[::2] = [re.sub(r"(?<!\\)([|*])", r"\\\1", part) for part in parts[::2]]
        lines[k] = indent + (bullet or "") + "".join(parts)


def _add_explorer(app, exception):
    if exception is None and app.builder.name == "html":
        shutil.copy(PAGE, Path(app.outdir) / "explorer.html")
