"""Set-up of sliced ELL on a GPU."""

from typing import Final

from dsolver.kernels.cuda.checkered.corners import CudaCorners, corners
from dsolver.kernels.cuda.checkered.parities import CudaParities, parities
from dsolver.kernels.cuda.faces.matrix import CudaFaces
from dsolver.kernels.cuda.faces.setup import faces
from dsolver.kernels.cuda.sell.assembly import assembly
from dsolver.kernels.cuda.sell.matrix import CudaHaloMatrix, CudaMatrix, CudaProduct
from dsolver.kernels.cuda.vectors.vectors import CudaVectors
from dsolver.kernels.formats.base import FormatBuilder
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.lattice.coarsening import Coarsening


class CudaSell(FormatBuilder):
    """Set-up of sliced ELL, and of faces in its place where rows can be stored as such."""

    def __init__(self, vectors: CudaVectors) -> None:
        self._dtype = vectors.dtype

    def matrix(self, layout: Layout, rows: CandidateRows, *, swept: bool = True) -> CudaMatrix | CudaFaces:
        found = faces(layout, rows, self._dtype)
        return found if found is not None else assembly.matrix(layout, rows, self._dtype, swept=swept)

    def narrowed(self, matrix: CudaMatrix | CudaFaces, *, swept: bool = True) -> CudaMatrix | CudaFaces:
        return matrix.narrowed(self._dtype, swept=swept)

    def narrowed_halo(self, halo: CudaHaloMatrix) -> CudaHaloMatrix:
        return assembly.narrowed_halo(halo, self._dtype)

    def half_transfer(
        self, made: Coarsening, p: Array, rows: Layout, coarse: Layout, *, in_place: bool
    ) -> CudaCorners | CudaParities | None:
        return (parities if in_place else corners)(made, p, rows, coarse, self._dtype)

    def product(self, rows: Layout, columns: Layout, entries: CandidateRows, *, in_order: bool) -> CudaProduct:
        return assembly.product(rows, columns, entries, self._dtype, in_order=in_order)

    def halo_product(self, rows: Layout, columns: Layout, entries: CandidateRows) -> CudaHaloMatrix:
        return assembly.halo_matrix(rows, columns, entries, self._dtype)


ASSEMBLY: Final = CudaSell
