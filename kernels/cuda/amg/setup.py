"""Set-up of levels without a lattice on a GPU."""

from __future__ import annotations

from typing import Any, final

import cupy
import numpy as np

from dsolver.kernels.amg import BlockSizes, Images, Places
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.cuda.amg import pmis, points
from dsolver.kernels.cuda.amg.aggregation.setup import CudaAggregation
from dsolver.kernels.cuda.amg.boxes.box_rows import box_rows
from dsolver.kernels.cuda.amg.boxes.open_rows import open_rows, raised
from dsolver.kernels.cuda.amg.couplings import coarse_couplings, couplings, row_measures
from dsolver.kernels.cuda.amg.interpolation import extended_interpolation
from dsolver.kernels.cuda.amg.interpolation.paths import paths
from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.launch.schedule import device_property
from dsolver.kernels.cuda.sparse import selection, windows
from dsolver.kernels.cuda.sparse.blocks import galerkin as block_galerkin
from dsolver.kernels.cuda.sparse.blocks import products as block_products
from dsolver.kernels.cuda.sparse.places import products as placed
from dsolver.kernels.cuda.sparse.products import galerkin, mirrors, product
from dsolver.kernels.cuda.sparse.products.galerkin import BegunProduct, half_galerkin
from dsolver.kernels.cuda.sparse.products.halves import CudaHalves
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.ell import Ell

FILE = "amg/setup.cu"
BLOCKS = 8
"""Blocks for each multiprocessor where arrays are compared."""


@final
class CudaAlgebra(AmgKernels):
    """Set-up of levels without a lattice: the bits of the host's loops, whose threads do what has no kernels."""

    def __init__(self, team: Team) -> None:
        super().__init__(team, cupy.asarray)
        self.aggregation = CudaAggregation(team)

    # -- coarse points -------------------------------------------------------------------------------------------------

    box_rows = staticmethod(box_rows)
    open_rows = staticmethod(open_rows)
    raised = staticmethod(raised)
    row_measures = staticmethod(row_measures)
    couplings = staticmethod(couplings)
    begun = staticmethod(pmis.begun)

    def settled(self, a: Csr, below: int, bits: Any, key: Any, origin: Any, state: Any, opened: Any = None) -> Any:
        return pmis.settled(a, below, bits, key, origin, state)

    counted = staticmethod(pmis.counted)
    paths = staticmethod(paths)

    # -- points ------------------------------------------------------------------------------------------------------

    damped = staticmethod(points.damped)
    numbered = staticmethod(points.numbered)
    states_of = staticmethod(points.states_of)
    through = staticmethod(points.through)
    leads = staticmethod(points.leads)
    of_coarse = staticmethod(points.of_coarse)

    # -- windows -------------------------------------------------------------------------------------------------------

    outside = staticmethod(windows.outside)
    distinct = staticmethod(windows.distinct)
    ghosts = staticmethod(windows.ghosts)
    places = staticmethod(windows.places)
    relabeled = staticmethod(windows.relabeled)
    slots = staticmethod(windows.slots)
    named = staticmethod(windows.named)
    used = staticmethod(windows.used)
    numbered_ghosts = staticmethod(windows.numbered_ghosts)
    stacked = staticmethod(windows.stacked)
    padded = staticmethod(windows.padded)
    around = staticmethod(windows.around)
    selected = staticmethod(selection.selected)
    begun_selection = staticmethod(selection.begun_selection)
    parted = staticmethod(selection.parted)
    nonempty = staticmethod(selection.nonempty)

    # -- interpolation -------------------------------------------------------------------------------------------------

    coarse_couplings = staticmethod(coarse_couplings)
    interpolation = staticmethod(extended_interpolation.interpolation)
    renamed = staticmethod(extended_interpolation.renamed)
    kept_product = staticmethod(extended_interpolation.kept_product)

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
        if blocks is None and places is not None:
            return placed.numeric(places, pattern, a, b, columns, ascending=ascending)
        if blocks is None:
            return product.numeric(pattern, a, b, columns, ascending=ascending)
        return block_products.numeric(pattern, a, b, columns, blocks, ascending=ascending)

    def galerkin(
        self, a: Csr, p: Csr, columns: int, diagonal: Any, *, symmetric: bool = False, blocks: BlockSizes | None = None
    ) -> tuple[Csr, Csr]:
        if blocks is None:
            return galerkin.galerkin(a, p, columns, diagonal, symmetric=symmetric)
        return block_galerkin.galerkin(a, p, columns, diagonal, blocks, symmetric=symmetric)

    begun_galerkin = staticmethod(BegunProduct)

    def rows_of_ap(self, begun: Any, rows: Any, least: int) -> Csr:
        made: Csr = begun.rows(rows)
        return made

    half_galerkin = staticmethod(half_galerkin)

    def halved(self, upper: Csr) -> Any:
        return CudaHalves.of(upper, 0, upper.size)

    def tight(self, half: Any) -> tuple[Any, Any]:
        return half, half.tight()

    def behind(self, half: Any) -> Csr:
        found: Csr = half.behind
        return found

    def upper(self, half: Any) -> Csr:
        found: Csr = half.upper
        return found

    def completed(self, half: Any, before: Images | None = None, below: int = 0) -> Csr:
        found: Csr = half.completed(before, below)
        return found

    transposed = staticmethod(mirrors.transposed)
    fill_lost = staticmethod(mirrors.fill_lost)
    symmetrize = staticmethod(mirrors.symmetrize)
    mirrored = staticmethod(mirrors.mirrored)

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
