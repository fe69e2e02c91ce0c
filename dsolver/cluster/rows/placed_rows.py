"""Rows of a matrix on the devices of their chunks' owners: brought there, numbered and counted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.engines.out_of_memory import is_out_of_memory, out_of_memory_error
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import load
from dsolver.kernels.formats.csr import Csr
from dsolver.matrices.chunks.row_block import RowBlock, counts_of, row_block


@dataclass(frozen=True)
class GivenRows:
    """Consecutive rows of a matrix, as they lie in its user's arrays."""

    span: tuple[int, int]
    start: Any  # integers (rows + 1,), where rows begin, from any number on
    columns: Any  # integers, global numbers, of their entries alone
    values: Any  # of these
    near: Any  # float64 (rows, k), the near-null space, or None

    @property
    def bytes(self) -> int:
        """Bytes of these arrays."""
        arrays = self.start, self.columns, self.values, self.near
        return sum(array.nbytes for array in arrays if array is not None)


@dataclass(frozen=True, kw_only=True)
class PlacedPiece:
    """Rows of a chunk on its owner with global columns; see `GivenRows`."""

    rows: Csr
    ghosts: npt.NDArray[np.int64]  # other chunks' columns that they read, ascending, on the host
    span: tuple[int, int]
    near: Any


@contextmanager
def in_memory() -> Iterator[None]:
    """An end of memory as the error of this package, which any client knows."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory_error(error, "rows of a matrix on their owner: ") from None


def placed(given: GivenRows, kernels: str) -> PlacedPiece:
    """Rows on their owner's device, whose columns are global numbers."""
    backend = load(kernels)
    with in_memory():
        start, columns, values = backend.asarrays(given.start, given.columns, given.values)
        start = backend.xp.subtract(start, start[0], dtype=np.int64)
        rows = Csr(start, columns, values.astype(np.float64, copy=False))
        near = given.near if given.near is None else backend.asarray(given.near)
        ghosts = backend.to_host(backend.amg.ghosts([columns], *given.span)[0])
    return PlacedPiece(rows=rows, ghosts=ghosts, span=given.span, near=near)


def cut_piece(
    piece: PlacedPiece, plan: HaloPlan, *, formats: str | None, blocks: Sequence[int], kernels: str
) -> RowBlock:
    """Rows of a chunk with the columns of its own numbers, and with their counts."""
    backend = load(kernels)
    with in_memory():
        block = row_block(backend, *piece.rows, piece.span, backend.asarray(piece.ghosts), plan, formats)
        counts = counts_of(backend, block, blocks)
        backend.general.wait()
    return replace(block, near=piece.near, known=counts.local, counts=counts)
