"""Set-up of HPCG's levels on a CPU."""

from typing import Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.hpcg.matrix import CpuHpcgHalo, CpuHpcgMatrix, CpuInjection
from dsolver.kernels.cpu.sell import assembly
from dsolver.kernels.cpu.sell.setup import CpuSell
from dsolver.kernels.cpu.vectors import CpuVectors
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.hpcg import HpcgBuilder
from dsolver.kernels.formats.layout import SLICE, Layout


class CpuHpcg(HpcgBuilder):
    """Set-up of levels."""

    def __init__(self, vectors: CpuVectors) -> None:
        self._vectors = vectors

    def matrix(self, layout: Layout, rows: CandidateRows, coarse: npt.NDArray[np.bool_]) -> CpuHpcgMatrix:
        diagonal = assembly.diagonal(self._vectors.dtype, layout, rows)
        local, widths = assembly.square(self._vectors, layout, rows, coarse)
        start = widths[:, :2].sum(axis=1).astype(np.int32)
        return CpuHpcgMatrix(layout=layout, diagonal=diagonal, local=local, coarse=start, vectors=self._vectors)

    def halo_matrix(self, layout: Layout, rows: CandidateRows) -> CpuHpcgHalo:
        return CpuHpcgHalo(**vars(CpuSell(self._vectors).halo_matrix(layout, rows)))

    def injection(self, fine: Layout, coarse: Layout, fine_row: npt.NDArray[np.int32]) -> CpuInjection:
        fine_of = np.full(coarse.size, -1, dtype=np.int32)
        fine_of[coarse.position] = fine.position[fine_row]
        coarse_of = np.full(fine.size, -1, dtype=np.int32)
        coarse_of[fine_of[coarse.position]] = coarse.position
        touched = fine_of[coarse.position] // SLICE
        return CpuInjection(coarse_of=coarse_of, fine_of=fine_of, slices=(int(touched.min()), int(touched.max()) + 1))


ASSEMBLY: Final = CpuHpcg
