"""Set-up of HPCG's levels on a GPU."""

from typing import Final

import cupy

from dsolver.kernels.cuda.hpcg.matrix import CudaHpcgHalo, CudaHpcgMatrix, CudaInjection, matrix
from dsolver.kernels.cuda.layout_setup import none_of
from dsolver.kernels.cuda.sell.assembly import assembly
from dsolver.kernels.cuda.vectors.vectors import CudaVectors
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.hpcg import HpcgBuilder
from dsolver.kernels.formats.layout import SLICE, Array, Layout


class CudaHpcg(HpcgBuilder):
    """Set-up of levels."""

    def __init__(self, vectors: CudaVectors) -> None:
        self._vectors = vectors

    def matrix(self, layout: Layout, rows: CandidateRows, coarse: Array) -> CudaHpcgMatrix:
        return matrix(layout, rows, coarse, self._vectors.dtype)

    def halo_matrix(self, layout: Layout, rows: CandidateRows) -> CudaHpcgHalo:
        return CudaHpcgHalo(**vars(assembly.halo_matrix(layout, layout, rows, self._vectors.dtype)))

    def injection(self, fine: Layout, coarse: Layout, fine_row: Array) -> CudaInjection:
        places = fine.position[cupy.asarray(fine_row)]
        fine_of = none_of(coarse.size)
        fine_of[coarse.position] = places
        coarse_of = none_of(fine.size)
        coarse_of[places] = coarse.position
        first, last = (int(places.min()), int(places.max())) if len(places) else (SLICE, SLICE - 1)
        slices = first // SLICE, last // SLICE + 1
        return CudaInjection(coarse_of=coarse_of, fine_of=fine_of, slices=slices, vectors=self._vectors)


ASSEMBLY: Final = CudaHpcg
