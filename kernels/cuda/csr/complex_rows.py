"""Operations on the rows of complex matrices on a GPU: the bits of the host's loops."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cpu.csr.complex_look import MirrorImages, RowParts, RowSums
from dsolver.kernels.cpu.csr.complex_rows import ComplexRows
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.formats.csr import Csr, of_entries
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.general.setup import GeneralSetup

FILE: Final = "csr/look/complex.cu"


class CudaComplexRows(ComplexRows):
    """See `ComplexRows`. `general`: what adds up entries in one place."""

    def __init__(self, general: GeneralSetup) -> None:
        self._general = general

    def mirrors(self, rows: Csr) -> MirrorImages:
        """Mirror images, waited for; the place is looked for where there is a difference."""
        found = counters(3)
        _launch("mirror_images", rows, found)
        largest, difference, conjugate = read_back(found).view(np.float64).tolist()
        place = 0
        if difference > 0.0:
            first = cupy.full(1, np.iinfo(np.int64).max, dtype=np.int64)
            _launch("find_apart", rows, np.float64(difference), first)
            place = int(read_back(first)[0])
        i, j = sorted(divmod(place, rows.size))
        return MirrorImages(largest=largest, difference=difference, place=(i, j), conjugate=conjugate)

    def row_sums(self, rows: Csr) -> RowSums:
        places = cupy.empty(rows.size, dtype=np.int64)
        own, sums = cupy.empty((2, rows.size), dtype=np.complex128)
        _launch("row_sums", rows, places, own, sums)
        return RowSums(places=places, diagonal=own, sums=sums)

    def row_parts(self, rows: Csr, diagonal: Array) -> RowParts:
        out = RowParts(
            values=cupy.empty(len(rows.columns)),
            sums=cupy.empty(rows.size),
            around=cupy.empty(rows.size),
            mixed=cupy.empty(rows.size, dtype=np.bool_),
        )
        _launch("row_parts", rows, diagonal, out.values, out.sums, out.around, out.mixed)
        return out

    def largest_squares(self, rows: Csr) -> Array:
        out = cupy.empty(rows.size)
        _launch("largest_squares", rows, out)
        return out

    def relaxed(self, rows: Csr, turned: Array, aggregate: Array) -> Array:
        out = cupy.empty_like(turned)
        _launch("relax", rows, turned, aggregate, out)
        return out

    def turned_rows(self, rows: Csr, turned: Array) -> Csr:
        out = cupy.empty_like(rows.values)
        _launch("turn", rows, turned, out)
        return rows._replace(values=out)

    def collapsed(self, rows: Csr, aggregate: Array, count: int) -> Csr:
        """Rows of aggregates, waited for."""
        row = aggregate[of_entries(rows.start, len(rows.columns))]
        column = aggregate[rows.columns]
        kept = cupy.flatnonzero((row != column) & (row >= 0) & (column >= 0))
        parts = rows.values.view(np.float64).reshape(-1, 2)[kept]
        made = self._general.compressed(row[kept], column[kept], parts, count)
        return made._replace(values=made.values.reshape(-1).view(np.complex128))


def _launch(name: str, rows: Csr, *arguments: Any) -> None:
    for_each(FILE, name, rows.size, *rows, np.int64(rows.size), *arguments)
