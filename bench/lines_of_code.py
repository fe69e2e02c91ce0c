"""Lines of product code at some commits: code, docstrings, comments, blank, and what of the code is frame.

    python bench/lines_of_code.py 758213d HEAD
    python bench/lines_of_code.py HEAD --without dsolver/matrices kernels/cuda/csr
    python bench/lines_of_code.py HEAD --within dsolver/distributed kernels/formats

Counts `dsolver/` and `kernels/`, Python and CUDA. Imports, signatures (from `def` or `class` to the body), decorators
and annotated fields are counted apart, for they grow with the number of modules and objects and not with what is done.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator

KINDS = ("code", "docstrings", "comments", "blank")
FRAME = ("imports", "signatures", "decorators", "fields")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("commits", nargs="+")
    options.add_argument("--within", nargs="*", default=[""], help="paths that alone are counted")
    options.add_argument("--without", nargs="*", default=[], help="paths that are left out")
    arguments = options.parse_args()
    for commit in arguments.commits:
        count: Counter[str] = Counter()
        for path, text in files(commit):
            if path.startswith(tuple(arguments.within)) and not path.startswith(tuple(arguments.without)):
                count += of_python(text) if path.endswith(".py") else of_cuda(text)
        parts = ", ".join(f"{kind} {count[kind]}" for kind in KINDS)
        frame = ", ".join(f"{kind} {count[kind]}" for kind in FRAME)
        print(f"{commit}: {sum(count[kind] for kind in KINDS)} lines: {parts}")
        print(f"    of the code in {count['modules']} modules: {frame}")


def files(commit: str) -> Iterator[tuple[str, str]]:
    """Every source file of a commit, with its text."""
    for path in _git("ls-tree", "-r", "--name-only", commit, "dsolver", "kernels").splitlines():
        if path.endswith((".py", ".cu", ".cuh")):
            yield path, _git("show", f"{commit}:{path}")


def of_python(text: str) -> Counter[str]:
    """Lines of a Python module by kind. A string that stands alone is a docstring."""
    lines = text.splitlines()
    found: dict[str, set[int]] = {kind: set() for kind in (*KINDS, *FRAME)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not lines[token.start[0] - 1][: token.start[1]].strip():
            found["comments"].add(token.start[0])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found["docstrings"] |= _span(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found["imports"] |= _span(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found["signatures"] |= set(range(node.lineno, max(node.lineno + 1, node.body[0].lineno)))
            found["decorators"] |= {line for decorator in node.decorator_list for line in _span(decorator)}
        if isinstance(node, ast.ClassDef):
            found["fields"] |= {line for part in node.body if isinstance(part, ast.AnnAssign) for line in _span(part)}
    found["blank"] = {number for number, line in enumerate(lines, 1) if not line.strip()} - found["docstrings"]
    count = Counter({kind: len(numbers) for kind, numbers in found.items()})
    count["code"] = len(lines) - sum(count[kind] for kind in KINDS)
    count["modules"] = 1
    return count


def of_cuda(text: str) -> Counter[str]:
    """Lines of a CUDA file by kind."""
    count, inside = Counter[str](), False
    for line in map(str.strip, text.splitlines()):
        begins = line.startswith("/*")
        comment = inside or begins or line.startswith("//")
        count["comments" if comment else "code" if line else "blank"] += 1
        inside = (inside or begins) and "*/" not in line
    return count


def _span(node: ast.stmt | ast.expr) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or 0) + 1))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout  # noqa: S607


if __name__ == "__main__":
    main()
