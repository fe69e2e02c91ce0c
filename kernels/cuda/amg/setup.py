"""Set-up of levels without a lattice on a GPU."""

from typing import Any

import cupy
import numpy as np

from dsolver.kernels.amg import BlockSizes, Images, Places, with_functions_of
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.cuda.amg import couplings, pmis, points
from dsolver.kernels.cuda.amg.aggregation.setup import CudaAggregation
from dsolver.kernels.cuda.amg.boxes import box_rows, open_rows
from dsolver.kernels.cuda.amg.interpolation import extended_interpolation, paths
from dsolver.kernels.cuda.launch.loader import device_property, for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse import selection, windows
from dsolver.kernels.cuda.sparse.blocks import galerkin as block_galerkin
from dsolver.kernels.cuda.sparse.blocks import products as block_products
from dsolver.kernels.cuda.sparse.places import products as placed
from dsolver.kernels.cuda.sparse.products import galerkin, mirrors, product
from dsolver.kernels.cuda.sparse.products.galerkin import BegunProduct, half_galerkin
from dsolver.kernels.cuda.sparse.products.halves import CudaHalves
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.ell import Ell

FILE = "amg/setup.cu"
BLOCKS = 8  # blocks for each multiprocessor where arrays are compared


@with_functions_of(
    box_rows, couplings, extended_interpolation, mirrors, open_rows, paths, pmis, points, selection, windows
)
class CudaAlgebra(AmgKernels):
    """Set-up of levels without a lattice: the bits of the host's loops, whose threads do what has no kernels."""

    def __init__(self, team: Team) -> None:
        super().__init__(team, cupy.asarray)
        self.aggregation = CudaAggregation(team)

    def sees_all(self, end: int) -> bool:
        return 0 < end <= windows.MARKED

    # -- coarse rows ---------------------------------------------------------------------------------------------------

    def product(self, a: Csr, b: Csr, columns: int, *, ascending: bool = True, blocks: BlockSizes | None = None) -> Csr:
        if blocks is None:
            return product.product(a, b, columns, ascending=ascending)
        return block_products.product(a, b, columns, blocks, ascending=ascending)

    def numeric(
        self,
        pattern: Csr,
        a: Csr,
        b: Csr,
        columns: int,
        *,
        ascending: bool = True,
        blocks: BlockSizes | None = None,
        places: Places | None = None,
    ) -> Csr:
        if blocks and (made := block_products.numeric(pattern, a, b, columns, blocks, ascending=ascending)):
            return made
        if places is None:
            return product.numeric(pattern, a, b, columns, ascending=ascending)
        return placed.numeric(places, pattern, a, b, columns, ascending=ascending)

    def galerkin(
        self, a: Csr, p: Csr, columns: int, diagonal: Any, *, symmetric: bool = False, blocks: BlockSizes | None = None
    ) -> tuple[Csr, Csr]:
        if blocks is None:
            return galerkin.galerkin(a, p, columns, diagonal, symmetric=symmetric)
        return block_galerkin.galerkin(a, p, columns, diagonal, blocks, symmetric=symmetric)

    begun_galerkin = staticmethod(BegunProduct)

    def rows_of_ap(self, begun: Any, rows: Any, least: int) -> Deferred[Csr]:
        return begun.rows(rows)

    half_galerkin = staticmethod(half_galerkin)

    def halved(self, upper: Csr) -> Any:
        return CudaHalves.of(upper, 0, upper.size)

    def completed(self, half: Any, before: Images | None = None, below: int = 0) -> Csr:
        return half.completed(before, below)

    def same(self, one: Any, other: Any) -> bool:
        count = len(one)
        if count != len(other) or one.dtype != other.dtype:
            return False
        found, most = counters(1), BLOCKS * device_property("multiProcessorCount")
        for_each(FILE, f"differ_{one.itemsize}", count, one, other, np.int64(count), found, most=most)
        return not int(read_back(found)[0])

    # -- storage -------------------------------------------------------------------------------------------------------

    def on_device(self, rows: Csr) -> Csr:
        return Csr(*(cupy.asarray(part) for part in rows))

    def table(self, rows: Csr, width: int) -> Ell:
        columns, values = cupy.empty((width, rows.size), dtype=np.int32), cupy.empty((width, rows.size))
        for_each(FILE, "tabulate", rows.size, *rows, np.int32(rows.size), np.int32(width), columns, values)
        return Ell(columns=columns, values=values, halo=False)
