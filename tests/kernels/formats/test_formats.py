"""A format brings its kernels: a new one needs no edit of a backend or an engine."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsolver.engines.base import Engine
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend, load
from dsolver.kernels.contract import SPMV, SPMV_DOT
from dsolver.kernels.formats.base import Format, SeparateDot
from dsolver.kernels.formats.layout import Layout

GRID = (4, 3, 2)
FORMATS = frozenset(
    {"Format", "Ell", "Csr", "StencilRows", "SellMatrix", "HaloMatrix", "Product", "Slices", "DenseInverse"}
)


@dataclass(frozen=True, kw_only=True)
class Diagonals(SeparateDot, Format):
    """A tridiagonal matrix by its diagonals, (3, rows): a format that no backend knows of."""

    layout: Layout
    diagonals: Any
    vectors: Any

    @property
    def nbytes(self) -> int:
        return int(self.diagonals.nbytes)

    def spmv(self, x: Any, y: Any) -> None:
        own = np.pad(x[self.layout.position], 1)
        lower, middle, upper = self.diagonals
        y[self.layout.position] = lower * own[:-2] + middle * own[1:-1] + upper * own[2:]


@dataclass(frozen=True)
class MakeDiagonals:
    values: Any

    def __call__(self, backend: Backend, _: int, layout: Layout) -> Diagonals:
        return Diagonals(layout=layout, diagonals=backend.asarray(self.values), vectors=backend.vectors)


def make_layout(backend: Backend, _: int) -> Layout:
    return backend.layouts.plain(GRID)


def product(engine: Engine, values: Any, blocks: list[Any]) -> tuple[Any, list[float]]:
    """y = A x and x . y through an engine: of one column, or of several."""
    layout = engine.per_chunk(make_layout)
    a = engine.per_chunk(MakeDiagonals(values), layout)
    x, y, z, dot = engine.field(layout), engine.field(layout), engine.field(layout), engine.partial_sums()
    engine.load({0: blocks[0] if len(blocks) == 1 else np.stack(blocks)}, layout, x)
    engine.run(SPMV, a, x, y)
    engine.run(SPMV_DOT, a, x, z, dot)
    found, again = (np.asarray(engine.unload(v, layout)[0]) for v in (y, z))
    np.testing.assert_array_equal(found, again)
    total = engine.scalar(0.0)
    engine.total(dot, total)
    return found, list(engine.read(total))


@pytest.mark.parametrize("kernels", ["numpy", "cpu"])
@pytest.mark.parametrize("columns", [1, 3])
def test_a_format_of_a_test_runs_on_every_backend(kernels: str, columns: int) -> None:
    rng = np.random.default_rng(0)
    rows = int(np.prod(GRID))
    values, blocks = rng.standard_normal((3, rows)), [rng.standard_normal(GRID) for _ in range(columns)]
    dense = np.diag(values[0, 1:], -1) + np.diag(values[1]) + np.diag(values[2, :-1], 1)
    engine: Any = EagerEngine(Partition(GRID), load(kernels))
    found, dots = product(engine if columns == 1 else engine.batched(columns), values, blocks)
    for block, y, dot in zip(blocks, found.reshape(columns, *GRID), dots, strict=True):
        x = block.reshape(-1, order="F")
        np.testing.assert_allclose(y.reshape(-1, order="F"), dense @ x, rtol=1e-13, atol=1e-13)
        assert dot == pytest.approx(x @ dense @ x)


def test_a_missing_kernel_is_named() -> None:
    backend = load("numpy")
    layout = backend.layouts.plain(GRID)
    a = Diagonals(layout=layout, diagonals=np.ones((3, layout.rows)), vectors=backend.vectors)
    with pytest.raises(AttributeError, match="forward"):
        backend.kernel("forward")(a, np.ones(layout.size), np.ones(layout.size))


def asked_types(tree: ast.AST) -> set[str]:
    """Names of the classes that `isinstance` is asked about."""
    return {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        for name in ast.walk(node.args[1])
        if isinstance(name, ast.Name)
    }


def test_nobody_asks_what_format_a_matrix_has(repository: Path) -> None:
    defined = {
        node.name
        for folder in ("reference", "cpu", "cuda", "formats")
        for path in (repository / "kernels" / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    assert defined >= FORMATS
    asked = {
        f"{path.relative_to(repository)}: {name}"
        for root in ("kernels", "dsolver")
        for path in (repository / root).rglob("*.py")
        for name in asked_types(ast.parse(path.read_text(encoding="utf-8"))) & defined
    }
    assert not asked, "\n".join(sorted(asked))
