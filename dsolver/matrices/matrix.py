"""Systems with any sparse matrix, whose rows are cut into chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from operator import index
from typing import Any, Final, Literal, Self, final, get_args

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, in_a_line
from dsolver.grid.graph_partition import graph_parts, grouped_rows
from dsolver.grid.partition import HaloPlan, Partition
from dsolver.grid.row_partition import RowPartition, ghost_columns, local_numbers
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.look import Look
from dsolver.kernels.general.rows import split, whole
from dsolver.kernels.general.selection import MEASURE, chosen
from dsolver.matrices.checked import EntriesOnGpu, backend_of, checked, csr_of, entry, on_host
from dsolver.matrices.lattice_matrix import LatticeMatrix, on_lattice
from dsolver.matrices.null_vectors import near_null, orthonormal
from dsolver.monitor.notebook import facts, view
from dsolver.problems.problem import Problem, no_matrix

Order = Literal["rcm"]
"""Order of the rows in each chunk, by name: reverse Cuthill-McKee."""
PartitionName = Literal["rows", "graph"]
Formats = Literal["slices", "blocks", "octets", "chunks", "rows", "measure"]
"""Formats by name, and "measure" for the fastest one."""
BLOCKED: Final = ("blocks", MEASURE)
"""Formats for which blocks are looked for on CPUs, too."""
ROWS: Final = "rows"
"""Name under which a matrix is brought to the owners of its chunks."""
POSITIVE: Final = 0.2
"""Part of the couplings that may be positive where rows count as elliptic: with finite elements of second order it is
0.23, with elastic bodies 0.27, and algebraic multigrid gains little there."""
DOMINANT: Final = 0.1
"""Dominance of the diagonal up to which they do: beyond it few iterations of any kind are needed."""


@final
@dataclass(frozen=True, kw_only=True)
class RowBlock:
    """One chunk's rows of a matrix, in memory of the host or, of a chunk's owner in this process, on its GPU.

    Attributes:
        start: int64 (rows + 1,), row i has the entries start[i] .. start[i + 1].
        columns: int32, own columns from 0 in the order of the rows, then halo slots.
        values: float64.
        plan: what the chunk exchanges when the matrix is multiplied.
        order: int32 (rows,), which of the chunk's rows of A each one is; None where they are in A's order.
        formats: as of `matrix`.
        near: float64 (rows, k), the near-null space that was given, in A's order; None where none was.
        known: statistics of the entries in own columns; None where they have yet to be found.
    """

    start: Any
    columns: Any
    values: Any
    plan: HaloPlan
    order: npt.NDArray[np.int32] | None = None
    formats: str | None = None
    near: npt.NDArray[np.float64] | None = None
    known: Statistics | None = None

    def copy(self) -> Self:
        """The rows with memory of their own."""
        return replace(self, start=self.start.copy(), columns=self.columns.copy(), values=self.values.copy())

    @property
    def csr(self) -> Csr:
        """The rows as they lie."""
        return Csr(self.start, self.columns, self.values)

    @property
    def here(self) -> Self:
        """The rows in memory of the host."""
        if isinstance(self.start, np.ndarray):
            return self
        return replace(self, start=self.start.get(), columns=self.columns.get(), values=self.values.get())


@final
@dataclass(frozen=True, kw_only=True)
class ChunkCounts:
    """Counts of one chunk's rows, for forecasts.

    Attributes:
        rows: number of rows.
        boundary: rows that read other chunks' columns.
        ghosts: number of these columns.
        ghost_entries: entries in these columns.
        local: statistics of the entries in own columns.
    """

    rows: int
    boundary: int
    ghosts: int
    ghost_entries: int
    local: Statistics


class ChunkRows(ABC):
    """Rows of a matrix by chunk, here or on a cluster."""

    @abstractmethod
    def blocks(self, partition: Partition, *, host: bool) -> Mapping[int, Any]:
        """The `RowBlock` of every chunk of this partition, or its future, by number.

        Args:
            partition: the chunks.
            host: whether they must lie in memory of the host.
        """


def row_block(
    start: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    span: tuple[int, int],
    ghosts: npt.NDArray[np.int64],
    plan: HaloPlan,
    formats: str | None = None,
) -> RowBlock:
    """One chunk's rows.

    Args:
        start: int64 (rows + 1,), where rows begin, from 0.
        columns: global numbers.
        values: of the entries.
        span: the chunk's first row, and behind its last one.
        ghosts: of `ghost_columns`.
        plan: its halo exchange.
        formats: as of `matrix`.
    """
    numbers = local_numbers(np, columns, *span, ghosts)
    return RowBlock(start=start, columns=numbers, values=values, plan=plan, formats=formats)


def counts_of(block: RowBlock, blocks: Sequence[int] = BLOCKS) -> ChunkCounts:
    """Counts of one chunk's rows, with statistics for some sizes of blocks."""
    backend = backend_of(block.values)
    parts = (split if block.plan.slots else whole)(backend.xp, block.csr)
    return ChunkCounts(
        rows=parts.local.size,
        boundary=len(parts.boundary),
        ghosts=block.plan.slots,
        ghost_entries=len(parts.ghost.columns),
        local=block.known or backend.general.statistics(parts.local, parts.local.size, blocks),
    )


