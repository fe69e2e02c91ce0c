"""Names and links of the pages of the documentation, and the form of the records of decisions."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import dsolver

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "docs" / "decisions"
INDEX = RECORDS / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
SOURCES = sorted(
    path
    for folder in ("dsolver", "kernels", "tests", "bench", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".cu", ".cuh"} and "dsolver/kernels/" not in path.as_posix()
)


def identity(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def misshapen(text: str) -> list[str]:
    """Links to other sites that cannot be right: without TLS, without a name of a site, or with blanks."""
    found = [link["path"] for link in LINK.finditer(text)] + re.findall(r"<(\w+:[^>]*)>", text)
    outside = [path for path in found if re.match(r"\w+:", path)]
    return [path for path in outside if not re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/\S*)?", path)]


@pytest.mark.parametrize("page", PAGES, ids=identity)
def test_links_to_other_sites_have_a_form(page: Path) -> None:
    """Links out of the documentation; Sphinx, which makes the site, follows those between pages."""
    assert misshapen(page.read_text(encoding="utf-8")) == []


def test_misshapen_links_are_found() -> None:
    good = "[a](https://example.org/b?c=d) <https://docs.example.org> [b](page.md#x) <!-- test: gpu -->"
    assert misshapen(good + " [c](http://example.org) <https://nowhere>") == ["http://example.org", "https://nowhere"]


def test_the_gallery_links_to_every_example_and_shows_its_picture() -> None:
    gallery = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    sections = gallery.split("\n## ")[1:]
    linked = [re.findall(r"\]\(\.\./examples/(\w+\.py)\)", section) for section in sections]
    assert sorted(name for names in linked for name in names) == sorted(
        path.name for path in (ROOT / "examples").glob("*.py")
    )
    assert all(re.search(r"!\[.+\]\(pictures/\w+\.png\)", section) for section in sections)


def test_the_api_reference_lists_every_public_name() -> None:
    page = (ROOT / "docs" / "api" / "dsolver.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^\.\. auto\w+:: (\w+)$", page, flags=re.MULTILINE)
    modules = {"dsolver", "preconditioners", "problems"}
    assert sorted({*listed, *modules} - {"dsolver"}) == sorted(dsolver.__all__)


def test_the_index_lists_every_record_once() -> None:
    listed = [link["path"] for link in LINK.finditer(INDEX.read_text(encoding="utf-8")) if "/" not in link["path"]]
    files = {path.name for path in RECORDS.glob("*.md")} - {INDEX.name}
    assert sorted(path for path in listed if path) == sorted(files)


@pytest.mark.parametrize("record", sorted(set(RECORDS.glob("*.md")) - {INDEX}), ids=lambda path: path.stem)
def test_records_have_a_form(record: Path) -> None:
    """A question, a date, then context, decision and measurement, on one page."""
    text = record.read_text(encoding="utf-8")
    assert re.match(r"# \S.*\?\n\nDate: \d{4}-\d\d-\d\d\n", text)
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE)[:3] == ["Context", "Decision", "Measurement"]
    assert len(text.split()) < 550


@pytest.mark.parametrize("page", PAGES, ids=identity)
def test_pages_name_files_that_exist(page: Path) -> None:
    named = re.findall(
        r"(?<![\w/.~-])(?:dsolver|kernels|tests|bench|\.ci)/[\w/]+(?:\.py|\.json)?", page.read_text(encoding="utf-8")
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_page_on_structure_names_every_package() -> None:
    text = (ROOT / "docs" / "structure.md").read_text(encoding="utf-8")
    packages = [
        f"{folder}/{path.parent.name}/"
        for folder in ("dsolver", "kernels")
        for path in (ROOT / folder).glob("*/__init__.py")
        if path.parent.name != "kernels"
    ]
    assert len(packages) > 15
    assert [package for package in packages if f"`{package}`" not in text] == []


def test_the_page_on_performance_shows_the_figures_of_the_results() -> None:
    """After figures have changed: python docs/performance.py."""
    made = runpy.run_path(str(ROOT / "docs" / "performance.py"))
    text = made["PAGE"].read_text(encoding="utf-8")
    assert made["with_tables"](text) == text
    sums = {plot.name: plot.checksum() for plot in made["PLOTS"]}
    pictures = {name: (made["PICTURES"] / f"{name}.svg").read_text(encoding="utf-8") for name in sums}
    assert [name for name in sums if f"](pictures/{name}.svg)" not in text] == []
    assert [name for name in sums if f"figures {sums[name]}" not in pictures[name]] == []


def test_sources_refer_to_pages_that_exist() -> None:
    named = {
        (identity(source), page)
        for source in SOURCES
        for page in re.findall(r"docs/[\w/-]+\.md", source.read_text(encoding="utf-8"))
    }
    assert {page for _, page in named} >= {"docs/theory.md"}
    assert [name for name in sorted(named) if not (ROOT / name[1]).exists()] == []
