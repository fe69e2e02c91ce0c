"""Rows of a matrix cut into chunks: those that were asked for, of about as many entries, by fields, or by its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import CHOSEN, blocks_of
from dsolver.kernels.general.selection import MEASURE, chosen
from dsolver.matrices.checked import on_host
from dsolver.matrices.chunks.cut import CutMatrix
from dsolver.matrices.chunks.graph import parts_of_rows
from dsolver.matrices.chunks.row_block import (
    FIELD_ROWS,
    GIVEN,
    MASS,
    PARTS,
    PHASES,
    ROWS,
    ChunkCounts,
    CutRows,
    RowsOfField,
)
from dsolver.matrices.null_vectors import to_host

if TYPE_CHECKING:
    from dsolver.matrices.problem import MatrixProblem


Cutter = Callable[[Any, RowPartition, str | None, Any, Sequence[int]], CutRows]
"""Maker of `CutRows`, with the arguments of `CutMatrix`."""
BLOCKED: Final = ("blocks", MEASURE)  # formats for which blocks of any size are looked for


def in_parts(problem: MatrixProblem, chunks: int) -> MatrixProblem:
    """The matrix with so many chunks of rows that METIS puts together; nodes stay whole."""
    rows, symmetric = on_host(problem.matrix), not problem.asymmetry
    return grouped(problem, parts_of_rows(rows, chunks, block=problem.block, symmetric=symmetric))


def grouped(problem: MatrixProblem, parts: Any) -> MatrixProblem:
    """The matrix with its rows part after part, a chunk for each. InputError: no such integers (rows,) from 0 on."""
    numbers, sizes = grouped_rows(parts, problem.grid[0])
    given = None if problem.given is None else reordered(problem.given, numbers)
    chunks, parts = (sizes, (1,), (1,)), tuple(reordered(part, numbers) for part in problem.parts)
    rows = reordered(problem.matrix, numbers)
    return replace(problem, matrix=rows, given=given, parts=parts, numbers=numbers, chunks=chunks)


def planned(
    problem: MatrixProblem, chunks: int, *, cuda: bool | None = None, cut: Cutter | None = None
) -> MatrixProblem:
    """The matrix cut into chunks: those that were asked for, or so many with about as many entries each.

    `cuda`: whether chunks lie on GPUs, whose formats follow from more statistics; None for all statistics. `cut`: what
    cuts a matrix; by default `CutMatrix`, in this process.
    """
    if problem.matrix is None or ROWS in problem.coefficients:  # it was cut before it came
        return problem
    if problem.fields and problem.chunks is None:
        chunks = min(chunks, *problem.fields)
        if chunks > 1:
            return planned(in_fields(problem, chunks), chunks, cuda=cuda, cut=cut)
    if problem.chunks is None and problem.partition == "graph":
        return planned(in_parts(problem, min(chunks, problem.grid[0] // problem.block)), chunks, cuda=cuda, cut=cut)
    if problem.chunks is None:
        rows = by_entries(problem, min(chunks, problem.grid[0] // problem.block))
    else:
        along = Partition(problem.grid, problem.chunks).sizes[0]
        rows = RowPartition(bounds=tuple(accumulate(along, initial=0)))
    near, numbers = problem.near, problem.numbers
    if near is not None and (rows.chunks > 1 or numbers is not None):
        near = to_host(near)
    near = near if near is None or numbers is None else near[numbers]
    blocks = block_sizes(problem.formats, problem.block, cuda=cuda)
    cutter: Cutter = CutMatrix if cut is None else cut
    here = rows.chunks == 1 and cut is None
    whole = problem.matrix if here else on_host(problem.matrix)
    made_of = cutter(whole, rows, problem.formats, near, blocks)
    _check_formats(problem.formats, made_of.counts, gpu=bool(cuda))
    made = replace(
        problem,
        ahead=None,
        chunks=rows.sizes,
        coefficients={ROWS: made_of, **_vectors(problem)},
        senders=made_of.senders,
        counts=made_of.counts,
    )
    if problem.fields:
        made = _with_fields(made, cuda=cuda, cut=cut)
    parts = [cutter(part if here else on_host(part), rows, None, None, blocks) for part in problem.parts]
    if parts:
        made = replace(
            made,
            coefficients={**made.coefficients, **dict(zip(PARTS if problem.complex else (MASS,), parts, strict=True))},
            part_senders=tuple(part.senders for part in parts),
            part_counts=tuple(part.counts for part in parts),
        )
    if problem.given is None:
        return made
    given = cutter(problem.given, rows, None, None, blocks)
    return replace(
        made, coefficients={**made.coefficients, GIVEN: given}, given_senders=given.senders, given_counts=given.counts
    )


def cut_like(problem: MatrixProblem, before: MatrixProblem) -> MatrixProblem:
    """The matrix with the rows of each chunk that another one has there, unless others were given, or split a node."""
    assert before.chunks is not None
    sizes: Any = before.chunks[0]
    asked = [each.chunks if each.of_grid is None else each.of_grid.chunks for each in (problem, before)]
    free = asked[0] is None or (before.of_grid is not None and asked[0] == asked[1])
    alike = problem.matrix is not None and not (problem.fields or before.fields) and problem.grid == before.grid
    if not (free and alike) or any(size % problem.block for size in sizes):
        return problem
    if before.numbers is None:
        return replace(problem, chunks=before.chunks)
    parts = np.empty(problem.grid[0], dtype=np.int64)
    parts[before.numbers] = np.repeat(np.arange(len(sizes)), sizes)
    return grouped(problem, parts)


def block_sizes(formats: str | None, block: int, *, cuda: bool | None) -> tuple[int, ...]:
    """Sizes of blocks of which statistics are wanted, for rows of such nodes; cuda: as of `planned`."""
    blocks: tuple[int, ...] = CHOSEN if cuda else (1,)
    if cuda is None or (cuda and formats in BLOCKED):
        blocks = BLOCKS
    if block > 1 and formats is None:
        blocks = tuple(b for b in blocks_of(block) if b in blocks)
    return blocks


def _vectors(problem: MatrixProblem) -> dict[str, npt.NDArray[np.float64]]:
    """Null vectors, phases and `fed` as they are brought to the owners of the chunks."""
    null = () if problem.nullspace is None else problem.nullspace.T
    named = {f"null vector {number}": vector for number, vector in enumerate(null)} | dict(problem.fed)
    if problem.phases is not None:
        named |= zip(PHASES, map(np.ascontiguousarray, (problem.phases.real, problem.phases.imag)), strict=True)
    return {name: problem.to_grid(vector) for name, vector in named.items()}


def in_fields(problem: MatrixProblem, chunks: int) -> MatrixProblem:
    """The matrix with so many chunks, each with consecutive rows of every field. InputError: a field has fewer rows."""
    pointers, first = on_host(problem.matrix).indptr, 0
    parts = []
    for size in problem.fields:
        of_field = RowPartition.by_entries(pointers[first : first + size + 1], chunks)
        parts.append(np.repeat(np.arange(chunks), of_field.sizes[0]))
        first += size
    return grouped(problem, np.concatenate(parts))


def _with_fields(problem: MatrixProblem, *, cuda: bool | None, cut: Cutter | None) -> MatrixProblem:
    """The cut matrix with its fields' in chunks of the same owners. InputError: a chunk has no row of a field."""
    assert problem.chunks is not None
    (sizes, *_), fields = problem.chunks, len(problem.fields)
    assert isinstance(sizes, tuple)
    of_row = np.repeat(np.arange(fields), problem.fields)
    of_row = of_row if problem.numbers is None else of_row[problem.numbers]
    chunk = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.zeros((fields, len(sizes)), dtype=np.int64)
    np.add.at(counts, (of_row, chunk), 1)
    if not counts.all():
        field, number = map(int, np.argwhere(counts == 0)[0])
        raise InputError(f"chunk {number} has no row of field {field}: each chunk needs rows of every field")
    inner, coefficients = [], dict(problem.coefficients)
    for number, each in enumerate(problem.inner):
        if len(sizes) > 1:
            numbers = np.arange(len(of_row)) if problem.numbers is None else problem.numbers
            own = min(number, fields - 1)
            mine = of_row == own
            parts = np.empty(problem.fields[own], dtype=np.int64)
            parts[numbers[mine] - sum(problem.fields[:own])] = chunk[mine]
            each = grouped(each, parts)
        made = planned(each, len(sizes), cuda=cuda, cut=cut)
        assert made.chunks is not None
        coefficients[FIELD_ROWS[number]] = RowsOfField(made.coefficients[ROWS], Partition(made.grid, made.chunks))
        inner.append(made)
    cut_fields = tuple(tuple(map(int, each)) for each in counts)
    return replace(problem, coefficients=coefficients, inner=tuple(inner), cut_fields=cut_fields)