@final
class CutMatrix(ChunkRows):
    """A matrix in this process, cut into row blocks.

    Args:
        matrix: of `checked`; on a GPU if there is one chunk.
        partition: rows of each chunk.
        formats: as of `matrix`.
        near: float64 (rows, k), the near-null space of all rows, or None.
        blocks: sizes of blocks of which statistics are wanted.
    """

    def __init__(
        self,
        matrix: Any,
        partition: RowPartition,
        formats: str | None = None,
        near: Any = None,
        blocks: Sequence[int] = BLOCKS,
    ) -> None:
        self._matrix, self._partition, self._formats, self._near = matrix, partition, formats, near
        self._blocks = blocks

    @cached_property
    def _ghosts(self) -> list[npt.NDArray[np.int64]]:
        if self._partition.chunks == 1:
            return [np.zeros(0, dtype=np.int64)]
        return [ghost_columns(np, self._columns(a, b), a, b) for a, b in pairwise(self._partition.bounds)]

    @cached_property
    def plans(self) -> tuple[HaloPlan, ...]:
        """Halo exchange of each chunk."""
        return self._partition.halo_plans(self._ghosts)

    @property
    def senders(self) -> tuple[tuple[int, ...], ...]:
        """The chunks whose columns each chunk reads, ascending."""
        return tuple(tuple(source for source, _ in plan.receives) for plan in self.plans)

    def blocks(self, partition: Partition, *, host: bool) -> dict[int, RowBlock]:
        """The rows of every chunk of this partition, by number."""
        assert partition.sizes == self._partition.as_grid.sizes
        found = {number: replace(self._block(number), known=count.local) for number, count in enumerate(self.counts)}
        return {number: block.here for number, block in found.items()} if host else found

    @cached_property
    def counts(self) -> tuple[ChunkCounts, ...]:
        """Counts of each chunk."""
        return tuple(counts_of(self._block(number), self._blocks) for number in range(self._partition.chunks))

    def _columns(self, first: int, last: int) -> npt.NDArray[np.int64]:
        pointers = self._matrix.indptr
        columns: npt.NDArray[np.int64] = self._matrix.indices[pointers[first] : pointers[last]].astype(np.int64)
        return columns

    def _block(self, number: int) -> RowBlock:
        block = self._whole() if self._partition.chunks == 1 else self._part(number)
        if self._near is None:
            return block
        first, last = self._partition.bounds[number : number + 2]
        return replace(block, near=np.ascontiguousarray(self._near[first:last]))

    def _whole(self) -> RowBlock:
        """The only chunk, which has all columns: its rows are the matrix's, and share its memory."""
        start, columns, values = csr_of(self._matrix)
        return RowBlock(start=start, columns=columns, values=values, plan=self.plans[0], formats=self._formats)

    def _part(self, number: int) -> RowBlock:
        first, last = self._partition.bounds[number : number + 2]
        pointers = self._matrix.indptr[first : last + 1].astype(np.int64)
        return row_block(
            pointers - pointers[0],
            self._columns(first, last),
            self._matrix.data[pointers[0] : pointers[-1]],
            (first, last),
            self._ghosts[number],
            self.plans[number],
            self._formats,
        )


