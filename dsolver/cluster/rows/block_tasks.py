"""Tasks on blocks of rows, which run where the blocks are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.grid.halo import HaloPlan
from dsolver.grid.row_partition import ghost_columns
from dsolver.kernels.general.look import CANCELED
from dsolver.matrices.canonical import compressed
from dsolver.matrices.chunks.row_block import RowBlock, row_block
from dsolver.matrices.matrix import is_matrix


@final
@dataclass(frozen=True, kw_only=True)
class Findings:
    """Findings about a block, for the client; of `empty` and `hollow` rows how many, and the first one."""

    ghosts: npt.NDArray[np.int64]  # int64, other chunks' columns that it reads, unique and ascending
    empty: tuple[int, int]
    hollow: tuple[int, int]
    indefinite: bool  # whether the diagonal has a number that is not positive
    negative: bool  # whether all its numbers are negative
    closed: bool  # whether the entries of every row add up to zero
    products: tuple[float, float, float]  # xᵀA y, yᵀA x and |x|ᵀ|A||y| of its rows, for two fixed vectors


def shape_of(block: Any, number: int) -> tuple[int, int]:
    """Rows and columns of a block."""
    if not is_matrix(block):
        raise InputError(f"block {number} is a {type(block).__name__}, but must be a sparse matrix of SciPy or CuPy")
    rows, columns = block.shape
    return int(rows), int(columns)


def compressed_block(block: Any, number: int, first: int) -> Any:
    """A block as a CSR array of SciPy in canonical form."""
    on_host = block.get() if type(block).__module__.partition(".")[0] == "cupyx" else block
    return compressed(f"block {number}", on_host, first)


def findings_of(rows: Any, first: int, last: int) -> Findings:
    """Findings about rows first .. last of A."""
    own, columns = np.arange(first, last), rows.indices.astype(np.int64)
    row = np.repeat(own, np.diff(rows.indptr))
    diagonal = np.bincount(row[row == columns] - first, rows.data[row == columns], last - first)
    sums, magnitudes = np.asarray(rows.sum(axis=1)).ravel(), np.asarray(abs(rows).sum(axis=1)).ravel()
    (x_row, x), (y_row, y) = ((noise(row, seed), noise(columns, seed)) for seed in (1, 2))
    return Findings(
        ghosts=ghost_columns(np, columns, first, last),
        empty=_counted(np.diff(rows.indptr) == 0, first),
        hollow=_counted(diagonal == 0.0, first),
        indefinite=bool((diagonal <= 0.0).any()),
        negative=bool((diagonal < 0.0).all()),
        closed=bool((abs(sums) <= CANCELED * magnitudes).all()),
        products=(
            float(x_row @ (rows.data * y)),
            float(y_row @ (rows.data * x)),
            float(abs(x_row) @ abs(rows.data * y)),
        ),
    )


def _counted(of: npt.NDArray[np.bool_], first: int) -> tuple[int, int]:
    """Number of such rows of a block, and the first one's number in A."""
    found = np.flatnonzero(of)
    return len(found), first + int(found[0]) if len(found) else 0


def made_row_block(rows: Any, plan: HaloPlan, first: int, last: int, *, negated: bool) -> RowBlock:
    """Rows first .. last of A, or of -A, with their columns numbered as the plan has them."""
    columns, values = rows.indices.astype(np.int64), -rows.data if negated else rows.data
    ghosts = ghost_columns(np, columns, first, last)
    return row_block(rows.indptr.astype(np.int64), columns, values, (first, last), ghosts, plan)


def noise(places: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Random numbers in [-1, 1), the same for a place wherever it is asked for (Steele et al., SplitMix, 2014)."""
    with np.errstate(over="ignore"):
        z = (places.astype(np.uint64) * np.uint64(2) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    scaled: npt.NDArray[np.float64] = (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    return scaled
