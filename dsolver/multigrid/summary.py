"""Tables of multigrid hierarchies, as people read them."""

import math
from dataclasses import dataclass
from typing import Any, Final, get_args

from dsolver.distributed.matrix import ChunkMatrix
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.formats.choice import Name
from dsolver.monitor.pages.notebook import table, view
from dsolver.multigrid.correction import ChunkTransfer
from dsolver.multigrid.level import Level

HEAD: Final = ("level", "rows", "entries", "a row", "chunks", "format", "values", "A, MB", "R and P, MB")
STENCIL: Final = "stencil"  # format of rows that are all the same: nothing is stored
FORMATS: Final[tuple[str, ...]] = (*get_args(Name), STENCIL)


@dataclass(frozen=True, kw_only=True)
class LevelSummary:
    """A level of a hierarchy in numbers.

    Attributes:
        entries: of the matrix; of a lattice's rows at all their offsets inside of it, zeros too.
        matrix_bytes: of the stored matrix, all chunks together.
        transfer_bytes: of restriction and prolongation to the next coarser level.
        format: of the stored matrix; of several chunks all that there are.
    """

    rows: int
    entries: int
    chunks: int
    matrix_bytes: int
    transfer_bytes: int = 0
    format: str = ""
    values: str = ""


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The levels of a multigrid hierarchy in numbers, finest first: print it."""

    levels: tuple[LevelSummary, ...]

    @property
    def operator_complexity(self) -> float:
        """Entries of all levels over those of the finest."""
        return sum(level.entries for level in self.levels) / self.levels[0].entries

    @property
    def grid_complexity(self) -> float:
        """Rows of all levels over those of the finest."""
        return sum(level.rows for level in self.levels) / self.levels[0].rows

    @property
    def _complexity(self) -> str:
        return f"operator complexity {self.operator_complexity:.2f}, grid {self.grid_complexity:.2f}"

    def _rows(self) -> list[tuple[str, ...]]:
        """The table's cells."""
        return [
            (
                str(number),
                f"{level.rows:,}",
                f"{level.entries:,}",
                f"{level.entries / level.rows:.1f}",
                str(level.chunks),
                level.format,
                level.values,
                f"{level.matrix_bytes / 1e6:.2f}",
                f"{level.transfer_bytes / 1e6:.2f}",
            )
            for number, level in enumerate(self.levels)
        ]

    def _repr_html_(self) -> str:
        return view(f"Hierarchy: {self._complexity}", table(HEAD, self._rows()))

    def __str__(self) -> str:
        cells = [HEAD, *self._rows()]
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(cell.rjust(n) for cell, n in zip(row, wide, strict=True)) for row in cells]
        return "\n".join([*lines, self._complexity])


def summary_of(level: Level) -> LevelSummary:
    """A level of a hierarchy in numbers. All ranks ask for it at once."""
    engine = level.engine.lowered("float64")  # sums are made in it
    transfer = () if level.transfer is None else (level.transfer.chunks,)
    stored, moved = engine.sums(engine.per_chunk(_sizes, level.chunks, *transfer))
    if level.complex_part is not None and level.complex_part.imaginary is not None:
        stored += engine.sums(engine.per_chunk(_sizes, level.complex_part.imaginary))[0]
    if level.entries is None:
        entries: float = _lattice_entries(level)
    else:
        (entries,) = engine.sums(engine.per_chunk(_count, level.entries))
    return LevelSummary(
        rows=level.partition.domain.points,
        entries=int(entries),
        chunks=len(level.partition),
        matrix_bytes=int(stored),
        transfer_bytes=int(moved),
        format=formats_of(level.engine, level.chunks),
    )


def _lattice_entries(level: Level) -> int:
    """Entries at a lattice level's offsets that do not leave it."""
    grid, wraps = level.partition.grid, level.partition.periodic
    return sum(
        math.prod(n if wrapped else n - abs(step) for n, wrapped, step in zip(grid, wraps, offset, strict=True))
        for offset in level.offsets
    )


def formats_of(engine: Engine, chunks: PerChunk) -> str:
    """Names of the formats in which a level's rows are stored; chunks: the `ChunkMatrix` of every chunk."""
    engine = engine.lowered("float64")  # sums are made in it
    held = engine.per_chunk(_held, chunks.at("local"))
    counts = engine.sums(held)
    return ", ".join(name for name, count in zip(FORMATS, counts, strict=True) if count)


def _held(_: Backend, __: int, local: Any) -> tuple[float, ...]:
    """Whether a matrix has each of the formats; that of a grid's rows is slices, if any are stored."""
    name = local.choice.name if hasattr(local, "choice") else STENCIL if hasattr(local, "stencil") else "slices"
    return tuple(float(name == each) for each in FORMATS)


def _count(_: Backend, __: int, entries: int) -> tuple[float]:
    return (float(entries),)


def _sizes(_: Backend, __: int, matrix: ChunkMatrix, transfer: Any = None) -> tuple[float, float]:
    """Bytes of the matrix, and of R and P; of those of a constant stencil none are stored."""
    parts = (transfer.restriction, transfer.prolongation) if isinstance(transfer, ChunkTransfer) else ()
    return float(_bytes(matrix)), float(sum(map(_bytes, parts)))


def _bytes(matrix: ChunkMatrix) -> int:
    return int(matrix.local.nbytes + (0 if matrix.ghost is None else matrix.ghost.nbytes))