@final
@dataclass(frozen=True, kw_only=True)
class MatrixProblem(Problem):
    """A linear system with any sparse matrix. Make it with `dsolver.matrix`.

    To engines its rows are a grid (rows, 1, 1). Its right-hand sides and solutions have the shape (rows,).

    Attributes:
        matrix: the whole matrix, a CSR array of SciPy or `RowsOnGpu`; None on the owners of chunks, and where it lies
            on a cluster.
        order: of the rows in each chunk: "rcm", or None for A's.
        block: unknowns of a node: rows that belong together, and to one chunk; 1 where each stands for itself.
        formats: of its rows: see `matrix`.
        counts: of each chunk, once it is cut.
        partition: how rows go to chunks that are not chosen yet.
        numbers: int64 (rows,), the user's number of each row of `matrix`; None where that is its own.
        nullspace: float64 (rows, null_vectors), orthonormal vectors in the user's order; None where there are none.
        near: float64 (rows, near_vectors), the near-null space in the user's order; None where none was given.
        near_vectors: how many vectors that has.
        mirrored: whether A is known to have an entry (j, i) for each entry (i, j).
        negative: rows of which it is known that their diagonal is not positive.
    """

    matrix: Any = field(repr=False, compare=False, default=None)
    order: Order | None = None
    block: int = 1
    formats: Formats | None = None
    counts: tuple[ChunkCounts, ...] = field(repr=False, default=())
    partition: PartitionName = "rows"
    numbers: npt.NDArray[np.int64] | None = field(repr=False, compare=False, default=None)
    nullspace: npt.NDArray[np.float64] | None = field(repr=False, compare=False, default=None)
    near: npt.NDArray[np.float64] | None = field(repr=False, compare=False, default=None)
    near_vectors: int = 0
    mirrored: bool = field(repr=False, default=True)
    negative: int = field(repr=False, default=0)

    def __repr__(self) -> str:
        return f"<MatrixProblem {self.name}: {self.grid[0]} rows>"

    def _repr_html_(self) -> str:
        about = {
            "entries": None if self.matrix is None else f"{self.matrix.nnz:,}",
            "chunks": self._counted,
            "partition": self.partition,
            "order in each chunk": self.order,
            "formats": self.formats,
            "symmetric": f"no: {self.asymmetry}" if self.asymmetry else "yes",
            "diagonal": self.hollow,
            "null vectors": self.null_vectors or None,
        }
        return view(f"Matrix problem, {self.grid[0]:,} rows", facts(about))

    @property
    def lattice(self) -> bool:
        """False: its unknowns are rows."""
        return False

    @property
    def loaded(self) -> tuple[str, ...]:
        """The matrix."""
        return (ROWS,)

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows,)."""
        return self.grid[:1]

    @property
    def reordered(self) -> bool:
        """Whether rows were grouped by parts."""
        return self.numbers is not None

    def to_grid(self, values: Any) -> Any:
        """A vector (rows,) in the order of `matrix`, of the grid's shape."""
        flat = values.reshape(self.shape)
        return (flat if self.numbers is None else _taken(flat, self.numbers)).reshape(self.grid)

    def from_grid(self, values: Any) -> Any:
        """The inverse of `to_grid`."""
        flat = values.reshape(self.shape)
        return flat if self.numbers is None else _taken(flat, np.argsort(self.numbers))

    @property
    def graph(self) -> Any:
        """A matrix with symmetric columns, for partitions: an entry couples both its rows."""
        rows = on_host(self.matrix)
        return (abs(rows) + abs(rows.T)).tocsr() if self.asymmetry else rows

    def in_parts(self, chunks: int) -> MatrixProblem:
        """The matrix with so many chunks of rows that METIS puts together; nodes stay whole."""
        graph = self.graph if self.block == 1 else node_pattern(self.graph, self.block)
        return self.grouped(np.repeat(graph_parts(graph, chunks), self.block))

    def grouped(self, parts: Any) -> MatrixProblem:
        """The matrix with its rows part after part, a chunk for each.

        Args:
            parts: the part of each row, integers (rows,).

        Raises:
            InputError: they are not so many integers from 0 on.
        """
        numbers, sizes = grouped_rows(parts, self.grid[0])
        rows = on_host(self.matrix)[numbers][:, numbers].tocsr()
        rows.sort_indices()
        return replace(self, matrix=rows, numbers=numbers, chunks=(sizes, (1,), (1,)))

    def planned(self, chunks: int, *, cuda: bool = True) -> MatrixProblem:
        """The matrix cut into chunks: those that were asked for, or so many with about as many entries each.

        Args:
            chunks: how many.
            cuda: whether chunks may lie on GPUs, whose formats follow from more statistics.
        """
        if self.matrix is None or ROWS in self.coefficients:  # it was cut before it came
            return self
        if self.chunks is None and self.partition == "graph":
            return self.in_parts(min(chunks, self.grid[0] // self.block)).planned(chunks, cuda=cuda)
        if self.chunks is None:
            rows = _by_entries(self, min(chunks, self.grid[0] // self.block))
        else:
            along = Partition(self.grid, self.chunks).sizes[0]
            rows = RowPartition(bounds=(0, *np.cumsum(along).tolist()))
        near = self.near if self.near is None or self.numbers is None else self.near[self.numbers]
        blocks = BLOCKS if cuda or self.formats in BLOCKED else (1,)
        cut = CutMatrix(self.matrix if rows.chunks == 1 else on_host(self.matrix), rows, self.formats, near, blocks)
        _check_formats(self.formats, cut.counts)
        return replace(
            self,
            chunks=rows.as_grid.sizes,
            coefficients={ROWS: cut, **self._null_coefficients()},
            senders=cut.senders,
            counts=cut.counts,
        )

    @property
    def without_arrays(self) -> MatrixProblem:
        """This problem without the matrix, small enough to send anywhere."""
        return replace(self, coefficients={}, matrix=None, numbers=None, nullspace=None, near=None)

    def _null_coefficients(self) -> dict[str, npt.NDArray[np.float64]]:
        """Null vectors as they are brought to the owners of the chunks."""
        vectors = () if self.nullspace is None else self.nullspace.T
        return {f"null vector {number}": self.to_grid(vector) for number, vector in enumerate(vectors)}

    def _check_weights(self) -> None:
        """There are none."""


def matrix(
    A: Any,
    *,
    chunks: int | Sequence[int] | None = None,
    partition: PartitionName | Any = "rows",
    order: Order | None = None,
    formats: Formats | None = None,
    grid: Sequence[int] | None = None,
    nullspace: Any = None,
    near_nullspace: Any = None,
    block_size: int | None = None,
    name: str = "matrix",
) -> MatrixProblem | LatticeMatrix:
    """A linear system with any sparse matrix.

    Args:
        A: (n, n), of `scipy.sparse` or `cupyx.scipy.sparse` in any format, real. It is copied where it is no CSR matrix
            of float64 with sorted columns. Whether it is symmetric, up to the rounding of its assembly, is looked at.
            That of CuPy in CSR, CSC or COO is checked on its GPU, and stays there where one chunk is solved on it.
        chunks: how many, each with consecutive rows and about as many entries; or the number of rows of each; by
            default one for each worker.
        partition: which rows a chunk has. "rows": consecutive ones. "graph": those that METIS puts together, so that
            little is exchanged; it needs the extra `partition`. Or the part of each row, integers (n,), a chunk for
            each part. Vectors keep the order of A's rows.
        order: "rcm" stores each chunk's rows in reverse Cuthill-McKee order, so that rows which read each other lie
            close together. That makes products of meshes in a bad order faster; b and x keep A's order.
        grid: points along x, y, z (or x and y, or x) of the lattice that the rows are, in the order of ``numpy.ravel``
            (the last axis fastest). That A fits it is checked: each row may have entries for its 26 neighbors and
            itself. Multigrid (M="mg") then serves it as it serves a grid; chunks are given as for a grid, and vectors
            stay (n,).
        formats: in which rows are stored and multiplied. By default each chunk's follows from statistics of its rows
            (`dsolver.kernels.formats.choice`): the same one, and the same bits, in every run. A name is for all chunks:
            "chunks" (compressed rows, balanced: for rows of very different lengths), "slices" (32 rows side by side:
            for lattices and meshes), "blocks" (slices of blocks of 2, 3, 4 or 6 rows), "octets" (8 sorted rows side by
            side: for meshes on CPUs, which alone have them), "rows" (compressed rows as they are). "measure" has each
            owner time those that may be fast on its chunk: bits may then differ from run to run. `Solver.formats` tells
            what was taken.
        nullspace: (n,) or (n, k), independent vectors N with A N = 0, such as the rigid motions of an elastic body. b
            is made orthogonal to them, and the solution is. Constants are found by themselves.
        near_nullspace: (n,) or (n, k), independent vectors that A makes small, for multigrid by smoothed aggregation
            (``M=Algebraic(coarsening="aggregation")``): `dsolver.rigid_body_modes` for an elastic body. By default
            `nullspace`, or constants of each unknown of a node.
        block_size: unknowns of a node, such as three displacements: so many rows, one after the other, belong to one
            node and to one chunk. By default the rows of A's blocks if it is in BSR format, else 1.
        name: for reports.

    Returns:
        A problem for `dsolver.solve`, `dsolver.Solver`, `dsolver.cg` and the other methods. If constants solve A x = 0
        and Aᵀ x = 0, its solution has mean zero, and b is made to sum to zero.

    Raises:
        InputError: A is no square matrix of real and finite numbers, or has an empty row; it cannot be cut so, there is
            no such order, its rows do not fit the formats, or an entry does not fit the grid; A times a vector of
            `nullspace` is not zero; vectors are not finite or not independent; or nodes do not divide the rows.
    """
    if order is not None and order not in get_args(Order):
        raise InputError(f"order must be None or {' or '.join(map(repr, get_args(Order)))}, not {order!r}")
    if formats is not None and formats not in get_args(Formats):
        names = ", ".join(map(repr, get_args(Formats)))
        raise InputError(f"formats must be None or one of {names}, not {formats!r}")
    if not is_matrix(A):
        raise InputError(f"A must be a sparse matrix of SciPy or CuPy, not {no_matrix(A)}")
    rows, look = checked("A", A)
    _check_rows(look)
    if grid is not None:
        _check_no_options(partition, order, formats, nullspace, near_nullspace, block_size)
        _check_symmetric("grid=", _asymmetry(rows, look) or _zeros(look))
        return on_lattice(on_host(rows), grid, chunks=_cut(chunks), name=name)
    block = _block_of(A) if block_size is None else _checked_block(block_size, rows.shape[0])
    whole = replace(_whole(rows, look, name), order=order, formats=formats, block=block)
    return _partitioned(_with_vectors(whole, nullspace, near_nullspace), chunks, partition)


def _check_no_options(partition: Any, order: Any, formats: Any, nullspace: Any, near: Any, block_size: Any) -> None:
    """Refuse options that a matrix with grid= cannot have."""
    if order is not None or not (isinstance(partition, str) and partition == "rows"):
        raise InputError("a grid is cut into boxes and has orders of its own: leave partition= and order= out")
    if formats is not None:
        raise InputError("the rows of a grid have a format of their own: leave formats= out")
    if nullspace is not None:
        raise InputError("nullspace= is of a matrix without grid=, where constants alone are looked for")
    if near is not None or block_size is not None:
        raise InputError("near_nullspace= and block_size= are of a matrix without grid=: leave them out")


def _with_vectors(whole: MatrixProblem, nullspace: Any, near_nullspace: Any) -> MatrixProblem:
    """The problem with the vectors that A makes zero or small, where some were given."""
    constants = whole.singular is True
    if nullspace is not None:
        _check_symmetric("nullspace=", whole.asymmetry)
        vectors = orthonormal(on_host(whole.matrix), nullspace, constants=constants)
        whole = replace(whole, singular=False, nullspace=vectors, null_vectors=vectors.shape[1])
        constants = False
    if near_nullspace is None and nullspace is None:
        return whole
    near = near_null(whole.grid[0], near_nullspace, whole.nullspace, constants=constants)
    return replace(whole, near=near, near_vectors=near.shape[1])


def _cut(chunks: Any) -> Any:
    """Chunks of a grid."""
    if isinstance(chunks, int):
        raise InputError(f"chunks={chunks}, but with grid= they are numbers along x, y and z: give three")
    return chunks


def _whole(rows: Any, look: Look, name: str) -> MatrixProblem:
    """The problem of a matrix in canonical form that is not cut yet."""
    return MatrixProblem(
        name=name,
        grid=(rows.shape[0], 1, 1),
        offsets=((0, 0, 0),),
        singular=look.rows_cancel and look.columns_cancel,
        matrix=rows,
        asymmetry=_asymmetry(rows, look),
        hollow=_zeros(look),
        indefinite=look.negative > 0,
        elliptic=_is_elliptic(rows.shape[0], look),
        mirrored=look.mirrored,
        negative=look.negative,
    )


def _is_elliptic(count: int, look: Look) -> bool:
    """As `Problem.elliptic`. A row without couplings, or without a positive diagonal, counts as dominant."""
    return look.mirrored and look.positive <= POSITIVE * count and look.dominance <= DOMINANT * count


def _partitioned(problem: MatrixProblem, chunks: Any, partition: Any) -> MatrixProblem:
    """A problem with the chunks and the partition that were asked for.

    Raises:
        InputError: it cannot be cut so.
    """
    if not isinstance(partition, str):
        if chunks is not None:
            raise InputError("partition= gives a part to each row, and so the chunks: leave chunks= out")
        return problem.grouped(partition)
    if partition not in get_args(PartitionName):
        raise InputError(f"partition must be 'rows', 'graph' or a part number for each row, not {partition!r}")
    if partition == "graph" and chunks is not None and not isinstance(chunks, Integral):
        raise InputError("partition='graph' chooses the rows of each chunk: give chunks= as a number, or leave it out")
    if isinstance(chunks, Integral):  # NumPy's, too
        by_entries = _by_entries(problem, int(chunks))
        if partition == "graph":
            return problem.in_parts(int(chunks))
        chunks = by_entries.as_grid.sizes[0]
    sizes = None if chunks is None else (_extents(chunks, problem.grid[0]), (1,), (1,))
    return replace(problem, chunks=sizes, partition="graph" if partition == "graph" else "rows")


def _by_entries(problem: MatrixProblem, chunks: int) -> RowPartition:
    """Chunks of consecutive rows with about as many entries each; nodes stay whole."""
    rows, most = problem.grid[0], problem.grid[0] // problem.block
    if problem.block > 1 and not 1 <= chunks <= most:
        raise InputError(
            f"a matrix with {rows} rows in blocks of {problem.block} cannot be cut into {chunks} chunks: use 1 to "
            f"{most}"
        )
    if chunks == 1:
        return RowPartition(bounds=(0, rows))
    pointers = on_host(problem.matrix).indptr.astype(np.int64)
    nodes = RowPartition.by_entries(pointers[:: problem.block], chunks)
    return RowPartition(bounds=tuple(problem.block * bound for bound in nodes.bounds))


def node_pattern(rows: Any, size: int) -> Any:
    """The couplings of nodes: a CSR array of SciPy with an entry where any of their unknowns are coupled."""
    found = rows.tocoo()
    nodes = rows.shape[0] // size
    return type(rows)((found.data, (found.row // size, found.col // size)), shape=(nodes, nodes))


def _extents(chunks: Any, rows: int) -> tuple[int, ...]:
    """Numbers of rows of the chunks, from a list of any kind of integers.

    Raises:
        InputError: they are none, or not as many as there are rows.
    """
    try:
        extents = tuple(index(extent) for extent in chunks)
    except TypeError:
        raise InputError(f"chunks must be an integer, or the number of rows of each, not {in_a_line(chunks)}") from None
    if sum(extents) != rows or min(extents) < 1:
        raise InputError(
            f"chunks of {in_a_line(extents)} rows add up to {sum(extents)}, but A has {rows} rows, and each has one or "
            f"more"
        )
    return extents


def _taken(flat: Any, places: npt.NDArray[np.int64]) -> Any:
    """flat[places] of NumPy, CuPy or Dask."""
    on_device = type(flat).__module__.partition(".")[0] == "cupy"
    return flat[np.asarray(places, like=flat) if on_device else places]


def _check_formats(formats: str | None, counts: Sequence[ChunkCounts]) -> None:
    """Refuse a format that does not fit a chunk's rows."""
    for number, count in enumerate(counts if formats not in (None, MEASURE) else ()):
        try:
            chosen(formats, count.local, gpu=False)
        except ValueError as error:
            raise InputError(f"formats={formats!r} does not fit chunk {number}: {error}") from error


def is_matrix(A: Any) -> bool:
    """Whether it is a sparse matrix of SciPy or CuPy, or `EntriesOnGpu`."""
    known = hasattr(A, "tocsr") and hasattr(A, "nnz") and len(getattr(A, "shape", ())) == 2
    return known or isinstance(A, EntriesOnGpu)


def _block_of(A: Any) -> int:
    """Rows of the square blocks of a matrix in BSR format; 1 for any other."""
    rows, columns = getattr(A, "blocksize", (1, 1))
    return int(rows) if rows == columns else 1


def _checked_block(size: Any, rows: int) -> int:
    if not isinstance(size, Integral) or size < 1 or rows % int(size):
        raise InputError(f"block_size must be an integer >= 1 that divides the {rows} rows of A, not {size!r}")
    return int(size)


def _check_rows(look: Look) -> None:
    count, first = look.empty
    if count:
        raise InputError(f"A has {count} empty rows, the first is row {first}: take such rows out")


def _check_symmetric(name: str, found: str) -> None:
    if found:
        raise InputError(f"{name} is for symmetric matrices without zeros on the diagonal: {found}; leave it out")


def _zeros(look: Look) -> str:
    """Zeros on the diagonal, for messages; empty where there are none."""
    count, first = look.hollow
    return f"A has {count} zeros on its diagonal, the first in row {first}" if count else ""


def _asymmetry(rows: Any, look: Look) -> str:
    """The entries that differ most from those of the transpose, for messages; empty where none do."""
    if look.place is None:
        return ""
    i, j = look.place
    return f"A[{i}, {j}] = {entry(rows, i, j):.6g}, but A[{j}, {i}] = {entry(rows, j, i):.6g}"
