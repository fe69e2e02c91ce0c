"""What a backend offers: memory, the set-up of a chunk's data, and one method for each kernel of the contract."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels import transfers
from dsolver.kernels.batched import Batched
from dsolver.kernels.coarsening import Coarsening, couplings, jumps
from dsolver.kernels.contract import FAN_IN
from dsolver.kernels.fluxes import Fluxes, star
from dsolver.kernels.fused import Fused
from dsolver.kernels.layout import Array, DenseInverse, HaloLayout, Layout, Route

if TYPE_CHECKING:
    from dsolver.kernels.algebraic.rows import Rows
    from dsolver.kernels.cpu.team import Team
    from dsolver.kernels.star import StarTransfer
    from dsolver.kernels.stencil import ConstantStencil


@dataclass(frozen=True, kw_only=True)
class StencilRows:
    """Matrix rows of a box of grid points: the same K offsets in every row, a value for each.

    Attributes:
        shape: points of the box along x, y, z; row number i + nx * (j + ny * k).
        numbering: int32 ((nx + 2) * (ny + 2) * (nz + 2),), the box with one more layer on each side, x fastest: the row
            number of an own point, rows + s for halo slot s, -1 outside the domain.
        offsets: the K offsets (di, dj, dk), each in -1 .. 1; (0, 0, 0) is the diagonal and must be among them.
        weights: float64 (K,) for one value per offset, or (K, rows) for one per row.
        halo: whether there may be halo slots in the numbering.
    """

    shape: tuple[int, int, int]
    numbering: Array
    offsets: tuple[tuple[int, int, int], ...]
    weights: Array
    halo: bool = True

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    def steps(self) -> npt.NDArray[np.int64]:
        """Distance of each offset in `numbering`: int64 (K,)."""
        nx, ny, _ = self.shape
        stride = (1, nx + 2, (nx + 2) * (ny + 2))
        return np.array([sum(d * s for d, s in zip(o, stride, strict=True)) for o in self.offsets], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Candidate entries of matrix rows: the same number K of them in every row. Nothing here knows of a grid.

    Attributes:
        columns: int32 (K, rows), the number of each entry's column: an own one, own columns + s for halo slot s, or
            -1 for none.
        values: float64 (K, rows).
        halo: whether there may be halo slots among the columns.
    """

    columns: Array
    values: Array
    halo: bool = True


