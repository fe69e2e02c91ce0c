"""Set-up of levels without a lattice on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import cupy
import numpy as np

from dsolver.kernels.amg import EVERY, BlockSizes, Cut, Images, LatticeBox, OpenBox, Places
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.cuda.amg import (
    box_rows,
    couplings,
    extended_interpolation,
    open_rows,
    paths,
    pmis,
    points,
)
from dsolver.kernels.cuda.amg.aggregation.setup import CudaAggregation
from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.launch.schedule import device_property
from dsolver.kernels.cuda.sparse import selection, windows
from dsolver.kernels.cuda.sparse.blocks import galerkin as block_galerkin
from dsolver.kernels.cuda.sparse.blocks import products as block_products
from dsolver.kernels.cuda.sparse.places import products as placed
from dsolver.kernels.cuda.sparse.products import galerkin, mirrors, product
from dsolver.kernels.cuda.sparse.products.halves import CudaHalves
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.ell import Ell

FILE, DTYPE = "amg/setup.cu", "float64"
THREADS = 256
BLOCKS = 8
"""Blocks for each multiprocessor where arrays are compared."""


@final
class CudaAlgebra(AmgKernels):
    """Set-up of levels without a lattice on the device: the bits of the host's loops.

    Args:
        team: of the host's threads, for what has no kernels.
    """

    def __init__(self, team: Team) -> None:
        super().__init__(team, cupy.asarray)
        self.aggregation = CudaAggregation(team)

    # -- coarse points -------------------------------------------------------------------------------------------------

    def box_rows(self, box: LatticeBox, offsets: Sequence[tuple[int, int, int]], weights: Any) -> tuple[Csr, Any, bool]:
        return box_rows.box_rows(box, offsets, weights)

    def open_rows(self, box: OpenBox, offsets: Sequence[tuple[int, int, int]], weights: Any) -> Csr:
        return open_rows.open_rows(box, offsets, weights)

    def row_measures(self, a: Csr, below: int) -> tuple[Any, Any, Any]:
        return couplings.row_measures(a, below)

    def couplings(self, a: Csr, below: int, largest: Any, theta: float) -> tuple[Any, Any]:
        return couplings.couplings(a, below, largest, theta)

    def begun(self, counts: Any, origin: Any, level: int, lone: int) -> tuple[Any, Any]:
        return pmis.begun(counts, origin, level, lone)

    def settled(self, a: Csr, below: int, bits: Any, key: Any, origin: Any, state: Any, opened: Any = None) -> Any:
        return pmis.settled(a, below, bits, key, origin, state)

    def counted(self, states: Any, opened: Any) -> tuple[int, int, Any]:
        return pmis.counted(states, opened)

    def paths(
        self, a: Csr, points: Any, below: int, bits: Any, coarse: Any, seen: Csr, columns: int, least: int
    ) -> Csr:
        return paths.paths(a, points, below, bits, coarse, seen, columns, least)

    # -- points ------------------------------------------------------------------------------------------------------

    def damped(self, share: Any, least: float, dominance: float, factor: float) -> Any:
        return points.damped(share, least, dominance, factor)

    def numbered(self, states: Any, before: Any, first: int) -> Any:
        return points.numbered(states, before, first)

    def states_of(self, numbers: Any) -> tuple[Any, Any]:
        return points.states_of(numbers)

    def through(self, numbers: Any, first: int, others: Any) -> Any:
        return points.through(numbers, first, others)

    def leads(self, start: Any, values: Any) -> tuple[Any, Any]:
        return points.leads(start, values)

    def of_coarse(self, numbers: Any, first: int, count: int, values: Any) -> Any:
        return points.of_coarse(numbers, first, count, values)

    # -- windows -------------------------------------------------------------------------------------------------------

    def outside(self, numbers: Any, first: int, last: int) -> Any:
        return windows.outside(numbers, first, last)

    def distinct(self, numbers: Any) -> Any:
        return windows.distinct(numbers)

    def ghosts(self, numbers: Any, first: int, last: int) -> tuple[Any, int]:
        return windows.ghosts(numbers, first, last)

    def places(self, numbers: Any, first: int, rows: int, ghosts: Any, below: int) -> Any:
        return windows.places(numbers, first, rows, ghosts, below)

    def relabeled(self, places: Any, rows: int, below: int, base: int, names: Any) -> Any:
        return windows.relabeled(places, rows, below, base, names)

    def selected(self, a: Csr, rows: Any = None, columns: tuple[int, int] = EVERY) -> Csr:
        return selection.selected(a, rows, columns)

    # -- interpolation -------------------------------------------------------------------------------------------------

    def coarse_couplings(
        self, a: Csr, bits: Any, state: Any, below: int, names: Any, *, every: bool = False, loose: bool = False
    ) -> Csr:
        return couplings.coarse_couplings(a, bits, state, below, names, every=every, loose=loose)

    def interpolation(
        self, a: Csr, points: Any, bits: Any, state: Any, below: int, seen: Csr, coarse: Any, columns: int, most: int
    ) -> Csr:
        return extended_interpolation.interpolation(a, points, bits, state, below, seen, coarse, columns, most)

    def renamed(self, seen: Csr, names: Any) -> Csr:
        return extended_interpolation.renamed(seen, names)

    def kept_product(self, a: Csr, b: Csr, columns: int, most: int) -> Csr:
        return extended_interpolation.kept_product(a, b, columns, most)

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

    def begun_galerkin(self, a: Csr, p: Csr, columns: int) -> Any:
        return galerkin.BegunProduct(a, p, columns)

    def rows_of_ap(self, begun: Any, rows: Any, least: int) -> Csr:
        made: Csr = begun.rows(rows)
        return made

    def half_galerkin(self, begun: Any, cut: Cut, diagonal: Any) -> tuple[Csr, Any]:
        return galerkin.half_galerkin(begun, cut, diagonal)

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

    def transposed(self, a: Csr, columns: int) -> Csr:
        return mirrors.transposed(a, columns)

    def fill_lost(self, coarse: Csr, below: int, r: Csr, diagonal: Any) -> None:
        mirrors.fill_lost(coarse, below, r, diagonal)

    def symmetrize(self, a: Csr, below: int) -> None:
        mirrors.symmetrize(a, below)

    def mirrored(self, a: Csr, *, ascending: bool = False) -> tuple[Csr, int]:
        return mirrors.mirrored(a, ascending=ascending)

    def same(self, one: Any, other: Any) -> bool:
        count = len(one)
        if count != len(other) or one.dtype != other.dtype:
            return False
        found = counters(1)
        if count:
            blocks = min(-(-count // THREADS), BLOCKS * device_property("multiProcessorCount"))
            arguments = (one, other, np.int64(count), found)
            kernel(FILE, f"differ_{one.itemsize}", DTYPE)((blocks,), (THREADS,), arguments)
        return not int(read_back(found)[0])

    # -- storage -------------------------------------------------------------------------------------------------------

    def on_device(self, rows: Csr) -> Csr:
        return Csr(*(cupy.asarray(part) for part in rows))

    def table(self, rows: Csr, width: int) -> Ell:
        columns, values = cupy.empty((width, rows.size), dtype=np.int32), cupy.empty((width, rows.size))
        grid = (-(-rows.size // THREADS),)
        kernel(FILE, "tabulate", DTYPE)(
            grid, (THREADS,), (*rows, np.int32(rows.size), np.int32(width), columns, values)
        )
        return Ell(columns=columns, values=values, halo=False)
