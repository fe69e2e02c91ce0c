"""Tasks on blocks of rows, which run where the blocks are."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.cluster.rows.placed_rows import GivenRows, PlacedPiece, cut_piece, in_memory, placed
from dsolver.engines.out_of_memory import if_memory_suffices
from dsolver.errors import InputError, check_real
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import load
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.general.look import CANCELED
from dsolver.matrices.canonical import compressed
from dsolver.matrices.checked import rows_on_gpu
from dsolver.matrices.chunks.row_block import RowBlock
from dsolver.matrices.matrix import is_matrix


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Findings about a block, for the client; of `empty` and `hollow` rows how many, and the first one."""

    ghosts: npt.NDArray[np.int64]  # int64, other chunks' columns that it reads, unique and ascending
    empty: tuple[int, int]
    hollow: tuple[int, int]
    negative: int  # rows with a diagonal that is not positive
    closed: bool  # whether the entries of every row add up to zero
    largest: float  # magnitude of an entry
    least: float  # magnitude of a number on the diagonal that is not zero; inf where there is none
    products: tuple[float, float, float]  # xᵀA y, yᵀA x and |x|ᵀ|A||y| of its rows, for two fixed vectors


def shape_of(block: Any, number: int) -> tuple[int, int]:
    """Rows and columns of a block."""
    if not is_matrix(block):
        raise InputError(f"block {number} is a {type(block).__name__}, but must be a sparse matrix of SciPy or CuPy")
    rows, columns = block.shape
    return int(rows), int(columns)


def placed_block(block: Any, number: int, first: int, kernels: str) -> PlacedPiece:
    """Rows of a block in canonical form, on the device of these kernels."""
    name = f"block {number}"
    check_real(name, np.dtype(block.dtype), "fiub")
    rows = if_memory_suffices(lambda: rows_on_gpu(name, block)) if kernels == "cuda" else None
    if rows is None:
        on_host = block.get() if type(block).__module__.partition(".")[0] == "cupyx" else block
        rows = compressed(name, on_host, first)
    return placed(GivenRows((first, first + block.shape[0]), rows.indptr, rows.indices, rows.data, None), kernels)


def findings_of(piece: PlacedPiece, kernels: str) -> Findings:
    """Findings about a block's rows of A."""
    backend, (first, last), rows = load(kernels), piece.span, piece.rows
    xp, count = backend.xp, last - first
    with in_memory():
        row = backend.general.places(rows.start, len(rows.columns))
        own = xp.where(row + first == rows.columns, rows.values, 0.0)
        diagonal, sums, magnitudes = (
            xp.bincount(row, of, minlength=count) if len(row) else xp.zeros(count)  # CuPy's takes no empty array
            for of in (own, rows.values, abs(rows.values))
        )
        numbers = xp.arange(first, last)
        (x_row, x), (y_row, y) = ((noise(numbers, seed)[row], noise(rows.columns, seed)) for seed in (1, 2))
        return Findings(
            ghosts=piece.ghosts,
            empty=_counted(xp, xp.diff(rows.start) == 0, first),
            hollow=_counted(xp, diagonal == 0.0, first),
            negative=int((diagonal <= 0.0).sum()),
            closed=bool((abs(sums) <= CANCELED * magnitudes).all()),
            largest=float(abs(rows.values).max()) if len(row) else 0.0,
            least=float(xp.where(diagonal == 0.0, np.inf, abs(diagonal)).min()),
            products=(
                float(x_row @ (rows.values * y)),
                float(y_row @ (rows.values * x)),
                float(abs(x_row) @ abs(rows.values * y)),
            ),
        )


def _counted(xp: Any, of: Any, first: int) -> tuple[int, int]:
    """Number of such rows of a block, and the first one's number in A."""
    found = xp.flatnonzero(of)
    return len(found), first + int(found[0]) if len(found) else 0


def cut_block(piece: PlacedPiece, plan: HaloPlan, kernels: str, *, negated: bool) -> RowBlock:
    """A block's rows of A, or of -A, with their columns numbered as the plan has them, and with their counts."""
    rows = piece.rows._replace(values=-piece.rows.values) if negated else piece.rows
    return cut_piece(replace(piece, rows=rows), plan, formats=None, blocks=BLOCKS, kernels=kernels)


def brought(block: RowBlock) -> RowBlock:
    """A block's rows in memory of the host."""
    return block.here


def noise(places: Any, seed: int) -> Any:
    """Random numbers in [-1, 1), float64 of NumPy or CuPy as the places are (Steele et al., SplitMix, 2014).

    A place has the same number wherever it is asked for.
    """
    with np.errstate(over="ignore"):
        z = (places.astype(np.uint64) * np.uint64(2) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
