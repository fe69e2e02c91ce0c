"""Formats: objects that hold entries of a matrix on a device and bring its kernels, by their names in the contract."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from dsolver.kernels.batched import Columns, Kernels
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import Array, Layout

if TYPE_CHECKING:
    from dsolver.kernels.lattice.coarsening import Coarsening


class Format(Kernels):
    """Entries of a matrix, or of its inverse, with the kernels of `dsolver.kernels.contract` that begin with it.

    A format is a dataclass.
    """

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays; its `Layout`, which vectors share, does not count."""
        return stored_bytes(self)


def stored_bytes(item: Any) -> int:
    """Bytes of the fields of a dataclass that have `nbytes`."""
    return sum(int(getattr(getattr(item, field.name), "nbytes", 0)) for field in fields(item))


class SeparateDot:
    """A product and then its dot product, for formats that have nothing faster."""

    vectors: Any
    spmv: Callable[..., None]

    def spmv_dot(self, x: Any, y: Any, dot: Any) -> None:
        self.spmv(x, y)
        self.vectors.dot(x, y, dot)


class SweepsInParts:
    """Sweeps of Jacobi as products and vector operations."""

    vectors: Any
    spmv: Callable[..., None]

    def residual(self, r: Any, x: Any, y: Any) -> None:
        self.spmv(x, y)
        self.vectors.waxpby(1.0, r, -1.0, y, y)

    def jacobi_first(self, scaled: Any, r: Any, x: Any, y: Any) -> None:
        self._steps_of(scaled).jacobi(r, 1.0, x)
        self.residual(r, x, y)

    def jacobi_sweep(self, scaled: Any, r: Any, x: Any, z: Any) -> None:
        self.spmv(x, z)
        self._steps_of(scaled).jacobi_step(r, x, z)

    def jacobi_sweep_dot(self, scaled: Any, r: Any, x: Any, z: Any, dot: Any) -> None:
        self.jacobi_sweep(scaled, r, x, z)
        self.vectors.dot(r, z, dot)

    def _steps_of(self, scaled: Any) -> Any:
        """A matrix whose diagonal divides, for as many vectors."""
        return scaled


class SeparateSweeps(SweepsInParts):
    """Sweeps, and steps with the diagonal, for formats that have nothing faster than products and vector operations."""

    diagonal: Any

    def jacobi(self, r: Any, scale: float, z: Any) -> None:
        self.vectors.jacobi(self.diagonal, r, scale, z)

    def jacobi_step(self, r: Any, x: Any, z: Any) -> None:
        self.vectors.jacobi_step(self.diagonal, r, x, z)

    def chebyshev(self, r: Any, w: Any, keep: float, gain: float, d: Any, z: Any) -> None:
        self.vectors.chebyshev(self.diagonal, r, w, keep, gain, d, z)


class SweepColumns(SweepsInParts, Columns):
    """Sweeps for several columns: entries are read once where the product reads them once."""

    def _steps_of(self, scaled: Any) -> Any:
        return scaled.batched(self.width)


class SeparateBackward:
    """A backward sweep in two steps, for formats that have nothing faster."""

    lower_residual: Callable[..., None]
    backward: Callable[..., None]

    def sweep_backward(self, r: Any, x: Any, w: Any) -> None:
        self.lower_residual(r, x, w)
        self.backward(w, x)


class SeparateSum:
    """A prolongation into another vector: a copy, and an addition to it."""

    vectors: Any
    prolong_add: Callable[..., None]

    def prolong_sum(self, xc: Any, x: Any, y: Any) -> None:
        self.vectors.copy(x, y)
        self.prolong_add(xc, y)


class FormatBuilder(ABC):
    """Set-up of a format on a device: makes its objects from rows.

    All formats share the storage order of vectors, a `Layout`, and what rows come as, `CandidateRows`.
    """

    @abstractmethod
    def matrix(self, layout: Layout, rows: CandidateRows, *, swept: bool = True) -> Any:
        """The local part of a chunk's matrix, which has `scaled` and `compacted`.

        Args:
            swept: whether half sweeps are wanted; else what these alone need may be left out.

        Raises:
            ZeroDivisionError: a row has no diagonal entry or a zero one.
        """

    def narrowed(self, matrix: Any, *, swept: bool = True) -> Any:
        """A matrix of float64 in the builder's value type, with the bits of one that it makes; columns are shared."""
        raise NotImplementedError(f"{type(self).__name__} narrows nothing")

    def narrowed_halo(self, halo: Any) -> Any:
        """The ghost part of such a matrix in the builder's value type."""
        raise NotImplementedError(f"{type(self).__name__} narrows nothing")

    def halo_matrix(self, layout: Layout, rows: CandidateRows) -> Any:
        """Entries of a chunk's rows in halo slots, of `size` boundary rows, with `scaled_rows` and `scaled_columns`."""
        return self.halo_product(layout, layout, rows)

    def half_transfer(self, made: "Coarsening", p: Array, rows: Layout, coarse: Layout, *, in_place: bool) -> Any:
        """R and P of rows of all colors but the last, in a form that needs no columns; None where there is none.

        `p`: of `LatticeSetup.interpolation`. `in_place`: whether that is the order of what is prolonged, too; else this
        is in lattice order.
        """
        return None

    @abstractmethod
    def product(self, rows: Layout, columns: Layout, entries: CandidateRows, *, in_order: bool) -> Any:
        """A rectangular matrix: its entries in own columns.

        `in_order`: visit the rows in the order of their numbers instead of that of their vector. Slices are runs only
        where the rows that follow each other read items that follow each other.
        """

    @abstractmethod
    def halo_product(self, rows: Layout, columns: Layout, entries: CandidateRows) -> Any:
        """The entries of the same matrix in columns that are halo slots; the form is that of `halo_matrix`."""