def by_entries(problem: MatrixProblem, chunks: int) -> RowPartition:
    """Chunks of consecutive rows with about as many entries each; nodes stay whole."""
    rows, most = problem.grid[0], problem.grid[0] // problem.block
    if problem.block > 1 and not 1 <= chunks <= most:
        raise InputError(
            f"a matrix with {rows} rows in blocks of {problem.block} cannot be cut into {chunks} chunks: use 1 to "
            f"{most}"
        )
    if chunks == 1:
        return RowPartition(bounds=(0, rows))
    pointers = on_host(problem.matrix).indptr
    nodes = RowPartition.by_entries(pointers[:: problem.block], chunks)
    return RowPartition(bounds=tuple(problem.block * bound for bound in nodes.bounds))


def reordered(matrix: Any, numbers: npt.NDArray[np.int64]) -> Any:
    """Rows and columns of a matrix in another order, on the host."""
    rows = on_host(matrix)[numbers][:, numbers].tocsr()
    rows.sort_indices()
    return rows


def _check_formats(formats: str | None, counts: Sequence[ChunkCounts], *, gpu: bool) -> None:
    """Refuse a format that does not fit a chunk's rows, or the device."""
    for number, count in enumerate(counts if formats not in (None, MEASURE) else ()):
        try:
            chosen(formats, count.local, gpu=gpu)
        except ValueError as error:
            raise InputError(f"formats={formats!r} does not fit chunk {number}: {error}") from error


def grouped_rows(parts: Any, rows: int) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
    """Rows part after part, in their own order, and the rows of each part that has some. InputError: bad numbers."""
    numbers = np.asarray(parts)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu":
        raise InputError(
            f"partition must be 'rows', 'graph' or a part number for each of the {rows} rows, integers ({rows},), not "
            f"{numbers.dtype} {numbers.shape}"
        )
    if numbers.min() < 0:
        raise InputError(f"partition has the part number {numbers.min()}: parts are numbered from 0")
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    return order, tuple(np.unique(numbers, return_counts=True)[1].tolist())