class Backend(Fused):
    """The kernels of one device. Array arguments live on that device; see `dsolver.kernels.contract` for the kernels.

    Attributes:
        name: "numpy", "cpu" or "cuda".
        guard: number of zero items before the first and after the last item of vectors in storage order.
        xp: the array module (numpy or cupy).
        dtype: the value type of vectors and of what is stored of matrices. Scalars, partial dot products, weights and
            blocks of values are float64 whatever it is.
        threads: that share a chunk's loops.

    Args:
        dtype: the value type, "float64" or "float32".
    """

    name: str
    guard: int
    xp: Any
    dtype: np.dtype[Any]
    threads: int = 1

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = np.dtype(dtype)

    @property
    def host_threads(self) -> int:
        """Threads that share what set-up does on the host."""
        return self.threads

    def lowered(self, dtype: str) -> Backend:
        """The same kernels for vectors and matrices of another value type."""
        from dsolver.kernels import load

        return load(self.name, self.threads, dtype)

    def batched(self, width: int) -> Batched:
        """The same kernels for vectors of so many columns."""
        return Batched(self, width)

    def kernel(self, name: str) -> Callable[..., None]:
        """The implementation of the kernel of this name."""
        found: Callable[..., None] = getattr(self, name)  # each is checked against the contract by a test
        return found

    def zeros(self, size: int, dtype: str | None = None) -> Array:
        """A vector (size,) of zeros on the device, in the backend's value type or another."""
        return self.xp.zeros(size, dtype or self.dtype)

    def sums(self, count: int) -> Array:
        """float64 (count,) of zeros on the device: room for scalars and partial dot products."""
        return self.xp.zeros(count)

    def asarray(self, values: Any) -> Array:
        """The values as an array on the device; no copy when they are one already."""
        return self.xp.asarray(values)

    @abstractmethod
    def to_host(self, values: Array) -> npt.NDArray[Any]:
        """The values as a NumPy array."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all kernels launched by this thread have run."""

    def tidy(self) -> None:  # a CPU's memory needs none
        """Give back what set-up has freed, where it is much of what is left of the device's memory.

        A pool would cut it for smaller arrays that stay; the rest of it then serves no larger one.
        """

    # -- set-up: once for each chunk and level -------------------------------------------------------------------

    @abstractmethod
    def layout(self, color: Array, colors: int, shape: tuple[int, int, int]) -> Layout:
        """Storage order of rows whose colors (int32 (rows,), 0 .. colors - 1) are given in lattice order."""

    def plain_layout(self, shape: tuple[int, int, int]) -> Layout:
        """The storage order of a box of rows that is their lattice order: one color."""
        return self.layout(self.xp.zeros(math.prod(shape), dtype=np.int32), 1, shape)

    def lattice_layout(
        self, classes: Sequence[npt.NDArray[np.int_]], colors: npt.NDArray[np.int32], shape: tuple[int, int, int]
    ) -> Layout:
        """The storage order of a box of rows whose colors follow from a class along each axis.

        Args:
            classes: of the places along x, y, z: (nx,), (ny,), (nz,), in 0 .. k - 1.
            colors: int32 (k, k, k), the color of the classes along z, y, x; each from 0 to the largest is there.
            shape: the box's points along x, y, z.
        """
        x, y, z = (self.xp.asarray(axis) for axis in classes)
        kinds = len(colors)
        number = x[None, None, :] + kinds * (y[None, :, None] + kinds * z[:, None, None])
        color = self.xp.asarray(colors.reshape(-1))[number.reshape(-1)]
        return self.layout(color, int(colors.max()) + 1, shape)

    def numbers(self, shape: tuple[int, int, int]) -> Array:
        """int32 (nz + 2, ny + 2, nx + 2): the row numbers of a box's points, x fastest, and -1 around them."""
        nx, ny, nz = shape
        out = self.xp.full((nz + 2, ny + 2, nx + 2), -1, dtype=np.int32)
        out[1:-1, 1:-1, 1:-1] = self.xp.arange(nx * ny * nz, dtype=np.int32).reshape(nz, ny, nx)
        return out

    def star(self, fluxes: Fluxes) -> Array:
        """The rows of finite volumes, float64 (7, nz, ny, nx): see `fluxes.star`."""
        return star(self.xp, fluxes)

    @abstractmethod
    def matrix(self, layout: Layout, rows: StencilRows | Entries, coarse: Array | None) -> Any:
        """The local part of a chunk's matrix in this backend's own form.

        Args:
            layout: the storage order of the rows.
            rows: where the entries come from.
            coarse: bool (rows,), True at coarse points; None on the last level.

        Raises:
            ZeroDivisionError: a row has no diagonal entry or a zero one.
        """

    @abstractmethod
    def constant_matrix(self, stencil: ConstantStencil) -> Any:
        """The local part of a chunk's matrix that is not stored, in this backend's own form.

        It takes the place of A in `spmv`, `spmv_dot`, `forward`, `upper_residual`, `lower_residual` and `backward`;
        vectors are in lattice order.
        """

    @abstractmethod
    def constant_transfer(self, transfer: StarTransfer) -> Any:
        """The way between a constant stencil and the next coarser level, in this backend's own form."""

    @abstractmethod
    def halo_matrix(self, layout: Layout, rows: StencilRows) -> Any:
        """The entries of a chunk's rows in columns that are halo slots, in this backend's own form.

        It has a `size`, the number of boundary rows.
        """

    @abstractmethod
    def scale_diagonal(self, matrix: Any, factors: Array) -> Any:
        """The same matrix with the diagonal multiplied by a block of factors, shape (nx, ny, nz)."""

    @abstractmethod
    def compacted(self, matrix: Any) -> Any:
        """The same matrix for `spmv` and `spmv_dot` alone, with values in float32 where that loses nothing.

        Products are formed in the backend's value type as before, so the bits are the same; half as much is read.
        """

    @abstractmethod
    def transfer(self, fine: Layout, coarse: Layout, fine_row: Array) -> Any:
        """Injection between two levels; fine_row: int32 (coarse rows,), the fine row of each coarse row."""

    @abstractmethod
    def product(self, rows: Layout, columns: Layout, entries: Entries, *, in_order: bool) -> Any:
        """A rectangular matrix in this backend's own form: its entries in own columns.

        Args:
            rows: the storage order of the vector that is written.
            columns: the storage order of the vector that is read.
            entries: where the entries come from.
            in_order: visit the rows in the order of their numbers instead of that of their vector. Slices are runs only
                where the rows that follow each other read items that follow each other.
        """

    @abstractmethod
    def halo_product(self, rows: Layout, columns: Layout, entries: Entries) -> Any:
        """The entries of the same matrix in columns that are halo slots; the form is that of `halo_matrix`."""

    def route(self, source: Array, target: Array) -> Route:
        """Items that go from places of one vector to places of another; see `Route`."""
        return Route(source=self.asarray(source).astype(np.int32), target=self.asarray(target).astype(np.int32))

    def dense_matrix(self, rows: StencilRows) -> Array:
        """Rows without halo as a symmetric matrix, float64 (rows, rows) in lattice order, for `dense_inverse`."""
        n, (nx, ny, nz) = rows.rows, rows.shape
        around = self.to_host(rows.numbering).reshape(nz + 2, ny + 2, nx + 2)
        host = np.broadcast_to(self.to_host(rows.weights).reshape(len(rows.offsets), -1), (len(rows.offsets), n))
        dense = np.zeros((n, n))
        for (i, j, k), values in zip(rows.offsets, host, strict=True):
            columns = around[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].reshape(-1)
            inside = columns >= 0
            np.add.at(dense, (np.flatnonzero(inside), columns[inside]), values[inside])
        return (dense + dense.T) / 2

    def dense_inverse(self, layout: Layout, matrix: Array) -> DenseInverse:
        """The inverse of a symmetric positive semidefinite matrix, float64 (rows, rows) in lattice order.

        Rows that depend on the rows before them, as the last one where constants are in the null space, get zero
        (see `semidefinite_inverse`).
        """
        inverse = semidefinite_inverse(matrix)
        return DenseInverse(position=layout.position, values=self.asarray(narrowed(inverse, self.dtype)))

    # -- set-up of coarse levels: lattice arrays, x fastest, with `coarsening.GHOST` ghost layers on every side --------

    @abstractmethod
    def interpolation(self, coarsening: Coarsening, offsets: tuple[tuple[int, int, int], ...], weights: Array) -> Array:
        """The operator-induced interpolation P to a chunk's fine points (docs/theory.md).

        Args:
            coarsening: the chunk, the grid around it and what is coarsened.
            offsets: the K offsets of the weights, (0, 0, 0) among them.
            weights: float64 (K, nz + 4, ny + 4, nx + 4) in any shape of as many items: the rows of own points and of
                `GHOST` layers of neighbors (across periodic axes, too), 0 outside the domain; or (K,) for a constant
                stencil. Entries that leave the domain are not read.

        Returns:
            float64 (8, nz + 4, ny + 4, nx + 4): the weight of corner a + 2 b + 4 c in every fine point's value, see
            `dsolver.kernels.coarsening`. Zero where there is no such coarse point, outside the domain, and at ghost
            points of the outer layer that lie between coarse points along the axis that they end: no coarse point of
            the chunk reads them. Where the rows sum to zero, each point's weights sum to one.
        """

    @abstractmethod
    def galerkin(
        self, coarsening: Coarsening, offsets: tuple[tuple[int, int, int], ...], weights: Array, p: Array
    ) -> Array:
        """The rows of P^T A P at a chunk's coarse points.

        Args:
            coarsening: as for `interpolation`.
            offsets: as for `interpolation`.
            weights: as for `interpolation`.
            p: what `interpolation` returned.

        Returns:
            float64 (27, coarse rows), weights at `coarsening.COARSE_OFFSETS`; 0 for entries that leave the domain.
            Symmetric to rounding, and the same bits whatever the partition. Along a periodic axis with one coarse point
            the entries that would be the point's own are added to the diagonal. A diagonal that is zero or rounding (a
            pocket of points without any other coupling) becomes positive, so that the row is decoupled.
        """

    def couplings(self, offsets: tuple[tuple[int, int, int], ...], weights: Array) -> Array:
        """How strongly own rows are coupled along x, y and z, float64 (3,): see `coarsening.couplings`."""
        return couplings(self.xp, offsets, weights)

    def jumps(self, offsets: tuple[tuple[int, int, int], ...], weights: Array, ratio: float) -> Array:
        """Of own rows, how often the couplings to both neighbors along an axis differ: see `coarsening.jumps`."""
        return jumps(self.xp, offsets, weights, ratio)

    def restriction(self, coarsening: Coarsening, p: Array, around: Array) -> Entries:
        """R = Pᵀ at a chunk's coarse points: see `transfers.restriction`."""
        columns, values = transfers.restriction(self.xp, coarsening, p, around)
        return Entries(columns=columns, values=values)

    def prolongation(self, coarsening: Coarsening, p: Array, around: Array, base: tuple[int, int, int]) -> Entries:
        """P at a chunk's own fine points: see `transfers.prolongation`."""
        columns, values = transfers.prolongation(self.xp, coarsening, p, around, base)
        return Entries(columns=columns, values=values)

    def framed(self, values: Array, width: int) -> Array:
        """float64 (K, nz, ny, nx) with layers of zeros around: see `transfers.framed`."""
        return transfers.framed(self.xp, values, width)

    def spread(self, values: Array, like: Sequence[Any]) -> Array:
        """float64 (K, nz, ny, nx) on a larger box: see `transfers.spread`."""
        return transfers.spread(self.xp, values, like)

    # -- what the host does --------------------------------------------------------------------------------------------

    def least_of_connected(self, labels: Array, links: Sequence[Array]) -> Array:
        """For each cell of a box the smallest label that it hangs together with: see `connected`.

        A path is followed link by link, which is nothing for a GPU: 12 bytes a cell go to the host and 8 come back.
        """
        from dsolver.kernels.connected import least_of_connected

        return self.asarray(least_of_connected(self.to_host(labels), [self.to_host(link) for link in links]))

    # -- levels without a lattice, whose rows come from the host -----------------------------------------------------

    def sparse(self, rows: Rows) -> Rows:
        """A matrix in arrays of this device."""
        return rows

    def table(self, rows: Rows, width: int, team: Team) -> Entries:
        """The entries of a matrix from `sparse` as a table.

        Args:
            rows: the matrix.
            width: entries of its longest row.
            team: of the host's threads.
        """
        return rows.table(width, team)

    def largest_eigenvalue(self, rows: Rows, team: Team) -> float:
        """That of D⁻¹A for a matrix from `sparse`, from below: see `algebraic.spectrum`."""
        from dsolver.kernels.algebraic.spectrum import largest_eigenvalue

        return largest_eigenvalue(rows, team)

    def halo_layout(
        self, layout: Layout, sends: list[tuple[int, npt.NDArray[np.int64]]], receives: list[tuple[int, int]]
    ) -> HaloLayout:
        """Halo exchange of a chunk from rows and slots.

        Args:
            layout: the storage order of the rows.
            sends: per neighbor, its chunk number and the rows that it reads, in the order of its slots.
            receives: per neighbor, its chunk number and how many slots it fills, in slot order.
        """
        rows = np.concatenate([r for _, r in sends]) if sends else np.empty(0, dtype=np.int64)
        return HaloLayout(
            send_rows=layout.position[self.asarray(rows)] if len(rows) else self.xp.empty(0, dtype=np.int32),
            sends=_ranges([(chunk, len(r)) for chunk, r in sends], 0),
            receives=_ranges(receives, self.guard),
            size=sum(count for _, count in receives) + 2 * self.guard,
            items=layout.size,
        )

    @abstractmethod
    def unload(self, layout: Layout, x: Array) -> Array:
        """A vector in storage order as a new block, shape (nx, ny, nz): the opposite of the kernel `load`."""

    def total(self, parts: Array, total: Array) -> None:
        total[0] = tree_sum([float(p) for p in self.to_host(parts)])


