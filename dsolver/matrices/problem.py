"""Systems with any sparse matrix, whose rows are cut into chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.grid.graph_partition import graph_parts, grouped_rows
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import CHOSEN, blocks_of
from dsolver.kernels.general.selection import MEASURE, chosen
from dsolver.matrices.checked import on_host
from dsolver.matrices.cut import CutMatrix
from dsolver.matrices.elimination import Elimination
from dsolver.matrices.null_vectors import to_host
from dsolver.matrices.row_block import FIELD_ROWS, GIVEN, MASS, PARTS, ROWS, ChunkCounts, CutRows, RowsOfField
from dsolver.monitor.notebook import facts, view
from dsolver.problems.problem import Problem

Cutter = Callable[[Any, RowPartition, str | None, Any, Sequence[int]], CutRows]
"""Maker of `CutRows`, with the arguments of `CutMatrix`."""
Order = Literal["rcm"]
"""Order of the rows in each chunk, by name: reverse Cuthill-McKee."""
PartitionName = Literal["rows", "graph"]
Formats = Literal["slices", "blocks", "octets", "chunks", "rows", "measure"]
"""Formats by name, and "measure" for the fastest one."""
BLOCKED: Final = ("blocks", MEASURE)
"""Formats for which blocks of any size are looked for, on CPUs, too."""


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
        near: float64 (rows, near_vectors), the near-null space in the user's order, where the matrix lies; None where
            none was given.
        near_vectors: how many vectors that has.
        mirrored: whether A is known to have an entry (j, i) for each entry (i, j).
        opened: rows whose entries do not add up to zero; None where that is not known.
        negative: rows of which it is known that their diagonal is not positive.
        dominant: whether the diagonal is known to be positive, and far more than the rest of its row in the mean.
        dominated: whether A is known to be symmetric, and the diagonal more than the rest in each row, too.
        hubs: whether few rows are known to be far longer than the others.
        given: the matrix whose residuals count where `matrix` has other entries: see
            `dsolver.matrices.solved_matrix`; None where it has not.
        given_senders: as `senders`, of `given`.
        given_counts: as `counts`, of `given`.
        parts: of a complex matrix the real and the imaginary one, for which `matrix` stands in M; of an eigenvalue
            problem its mass matrix, if it has one; else ().
        of_grid: the problem on a grid whose rows these are, in the order of ``numpy.ravel``; None where there is none.
        fed: of such a grid, by name, float64 (rows,): volumes, and the parts of what its faces add to right-hand sides.
        part_senders: as `senders`, of each.
        part_counts: as `counts`, of each.
        negated: whether `matrix` and `given` are those of -A.
        exponent: of two, by which the entries of `matrix` and `given` were multiplied.
        known: whether rows tell their unknown alone, which is then set before a solve begins.
        fields: rows of each field, one after the other, where A was made of blocks; else ().
        diagonal: of each field the problem that its block on the diagonal came as; None where it was no problem.
        inner: matrices from which the preconditioner of each field is made, in the order of the field's rows.
        signs: of each field's pivot, over that of its `inner`; see `dsolver.matrices.composed.blocks.FieldMatrix`.
        cut_fields: rows of each field in each chunk, once they are cut.
        elimination: tells how large the factors of `matrix` are, where that is here.
    """

    matrix: Any = field(repr=False, compare=False, default=None)
    order: Order | None = None
    block: int = 1
    formats: Formats | None = None
    counts: tuple[ChunkCounts, ...] = field(repr=False, default=())
    partition: PartitionName = "rows"
    numbers: npt.NDArray[np.int64] | None = field(repr=False, compare=False, default=None)
    nullspace: npt.NDArray[np.float64] | None = field(repr=False, compare=False, default=None)
    near: Any = field(repr=False, compare=False, default=None)
    near_vectors: int = 0
    mirrored: bool = field(repr=False, default=True)
    opened: int | None = field(repr=False, default=None)
    negative: int = field(repr=False, default=0)
    dominant: bool = field(repr=False, default=False)
    dominated: bool = field(repr=False, default=False)
    hubs: bool = field(repr=False, default=False)
    given: Any = field(repr=False, compare=False, default=None)
    given_senders: tuple[tuple[int, ...], ...] | None = field(repr=False, default=None)
    given_counts: tuple[ChunkCounts, ...] = field(repr=False, default=())
    parts: tuple[Any, ...] = field(repr=False, compare=False, default=())
    of_grid: Problem | None = field(repr=False, compare=False, default=None)
    fed: Mapping[str, npt.NDArray[np.float64]] = field(repr=False, compare=False, default_factory=dict)
    part_senders: tuple[tuple[tuple[int, ...], ...] | None, ...] = field(repr=False, default=())
    part_counts: tuple[tuple[ChunkCounts, ...], ...] = field(repr=False, default=())
    elimination: Elimination | None = field(repr=False, compare=False, default=None)
    negated: bool = field(repr=False, default=False)
    exponent: int = field(repr=False, default=0)
    known: bool = field(repr=False, default=False)
    fields: tuple[int, ...] = ()
    diagonal: tuple[MatrixProblem | None, ...] = field(repr=False, compare=False, default=())
    inner: tuple[MatrixProblem, ...] = field(repr=False, compare=False, default=())
    signs: tuple[float, ...] = field(repr=False, default=())
    cut_fields: tuple[tuple[int, ...], ...] = field(repr=False, default=())

    def __repr__(self) -> str:
        return f"<MatrixProblem {self.name}: {self.grid[0]} rows>"

    def _repr_html_(self) -> str:
        about = {
            "entries": None if self.matrix is None else f"{self.matrix.nnz:,}",
            "chunks": self._counted,
            "partition": self.partition,
            "order in each chunk": self.order,
            "formats": self.formats,
            "numbers": "complex" if self.complex else None,
            "symmetric": f"no: {self.asymmetry}" if self.asymmetry else "Hermitian" if self.hermitian else "yes",
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
        """(rows,), or that of the grid whose rows they are."""
        return self.grid[:1] if self.of_grid is None else self.of_grid.shape

    @property
    def flat(self) -> bool:
        """Whether vectors have the shape (rows,)."""
        return self.of_grid is None

    @property
    def all_count(self) -> bool:
        """Whether every value of b counts; see `Problem`."""
        return self.of_grid is None or self.of_grid.all_count

    @property
    def entries(self) -> int:
        """Entries of the matrix, once it is cut."""
        return sum(count.local.entries + count.ghost_entries for count in self.counts)

    @property
    def may_have_pieces(self) -> bool:
        """Whether there may be pieces that nothing fixes, which have not been looked for."""
        some = self.opened is None or self.opened < self.grid[0]
        return some and self.singular is False and not self.asymmetry and not self.null_vectors

    @property
    def guided(self) -> bool:
        """Whether a near-null space was given that has more than A's null vectors, or constants."""
        return self.near_vectors > max(1, self.null_vectors)

    @property
    def numbering(self) -> npt.NDArray[np.int64] | None:
        """`numbers`."""
        return self.numbers

    def to_scipy(self) -> Any:
        """A as a CSR array of SciPy, real or complex, as it was given.

        Raises:
            InputError: A is a function, or lies on a cluster.
        """
        self._check_rows()
        if self.matrix is None:
            raise InputError("this matrix lies on a cluster, in rows of its workers: it is not brought to this process")
        if self.parts:
            found = self.parts[0] + 1j * self.parts[1]
        else:
            found = on_host(self.matrix if self.given is None else self.given)
            found = found * math.ldexp(-1.0 if self.negated else 1.0, -self.exponent)
        if self.numbers is not None:
            found = _reordered(found, np.argsort(self.numbers))
        return found.tocsr()

    def to_grid(self, values: Any) -> Any:
        """A vector (rows,) in the order of `matrix`, of the grid's shape."""
        flat = values.reshape(self.grid[:1])
        return (flat if self.numbers is None else _taken(flat, self.numbers)).reshape(self.grid)

    def from_grid(self, values: Any) -> Any:
        """The inverse of `to_grid`."""
        flat = values.reshape(self.grid[:1])
        return (flat if self.numbers is None else _taken(flat, np.argsort(self.numbers))).reshape(self.shape)

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
        given = None if self.given is None else _reordered(self.given, numbers)
        chunks, parts = (sizes, (1,), (1,)), tuple(_reordered(part, numbers) for part in self.parts)
        rows = _reordered(self.matrix, numbers)
        return replace(self, matrix=rows, given=given, parts=parts, numbers=numbers, chunks=chunks)

    def planned(self, chunks: int, *, cuda: bool | None = None, cut: Cutter | None = None) -> MatrixProblem:
        """The matrix cut into chunks: those that were asked for, or so many with about as many entries each.

        Args:
            chunks: how many.
            cuda: whether chunks lie on GPUs, whose formats follow from more statistics; None for all statistics.
            cut: what cuts a matrix; by default `CutMatrix`, in this process.
        """
        if self.matrix is None or ROWS in self.coefficients:  # it was cut before it came
            return self
        if self.fields and self.chunks is None and min(chunks, *self.fields) > 1:
            return self.in_fields(min(chunks, *self.fields)).planned(chunks, cuda=cuda, cut=cut)
        if self.chunks is None and self.partition == "graph":
            return self.in_parts(min(chunks, self.grid[0] // self.block)).planned(chunks, cuda=cuda, cut=cut)
        if self.chunks is None:
            rows = self.by_entries(min(chunks, self.grid[0] // self.block))
        else:
            along = Partition(self.grid, self.chunks).sizes[0]
            rows = RowPartition(bounds=tuple(accumulate(along, initial=0)))
        near = self.near if self.near is None or (rows.chunks == 1 and self.numbers is None) else to_host(self.near)
        near = near if near is None or self.numbers is None else near[self.numbers]
        blocks: tuple[int, ...] = CHOSEN if cuda else (1,)
        if cuda is None or self.formats in BLOCKED:
            blocks = BLOCKS
        if self.block > 1 and self.formats is None:
            blocks = tuple(b for b in blocks_of(self.block) if b in blocks)
        cutter: Cutter = CutMatrix if cut is None else cut
        whole = self.matrix if rows.chunks == 1 and cut is None else on_host(self.matrix)
        made_of = cutter(whole, rows, self.formats, near, blocks)
        _check_formats(self.formats, made_of.counts)
        made = replace(
            self,
            chunks=rows.sizes,
            coefficients={ROWS: made_of, **self._null_coefficients(), **self._fed_coefficients()},
            senders=made_of.senders,
            counts=made_of.counts,
        )
        if self.fields:
            made = made._with_fields(cuda=cuda, cut=cut)
        parts = [cutter(part, rows, None, None, blocks) for part in self.parts]
        if parts:
            made = replace(
                made,
                coefficients={**made.coefficients, **dict(zip(PARTS if self.complex else (MASS,), parts, strict=True))},
                part_senders=tuple(part.senders for part in parts),
                part_counts=tuple(part.counts for part in parts),
            )
        if self.given is None:
            return made
        given = cutter(self.given, rows, None, None, blocks)
        return replace(
            made,
            coefficients={**made.coefficients, GIVEN: given},
            given_senders=given.senders,
            given_counts=given.counts,
        )

    def in_fields(self, chunks: int) -> MatrixProblem:
        """The matrix with so many chunks, each of which has consecutive rows of every field.

        Raises:
            InputError: a field has fewer rows.
        """
        pointers, first = on_host(self.matrix).indptr, 0
        parts = []
        for size in self.fields:
            of_field = RowPartition.by_entries(pointers[first : first + size + 1], chunks)
            parts.append(np.repeat(np.arange(chunks), of_field.sizes[0]))
            first += size
        return self.grouped(np.concatenate(parts))

    def _with_fields(self, *, cuda: bool | None, cut: Cutter | None) -> MatrixProblem:
        """The matrix, which is cut, with those of its fields in chunks of the same owners.

        Raises:
            InputError: a chunk has no row of a field.
        """
        assert self.chunks is not None
        (sizes, *_), fields = self.chunks, len(self.fields)
        assert isinstance(sizes, tuple)
        of_row = np.repeat(np.arange(fields), self.fields)
        of_row = of_row if self.numbers is None else of_row[self.numbers]
        chunk = np.repeat(np.arange(len(sizes)), sizes)
        counts = np.zeros((fields, len(sizes)), dtype=np.int64)
        np.add.at(counts, (of_row, chunk), 1)
        if not counts.all():
            field, number = map(int, np.argwhere(counts == 0)[0])
            raise InputError(f"chunk {number} has no row of field {field}: each chunk needs rows of every field")
        inner, coefficients = [], dict(self.coefficients)
        for number, each in enumerate(self.inner):
            if len(sizes) > 1:
                numbers = np.arange(len(of_row)) if self.numbers is None else self.numbers
                mine = of_row == number
                parts = np.empty(self.fields[number], dtype=np.int64)
                parts[numbers[mine] - sum(self.fields[:number])] = chunk[mine]
                each = each.grouped(parts)
            made = each.planned(len(sizes), cuda=cuda, cut=cut)
            assert made.chunks is not None
            coefficients[FIELD_ROWS[number]] = RowsOfField(made.coefficients[ROWS], Partition(made.grid, made.chunks))
            inner.append(made)
        cut_fields = tuple(tuple(map(int, each)) for each in counts)
        return replace(self, coefficients=coefficients, inner=tuple(inner), cut_fields=cut_fields)

    def by_entries(self, chunks: int) -> RowPartition:
        """Chunks of consecutive rows with about as many entries each; nodes stay whole."""
        rows, most = self.grid[0], self.grid[0] // self.block
        if self.block > 1 and not 1 <= chunks <= most:
            raise InputError(
                f"a matrix with {rows} rows in blocks of {self.block} cannot be cut into {chunks} chunks: use 1 to "
                f"{most}"
            )
        if chunks == 1:
            return RowPartition(bounds=(0, rows))
        pointers = on_host(self.matrix).indptr
        nodes = RowPartition.by_entries(pointers[:: self.block], chunks)
        return RowPartition(bounds=tuple(self.block * bound for bound in nodes.bounds))

    @property
    def without_arrays(self) -> MatrixProblem:
        """This problem without the matrix, small enough to send anywhere."""
        return replace(
            self,
            coefficients={},
            matrix=None,
            given=None,
            parts=(),
            numbers=None,
            nullspace=None,
            near=None,
            elimination=None,
            diagonal=(),
            inner=tuple(each.without_arrays for each in self.inner),
            of_grid=None if self.of_grid is None else self.of_grid.without_arrays,
            fed={},
        )

    def _null_coefficients(self) -> dict[str, npt.NDArray[np.float64]]:
        """Null vectors as they are brought to the owners of the chunks."""
        vectors = () if self.nullspace is None else self.nullspace.T
        return {f"null vector {number}": self.to_grid(vector) for number, vector in enumerate(vectors)}

    def _fed_coefficients(self) -> dict[str, npt.NDArray[np.float64]]:
        """`fed` as it is brought to the owners of the chunks."""
        return {name: self.to_grid(vector) for name, vector in self.fed.items()}

    def _check_weights(self) -> None:
        """There are none."""


def node_pattern(rows: Any, size: int) -> Any:
    """The couplings of nodes: a CSR array of SciPy with an entry where any of their unknowns are coupled."""
    found = rows.tocoo()
    nodes = rows.shape[0] // size
    return type(rows)((found.data, (found.row // size, found.col // size)), shape=(nodes, nodes))


def _reordered(matrix: Any, numbers: npt.NDArray[np.int64]) -> Any:
    """Rows and columns of a matrix in another order, on the host."""
    rows = on_host(matrix)[numbers][:, numbers].tocsr()
    rows.sort_indices()
    return rows


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
