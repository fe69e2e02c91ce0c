"""Restriction and prolongation between two levels of a lattice, made on each chunk's owner."""

from dataclasses import replace
from typing import Any

from dsolver.distributed.halo import halo_layout
from dsolver.distributed.matrix import ChunkMatrix
from dsolver.grid.box import BOX_OFFSETS, Offsets
from dsolver.grid.coarse_grid import CoarseGrid
from dsolver.grid.coloring import colored_layout
from dsolver.grid.numbering import chunk_numbering, has_halo, own_number
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.layout import Layout, Route
from dsolver.kernels.lattice.coarsening import Coarsening
from dsolver.multigrid.correction import ChunkTransfer
from dsolver.multigrid.level import AtLevel, at_level


def chunk_transfer(
    backend: Backend,
    number: int,
    layout: Layout,
    weights: Any,
    *,
    depth: int,
    partition: Partition,
    offsets: Offsets,
    below: CoarseGrid,
    half: bool = False,
    in_place: bool = False,
) -> AtLevel:
    """The `ChunkTransfer` of a chunk whose rows have this layout; weights in and around it, or (K,).

    half: whether a chunk without neighbors is swept once before and after, so that the last color needs none.
    in_place: whether what is prolonged is read in the coarser level's own storage order; then `half` is so, too.
    """
    sell, number = backend.format("sell"), own_number(partition, number)
    backend.tidy(partition[number].box.points)
    coarse_number = own_number(below.partition, number)
    box, coarse_box, whole = partition[number].box, below.boxes[number], below.replicated
    made = Coarsening(
        lo=box.lo, shape=box.shape, grid=partition.grid, periodic=partition.periodic, factors=below.factors
    )
    p = backend.lattice.interpolation(made, offsets, weights)
    rows = backend.lattice.galerkin(made, offsets, weights, p)
    coarse_numbering = chunk_numbering(backend, below.partition, coarse_number, BOX_OFFSETS)
    coarse = coarse_layout(backend, below, number)
    columns = coarse if in_place else backend.layouts.plain(below.partition[coarse_number].box.shape)
    found = sell.half_transfer(made, p, layout, coarse, in_place=in_place) if half else None
    assert found is not None or not in_place
    if found is not None:
        backend.synchronize()
        r, back = (ChunkMatrix(layout=written, local=found) for written in (coarse, layout))
        both = ChunkTransfer(restriction=r, prolongation=back, columns=columns, weights=rows.reshape(-1))
        return at_level(depth, both)
    fine_numbering = chunk_numbering(backend, partition, number, BOX_OFFSETS)
    entries = replace(
        backend.lattice.restriction(made, p, fine_numbering), halo=has_halo(partition, number, BOX_OFFSETS)
    )
    restriction = ChunkMatrix(
        layout=coarse,
        local=sell.product(coarse, layout, entries, in_order=True),
        ghost=sell.halo_product(coarse, layout, entries),
        halo=halo_layout(backend, layout, partition, number, BOX_OFFSETS),
    )
    del entries
    entries = replace(
        backend.lattice.prolongation(made, p, coarse_numbering, coarse_box.lo if whole else (0, 0, 0)),
        halo=has_halo(below.partition, coarse_number, BOX_OFFSETS),
    )
    del p  # what follows is when set-up needs most
    prolongation = ChunkMatrix(
        layout=layout,
        local=sell.product(layout, columns, entries, in_order=False),
        ghost=sell.halo_product(layout, columns, entries),
        halo=None if whole else halo_layout(backend, coarse, below.partition, number, BOX_OFFSETS),
    )
    transfer = ChunkTransfer(
        restriction=restriction, prolongation=prolongation, columns=columns, weights=rows.reshape(-1)
    )
    backend.synchronize()
    return at_level(depth, transfer)


def coarse_layout(backend: Backend, below: CoarseGrid, number: int) -> Layout:
    """The storage order of a chunk's coarse points; that of the lattice where the level is replicated."""
    box = below.boxes[number]
    if below.replicated:
        return backend.layouts.plain(box.shape)
    return colored_layout(backend, below.partition, box, BOX_OFFSETS)


def without_weights(_: Backend, __: int, transfer: Any, *, depth: int) -> AtLevel:
    """A chunk's transfer without the coarser level's rows, which are needed at set-up alone."""
    return at_level(depth, replace(transfer, weights=None))


def column_order(backend: Backend, _: int, layout: Layout, columns: Layout) -> Route:
    """The `Route` from a level's storage order to the order in which finer chunks read it."""
    route = backend.layouts.route(layout.position, columns.position)
    backend.synchronize()  # kernels read routes before they wait for earlier launches
    return route