def _ranges(counts: list[tuple[int, int]], first: int) -> tuple[tuple[int, int, int], ...]:
    """(chunk, begin, end) of consecutive runs whose lengths are given."""
    out = []
    for chunk, count in counts:
        out.append((chunk, first, first + count))
        first += count
    return tuple(out)


RANK_TOLERANCE = 1e-12
"""A pivot below this part of its diagonal entry counts as zero: far below what ill-conditioned coarse matrices leave
(about 1/rows), above what rounding leaves of a zero in a matrix that was not computed. In coarse matrices of a singular
system it leaves more (1e-10 was seen at 96³), which no number tells from a weakly fixed constant: hence
`gridlevels.fixed`."""


def semidefinite_inverse(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A symmetric G with A G A = A for a symmetric positive semidefinite A; its inverse if it has one.

    Gauss-Jordan elimination with diagonal pivots (Golub, Van Loan, Matrix Computations, 4th ed., section 4.2: without
    interchanges it is stable for such matrices). A row whose pivot vanishes depends on those before it: its unknown is
    set to zero. Made of additions and products of whole rows alone, so that the bits do not depend on a library's
    threads, as every rank computes this anew.

    Args:
        matrix: float64 (n, n). Work is n³; meant for n up to about 1000.
    """
    a = np.array(matrix, dtype=np.float64)
    diagonal = a.diagonal().copy()
    kept = np.zeros(len(a), dtype=np.bool_)
    for i in range(len(a)):
        pivot = a[i, i]
        if not pivot > RANK_TOLERANCE * diagonal[i]:
            continue
        kept[i] = True
        row, column = a[i] / pivot, a[:, i].copy()
        column[i] = 0.0
        a -= column[:, None] * row
        a[:, i] = -column / pivot
        a[i] = row
        a[i, i] = 1.0 / pivot
    a[~kept] = 0.0
    a[:, ~kept] = 0.0
    return (a + a.T) / 2


def tree_sum(parts: list[float]) -> float:
    """The fixed tree of the kernel `total`: groups of `FAN_IN` are added in order, then their sums likewise.

    Not the built-in sum, which compensates rounding from Python 3.12 on and so would not give a device's bits.
    """
    while len(parts) > 1:
        parts = [reduce(add, parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return parts[0]


def scale_of(xx: npt.NDArray[np.float64]) -> float:
    """What `narrow` multiplies by: a power of two near 1/√xx, or 1 where xx is zero or not finite.

    Exact, so that narrowing rounds as it would without it; and so near that neither the vector nor what a
    preconditioner makes of it leaves the range of float32 as long as the matrix does not.
    """
    square = float(xx[0])
    if not (square > 0.0 and math.isfinite(square)):
        return 1.0
    return math.ldexp(1.0, -((math.frexp(square)[1] - 1) >> 1))


def lossless(values: Array) -> Array:
    """Values as float32 if every one of them is such a number, else as they are."""
    narrow = narrowed(values, np.dtype(np.float32))
    return narrow if bool((narrow == values).all()) else values


def narrowed(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Values in another type; what exceeds its range becomes infinite, and shows in whatever it multiplies."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def in_range(diagonal: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A diagonal in another value type; NaN where it leaves that type's range of normal numbers.

    It is divided by, and the result must tell: a preconditioner of zeros or of huge numbers would pass for a poor one.
    """
    if diagonal.dtype == dtype:
        return diagonal
    limits, size = np.finfo(dtype), np.abs(diagonal)
    inside = (size >= float(limits.tiny)) & (size <= float(limits.max))
    return np.where(inside, diagonal, np.nan).astype(dtype)


def sound(rz: npt.NDArray[np.float64], pap: npt.NDArray[np.float64]) -> bool:
    """Whether conjugate gradients can go on: both are positive and finite."""
    return bool(0.0 < rz[0] < np.inf and 0.0 < pap[0] < np.inf)


def ratio(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """a[0] / b[0] by IEEE rules: a breakdown shows as inf or NaN in the residual and is judged there."""
    with np.errstate(all="ignore"):
        return float(a[0] / b[0])
