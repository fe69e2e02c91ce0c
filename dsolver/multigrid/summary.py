"""Tables of multigrid hierarchies, as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dsolver.monitor.notebook import table, view


@final
@dataclass(frozen=True, kw_only=True)
class LevelSummary:
    """A level of a hierarchy in numbers.

    Attributes:
        rows: of the matrix.
        entries: of the matrix.
        chunks: that share it; 1 where it lives whole on every owner.
        matrix_bytes: of the stored matrix, all chunks together.
        transfer_bytes: of restriction and prolongation to the next coarser level.
    """

    rows: int
    entries: int
    chunks: int
    matrix_bytes: int
    transfer_bytes: int = 0


@final
@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The levels of a multigrid hierarchy in numbers: print it.

    Attributes:
        levels: finest first.
    """

    levels: tuple[LevelSummary, ...]

    @property
    def operator_complexity(self) -> float:
        """Entries of all levels over those of the finest."""
        return sum(level.entries for level in self.levels) / self.levels[0].entries

    @property
    def grid_complexity(self) -> float:
        """Rows of all levels over those of the finest."""
        return sum(level.rows for level in self.levels) / self.levels[0].rows

    def _repr_html_(self) -> str:
        head = ("level", "rows", "entries", "entries a row", "chunks", "A, MB", "R and P, MB")
        rows = [
            (
                number,
                f"{level.rows:,}",
                f"{level.entries:,}",
                f"{level.entries / level.rows:.1f}",
                level.chunks,
                f"{level.matrix_bytes / 1e6:.2f}",
                f"{level.transfer_bytes / 1e6:.2f}",
            )
            for number, level in enumerate(self.levels)
        ]
        title = f"Hierarchy: operator complexity {self.operator_complexity:.2f}, grid {self.grid_complexity:.2f}"
        return view(title, table(head, rows))

    def __str__(self) -> str:
        lines = [
            f"{'level':>5} {'rows':>11} {'entries':>12} {'a row':>7} {'chunks':>6} {'A, MB':>9} {'R and P, MB':>11}"
        ]
        for number, level in enumerate(self.levels):
            lines.append(
                f"{number:>5} {level.rows:>11,} {level.entries:>12,} {level.entries / level.rows:>7.1f} "
                f"{level.chunks:>6} {level.matrix_bytes / 1e6:>9.2f} {level.transfer_bytes / 1e6:>11.2f}"
            )
        lines.append(f"complexity: operator {self.operator_complexity:.2f}, grid {self.grid_complexity:.2f}")
        return "\n".join(lines)
