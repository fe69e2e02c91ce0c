"""Docstrings, and strings that describe variables, name their object in the first line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

RIDDLE = re.compile(r"(How|It|Its|Of|The same|Their|There|They|That|Those|What|Where|Which|Whoever)\b")
"""Beginnings that name no object."""

ACTORLESS = re.compile(r"\b(likewise|nobody|somebody|whoever)\b", re.IGNORECASE)
"""Words that leave open what does it, or is done."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def first_lines(source: str) -> Iterator[str]:
    """First lines of a module's docstrings, and of the strings below its assignments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text.splitlines()[0]
        body = getattr(node, "body", None)
        for before, after in pairwise(body) if isinstance(body, list) else ():
            match before, after:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))) if text.strip():
                    yield text.strip().splitlines()[0]


def riddles(source: str) -> list[str]:
    return [line for line in first_lines(source) if RIDDLE.match(line)]


@pytest.mark.parametrize("folder", ["dsolver", "kernels", "bench", "examples", "tests"])
def test_first_lines_name_their_object(repository: Path, folder: str) -> None:
    paths = [
        path for path in (repository / folder).rglob("*.py") if repository / "dsolver" / "kernels" not in path.parents
    ]
    assert len(paths) > 5
    found = [f"{path}: {line}" for path in paths for line in riddles(path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        '"""What a solve tells."""',
        'class A:\n    """Where it lies."""',
        'def f():\n    """The same, for others."""',
        'X = 1\n"""Of a kernel, at most."""',
        'class A:\n    def f(self):\n        """That of A."""',
        'def test_f():\n    """It was 0."""',
    ],
)
def test_riddles_are_found(source: str) -> None:
    assert len(riddles(source)) == 1


def test_names_are_none() -> None:
    assert not riddles('"""Events of a solve."""\nX = 1\n"""Most arguments of a kernel: what CUDA takes."""')


def test_texts_name_who_does_it(repository: Path) -> None:
    paths = [path for folder in ("dsolver", "kernels") for path in (repository / folder).rglob("*.*")]
    texts = {path: path.read_text(encoding="utf-8") for path in paths if path.suffix in {".py", ".cu", ".cuh"}}
    assert len(texts) > 500
    assert [f"{path}: {found[0]}" for path, text in texts.items() for found in ACTORLESS.finditer(text)] == []
