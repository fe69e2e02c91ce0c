"""Set-up of sliced ELL on a CPU."""

from dataclasses import replace
from typing import Final

from dsolver.kernels.casts import in_range, narrowed
from dsolver.kernels.cpu.sell import assembly
from dsolver.kernels.cpu.sell.matrix import CpuHaloMatrix, CpuMatrix, CpuProduct
from dsolver.kernels.cpu.vectors import CpuVectors
from dsolver.kernels.formats.base import FormatBuilder
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.formats.sell import Slices


class CpuSell(FormatBuilder):
    """Set-up of sliced ELL."""

    def __init__(self, vectors: CpuVectors) -> None:
        self._vectors = vectors

    def matrix(self, layout: Layout, rows: CandidateRows, *, swept: bool = True) -> CpuMatrix:
        diagonal = assembly.diagonal(self._vectors.dtype, layout, rows)
        local, _ = assembly.square(self._vectors, layout, rows)
        return CpuMatrix(layout=layout, diagonal=diagonal, local=local, vectors=self._vectors)

    def narrowed(self, matrix: CpuMatrix, *, swept: bool = True) -> CpuMatrix:
        diagonal = in_range(matrix.diagonal, self._vectors.dtype)
        return replace(matrix, diagonal=diagonal, local=self._narrowed(matrix.local), vectors=self._vectors)

    def narrowed_halo(self, halo: CpuHaloMatrix) -> CpuHaloMatrix:
        return replace(halo, slices=self._narrowed(halo.slices), vectors=self._vectors)

    def product(self, rows: Layout, columns: Layout, entries: CandidateRows, *, in_order: bool) -> CpuProduct:
        slices, target = assembly.rectangle(self._vectors, rows, columns, entries, in_order=in_order)
        return CpuProduct(slices=slices, target=target, vectors=self._vectors)

    def halo_product(self, rows: Layout, columns: Layout, entries: CandidateRows) -> CpuHaloMatrix:
        boundary, slices = assembly.halo(self._vectors, rows, columns, entries)
        return CpuHaloMatrix(boundary=boundary, slices=slices, vectors=self._vectors)

    def _narrowed(self, slices: Slices) -> Slices:
        return replace(slices, values=narrowed(slices.values, self._vectors.dtype))


ASSEMBLY: Final = CpuSell
