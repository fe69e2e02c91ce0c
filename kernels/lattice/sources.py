"""Right-hand sides of cells from the source of a differential equation: the text that every backend follows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsolver.kernels.formats.layout import Array
from dsolver.kernels.views import layer


@dataclass(frozen=True, kw_only=True)
class EndCells:
    """A chunk's cells at a face of the grid."""

    axis: int  # across the face
    side: int  # 0 or 1, for the lower or the upper end of the axis
    kappa: Array | float  # of the cells, across the face: (nz, ny, nx) with one cell along the axis, or a number


@dataclass(frozen=True, kw_only=True)
class Source:
    """The right-hand side of a chunk's rows as a function of the source of the differential equation."""

    sizes: tuple[Array, Array, Array]  # of the cells along z, y, x, float64 arrays that broadcast
    ends: tuple[EndCells, ...]  # cells at faces of the grid with a boundary condition
    solid: Array | None  # bool (nz, ny, nx), cells that are left out, or held; None for none
    # what boundary conditions add, by axis and side: float64 (nz, ny, nx) with one cell along the axis.
    faces: Mapping[tuple[int, int], Array] = field(default_factory=dict)
    # numbers of cells, different ones in each pair, and what held neighbors add there, float64.
    feeds: tuple[tuple[Array, Array], ...] = ()

    def volumes(self) -> Array:
        """Volumes of the cells, zero where they are left out: broadcasts to (nz, ny, nx)."""
        z, y, x = self.sizes
        volumes = z * y * x
        return volumes if self.solid is None else volumes * ~self.solid

    def assembled(self, f: Array) -> Array:
        """f times sizes along z, y and x, one after the other, plus the parts of faces and held cells.

        Zero where cells are left out. Overwrites f, float64 (nz, ny, nx) in C order.
        """
        for size in self.sizes:
            f *= size
        for end, value in self.faces.items():
            f[layer(*end)] += value
        self.cleared(f)
        for cells, values in self.feeds:
            f.reshape(-1)[cells] += values
        return f

    def cleared(self, x: Array) -> Array:
        """Zero where cells are left out. Overwrites x, (nz, ny, nx)."""
        if self.solid is not None:
            x[self.solid] = 0.0
        return x
