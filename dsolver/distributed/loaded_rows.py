"""Rows of a general matrix, loaded on the owners of their chunks, and a chunk's matrix made of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dsolver.distributed.halo import plan_layout
from dsolver.distributed.matrix import ChunkMatrix
from dsolver.distributed.row_order import as_other, in_order
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import Backend, load
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.general.rows import SplitRows
from dsolver.kernels.general.setup import OtherValues
from dsolver.matrices.chunks.row_block import GIVEN, ROWS, RowBlock


class LoadedRows:
    """The `RowBlock` of every chunk, with the interface of coefficients.

    Args:
        order: of the rows in each chunk: a name of `dsolver.distributed.row_order.ORDERS`, or None for A's.

    Attributes:
        given: those of the matrix whose residuals count, where it is another one; else None.
        parts: those of the parts of a complex matrix.
    """

    def __init__(self, engine: Engine, order: str | None = None) -> None:
        self._engine, self._order = engine, order
        self._rows: PerChunk | None = None
        self.given: PerChunk | None = None
        self.parts: list[PerChunk] = []

    def load(self, name: str, blocks: Mapping[int, Any]) -> None:
        """Take the blocks of the chunks that are owned, and order their rows; those of other matrices come later."""
        if name != ROWS:
            assert self._rows is not None
            other = self._engine.per_chunk(as_other, self._engine.place(blocks), self._rows)
            if name == GIVEN:
                self.given = other
            else:
                self.parts.append(other)
            return
        self._rows = self._engine.place(blocks)
        if self._order is not None:
            self._rows = self._engine.per_chunk(partial(in_order, name=self._order), self._rows)

    def prepare(self) -> None:
        """Nothing is exchanged: a block knows its halo plan."""

    @property
    def blocks(self) -> PerChunk:
        """The `RowBlock` of every chunk."""
        assert self._rows is not None
        return self._rows

    def per_chunk(self, make: Callable[..., Any], engine: Engine | None = None) -> PerChunk:
        """make(backend, number, block) on the owner of each chunk."""
        return (engine or self._engine).per_chunk(make, self.blocks)


def chunk_layouts(backend: Backend, _: int, block: RowBlock) -> tuple[Layout, Layout]:
    """Layouts of a chunk's vectors, and of its matrix, whose rows keep their own order: mostly the same one."""
    stored = backend.layouts.plain((len(block.start) - 1, 1, 1))
    return stored if block.order is None else backend.layouts.permuted(stored, block.order), stored


def measured_chunk(backend: Backend, _: int, block: RowBlock, *, wanted: bool = True) -> Any:
    """Sizes for which `chunk_matrix` would wait, on their way, of a chunk that reads no other; None unless wanted."""
    if block.plan.slots or not wanted:
        return None
    return backend.general.measured(_on_device(backend, block), block.formats, block.known)


def chunk_matrix(
    backend: Backend,
    number: int,
    block: RowBlock,
    layouts: tuple[Layout, Layout] | None = None,  # their `chunk_layouts`, where they are known
    measured: Any = None,  # their `measured_chunk`, where it is known
    diagonal: Any = None,  # float64 (rows,) in A's order, where it is known
    *,
    wait: bool = True,  # as of `GeneralSetup.matrix`, of the local part
) -> tuple[ChunkMatrix]:
    """A chunk's matrix for the finest level: its local part in the format of its rows, which keep their order.

    The format follows from the chunk's own rows: the same one, and the same bits, on every owner.
    """
    layout, stored = layouts or chunk_layouts(backend, number, block)
    rows = _on_device(backend, block)
    more = _known_of(backend, block, rows, measured, diagonal)
    parts = block.parts if rows.values is block.values else None
    made = stored_matrix(backend, rows, layout, stored, block.plan, parts, formats=block.formats, wait=wait, **more)
    backend.general.prepare_dots(made.local)
    return (made,)


@dataclass(frozen=True, kw_only=True)
class ChunkMatrices:
    """A chunk's matrix for the finest level in float64 and in the value type of a preconditioner."""

    exact: ChunkMatrix
    narrow: ChunkMatrix


def chunk_matrices(
    backend: Backend,
    number: int,
    block: RowBlock,
    layouts: tuple[Layout, Layout],
    measured: Any = None,
    diagonal: Any = None,
    others: Any = None,  # float64 (entries,), other values of the narrower one, whose the diagonal is then
    *,
    dtype: str,
) -> tuple[ChunkMatrices]:
    """`chunk_matrix`, and the same in a narrower value type; dtype: that. Other arguments are as there.

    Where nothing is read from other chunks and the format allows it, values are rounded and nothing else is made anew.
    Callers wait before they use them.
    """
    narrow, rounded = load(backend.name, backend.threads, dtype), None
    own, beside = (diagonal, None) if others is None else (None, OtherValues(others, diagonal))
    if block.plan.slots:
        (exact,) = chunk_matrix(backend, number, block, layouts, measured, own, wait=False)
    else:
        (layout, stored), rows = layouts, _on_device(backend, block)
        more = _known_of(backend, block, rows, measured, own)
        local, rounded = backend.general.matrices(rows, stored, narrow.general, block.formats, beside, **more)
        backend.general.prepare_dots(local)
        ghost, halo = backend.general.no_ghost, plan_layout(backend, layout, block.plan)
        exact = ChunkMatrix(layout=layout, local=local, ghost=ghost, halo=halo)
    if rounded is None:
        block = block if others is None else replace(block, values=others, parts=None)
        (lowered,) = chunk_matrix(narrow, number, block, layouts, diagonal=diagonal, wait=False)
    else:
        narrow.general.prepare_dots(rounded)
        lowered = replace(exact, local=rounded, ghost=narrow.general.no_ghost)
    return (ChunkMatrices(exact=exact, narrow=lowered),)


def stored_matrix(
    backend: Backend,
    rows: Csr,
    layout: Layout,
    stored: Layout,
    plan: HaloPlan,
    parts: SplitRows | None = None,
    **given: Any,
) -> ChunkMatrix:
    """A chunk's matrix, whose arrays may be those of its rows.

    Args:
        rows: on the device; columns are own ones from 0, then halo slots.
        layout: the storage order of the rows.
        stored: theirs in the order that they have.
        parts: the rows in two parts, where they are known.
    """
    general = backend.general
    parts = parts or (general.split(rows) if plan.slots else None)
    own = rows if parts is None else parts.local
    if own.values is not rows.values:  # those of a user are not kept
        given["borrowed"] = False
    local = general.matrix(own, stored, **given)
    ghost = general.no_ghost
    if parts is not None:
        ghost = general.ghost(stored.position[parts.boundary], parts.ghost, plan.slots, parts.longest)
    return ChunkMatrix(layout=layout, local=local, ghost=ghost, halo=plan_layout(backend, layout, plan))


def _known_of(backend: Backend, block: RowBlock, rows: Csr, measured: Any, diagonal: Any) -> dict[str, Any]:
    """Arguments of `GeneralSetup.matrix` that are known of a chunk's rows on the device."""
    in_order = diagonal is not None and block.order is None
    return {
        "known": block.known,
        "borrowed": rows.values is block.values,  # its user may change them
        "measured": measured,
        "diagonal": backend.asarray(diagonal) if in_order else None,
    }


def _on_device(backend: Backend, block: RowBlock) -> Csr:
    return Csr(*(backend.asarray(part) for part in block.csr))
