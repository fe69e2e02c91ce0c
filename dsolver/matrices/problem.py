"""Systems with any sparse matrix, whose rows are cut into chunks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.grid.box import Offsets
from dsolver.grid.partition import Partition
from dsolver.kernels.general.selection import FormatName
from dsolver.matrices.checked import RowsOnGpu, backend_of, on_host, to_gpu
from dsolver.matrices.chunks.plan import Cutter, planned, reordered
from dsolver.matrices.chunks.row_block import ROWS, ChunkCounts
from dsolver.matrices.elimination import Elimination
from dsolver.monitor.pages.notebook import facts, view
from dsolver.problems.problem import Problem

Order = Literal["rcm"]  # order of the rows in each chunk, by name: reverse Cuthill-McKee
PartitionName = Literal["rows", "graph"]
Formats = Literal[FormatName, "measure"]
"""Formats by name, and "measure" for the fastest one."""


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
        nullspace: float64 (rows, null_vectors), orthonormal vectors in the user's order; None where there are none.
        near: float64 (rows, near_vectors), the near-null space in the user's order, where the matrix lies; None where
            none was given.
        near_vectors: how many vectors that has.
        mirrored: whether A is known to have an entry (j, i) for each entry (i, j).
        opened: rows whose entries do not add up to zero; None where that is not known.
        negative: rows of which it is known that their diagonal is not positive.
        uneven: whether rows or columns are known to differ in size so that a residual tells nothing of small ones.
        skewness: the largest |a_ij - a_ji| / (|a_ij| + |a_ji|) of couplings both ways; 1 where it is not known, or more
            than few are one-way.
        reach: rows over which an error that is fed in one of them dies out; inf where most rows add up to zero, or
            that is not known.
        dominant: whether the diagonal is known to be positive, and far more than the rest of its row in the mean.
        dominated: whether A is known to be symmetric, and the diagonal more than the rest in each row, too.
        hubs: whether few rows are known to be far longer than the others, or most rows to be a few steps apart.
        given: the matrix whose residuals count where `matrix` has other entries: see
            `dsolver.matrices.solved_matrix`; None where it has not.
        given_senders: as `senders`, of `given`.
        given_counts: as `counts`, of `given`.
        parts: of a complex matrix the real and the imaginary one, for which `matrix` stands in M; of an eigenvalue
            problem its mass matrix, if it has one; else ().
        quadrant: of a complex symmetric matrix (s, t), each 1 or -1, where s Re A and t Im A have no negative number on
            their diagonals and no row that adds up to less than zero; else None.
        phases: complex128 (rows,), d with |d_i| = 1, of a Hermitian matrix: `matrix` stands for Dᴴ A D; None for ones.
        of_grid: the problem on a grid whose rows these are, in the order of ``numpy.ravel``; None where there is none.
        fed: of such a grid, by name, float64 (rows,): volumes, and the parts of what its faces add to right-hand sides.
        part_senders: as `senders`, of each.
        part_counts: as `counts`, of each.
        negated: whether `matrix` and `given` are those of -A.
        exponent: of two, by which the entries of `matrix` and `given` were multiplied.
        known: whether rows tell their unknown alone, which is then set before a solve begins.
        empty: rows of zeros in `given` that have a diagonal in `matrix`, each a piece that nothing fixes.
        fields: rows of each field, one after the other, where A was made of blocks; else ().
        multipliers: how many of the last rows are: see `dsolver.matrices.multipliers`.
        diagonal: of each field the problem that its block on the diagonal came as; None where it was no problem.
        inner: matrices from which the preconditioner of each field is made, in the order of the field's rows; further
            ones are of the last field.
        signs: of each field's pivot, over that of its `inner`; see `dsolver.matrices.composed.blocks.FieldMatrix`.
        cut_fields: rows of each field in each chunk, once they are cut.
        ahead: rows that were sent to workers before `matrix` was looked at, which may be its rows; None for none.
        elimination: tells how large the factors of `matrix` are, where that is here.
    """

    offsets: Offsets = field(repr=False, default=((0, 0, 0),))
    matrix: Any = field(repr=False, compare=False, default=None)
    order: Order | None = None
    block: int = 1
    formats: Formats | None = None
    counts: tuple[ChunkCounts, ...] = field(repr=False, default=())
    partition: PartitionName = "rows"
    nullspace: npt.NDArray[np.float64] | None = field(repr=False, compare=False, default=None)
    near: Any = field(repr=False, compare=False, default=None)
    near_vectors: int = 0
    mirrored: bool = field(repr=False, default=True)
    opened: int | None = field(repr=False, default=None)
    negative: int = field(repr=False, default=0)
    uneven: bool = field(repr=False, default=False)
    skewness: float = field(repr=False, default=1.0)
    reach: float = field(repr=False, default=math.inf)
    dominant: bool = field(repr=False, default=False)
    dominated: bool = field(repr=False, default=False)
    hubs: bool = field(repr=False, default=False)
    given: Any = field(repr=False, compare=False, default=None)
    given_senders: tuple[tuple[int, ...], ...] | None = field(repr=False, default=None)
    given_counts: tuple[ChunkCounts, ...] = field(repr=False, default=())
    parts: tuple[Any, ...] = field(repr=False, compare=False, default=())
    quadrant: tuple[float, float] | None = field(repr=False, default=None)
    phases: npt.NDArray[np.complex128] | None = field(repr=False, compare=False, default=None)
    of_grid: Problem | None = field(repr=False, compare=False, default=None)
    fed: Mapping[str, npt.NDArray[np.float64]] = field(repr=False, compare=False, default_factory=dict)
    part_senders: tuple[tuple[tuple[int, ...], ...] | None, ...] = field(repr=False, default=())
    part_counts: tuple[tuple[ChunkCounts, ...], ...] = field(repr=False, default=())
    elimination: Elimination | None = field(repr=False, compare=False, default=None)
    ahead: Any = field(repr=False, compare=False, default=None)
    negated: bool = field(repr=False, default=False)
    exponent: int = field(repr=False, default=0)
    known: bool = field(repr=False, default=False)
    empty: int = field(repr=False, default=0)
    fields: tuple[int, ...] = ()
    multipliers: int = field(repr=False, default=0)
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
        return some and self.singular is False and not (self.asymmetry or self.null_vectors or self.empty)

    @property
    def split(self) -> tuple[int, ...]:
        """`fields`; where there are none, and no several chunks, the rows before multipliers of A itself and these."""
        cut = self.chunks is not None and len(Partition(self.grid, self.chunks)) > 1
        beside = self.complex or self.operator is not None  # the matrix stands for A in M alone
        if self.fields or cut or beside or self.partition != "rows" or not self.multipliers:
            return self.fields
        return self.grid[0] - self.multipliers, self.multipliers

    @property
    def guided(self) -> bool:
        """Whether a near-null space was given that has more than A's null vectors, or constants."""
        return self.near_vectors > max(1, self.null_vectors)

    def to_scipy(self) -> Any:
        """A as a CSR array of SciPy, real or complex, as it was given. InputError: A is a function, or on a cluster."""
        self._check_rows()
        if self.matrix is None:
            raise InputError("this matrix lies on a cluster, in rows of its workers: it is not brought to this process")
        if self.parts:
            found = (on_host(self.parts[0]) + 1j * on_host(self.parts[1])) * (-1.0 if self.negated else 1.0)
        else:
            found = on_host(self.matrix if self.given is None else self.given)
            found = found * math.ldexp(-1.0 if self.negated else 1.0, -self.exponent)
        if self.numbers is not None:
            found = reordered(found, np.argsort(self.numbers))
        return found.tocsr()

    def to_grid(self, values: Any) -> Any:
        """A vector (rows,) in the order of `matrix`, of the grid's shape."""
        flat = values.reshape(self.grid[:1])
        return (flat if self.numbers is None else _taken(flat, self.numbers)).reshape(self.grid)

    def from_grid(self, values: Any) -> Any:
        """The inverse of `to_grid`."""
        flat = values.reshape(self.grid[:1])
        return (flat if self.numbers is None else _taken(flat, np.argsort(self.numbers))).reshape(self.shape)

    def planned(self, chunks: int, *, cuda: bool | None = None, cut: Cutter | None = None) -> MatrixProblem:
        """The matrix cut into chunks: see `dsolver.matrices.chunks.plan.planned`."""
        return planned(self, chunks, cuda=cuda, cut=cut)

    def on_gpu(self) -> MatrixProblem:
        """This problem with its matrix on the GPU of this process, where it is solved in one chunk."""
        several = self.chunks is not None and len(Partition(self.grid, self.chunks)) > 1
        elsewhere = self.matrix is None or ROWS in self.coefficients  # on a cluster, or cut already
        if elsewhere or several or self.split or self.partition != "rows" or self.numbers is not None:
            return self
        rows = to_gpu(self.matrix)
        if not isinstance(rows, RowsOnGpu):
            return self
        near = None if self.near is None else backend_of(rows.data).asarray(self.near)
        given = None if self.given is None else to_gpu(self.given)
        parts = tuple(map(to_gpu, self.parts)) if self.complex else self.parts
        return replace(self, matrix=rows, given=given, parts=parts, near=near)

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
            phases=None,
            near=None,
            ahead=None,
            elimination=None,
            diagonal=(),
            inner=tuple(each.without_arrays for each in self.inner),
            of_grid=None if self.of_grid is None else self.of_grid.without_arrays,
            fed={},
        )

    def _check_weights(self) -> None:
        """Nothing: a matrix has no weights."""


def _taken(flat: Any, places: npt.NDArray[np.int64]) -> Any:
    """flat[places] of NumPy, CuPy or Dask."""
    on_device = type(flat).__module__.partition(".")[0] == "cupy"
    return flat[np.asarray(places, like=flat) if on_device else places]
