"""Settings of Sphinx for the documentation site.

    python -m sphinx --fail-on-warning --keep-going -c docs . site

The pages stay as they are read in the repository, and link to each other and to files as they do there. What a site
needs beside them, a navigation and a first page, is added here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dsolver.session.signatures import GROUPS

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.search(r'^__version__ = "(.+)"$', (ROOT / "dsolver" / "__init__.py").read_text("utf-8"), re.MULTILINE)
assert VERSION is not None

NAVIGATION = {
    "Use": ["docs/README", "docs/tutorial", "docs/howto", "docs/examples", "deploy/README", "docs/security"],
    "API": [
        "docs/api/dsolver",
        "docs/api/problems",
        "docs/api/preconditioners",
        "docs/api/autodiff",
        "docs/api/monitor",
    ],
    "Understand": [
        "docs/theory",
        "docs/glossary",
        "docs/structure",
        "docs/choices",
        "docs/performance",
        "docs/decisions/README",
        "CHANGELOG",
    ],
}
"""Pages of the site by heading; the records of decisions are below their index."""

project = "dsolver"
author = "The dsolver developers"
project_copyright = author
version = release = VERSION[1]

root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "deploy/README.md", "docs/**"]
exclude_patterns = ["dsolver", "kernels", "tests", "site"]  # not looked through for pages
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4  # as GitHub makes them
highlight_language = "none"  # of indented blocks, which are formulas and tables
default_role = "code"
autodoc_default_options = {"members": True}
autodoc_mock_imports = ["jax", "torch"]
autodoc_member_order = "bysource"
napoleon_use_rtype = False
napoleon_custom_sections = [(title, "params_style") for title in GROUPS]
toc_object_entries_show_parents = "hide"
html_theme = "furo"
html_title = f"dsolver {version}"
html_copy_source = False
html_show_sourcelink = False


def add_navigation(_: Any, page: str, source: list[str]) -> None:
    """Add the lists of pages that follow to the first page and to the index of decisions."""
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            source[0] += toctree(f":caption: {caption}", *pages)
    elif page == "docs/decisions/README":
        source[0] += toctree(":glob:", "*")


def toctree(option: str, *pages: str) -> str:
    """A list of pages for the navigation alone, in MyST."""
    return "\n".join(["", "```{toctree}", ":hidden:", option, "", *pages, "```", ""])


def keep_bars(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Keep |a| in docstrings, where Sphinx would look for a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def write_index(app: Any, failure: Exception | None) -> None:
    """Write the page that leads from the site's address to its first page."""
    if failure is None and app.builder.format == "html":
        page = f"{root_doc}.html"
        head = f'<meta charset="utf-8"><title>dsolver</title><meta http-equiv="refresh" content="0; url={page}">'
        text = f'<!DOCTYPE html>{head}<a href="{page}">dsolver</a>\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("source-read", add_navigation)
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("build-finished", write_index)
