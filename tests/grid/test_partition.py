"""Chunks tile the grid, and a halo plan brings each slot the value that its rows read."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsolver import kernels
from dsolver.errors import InputError
from dsolver.grid.box import Box, Offsets, Triple
from dsolver.grid.numbering import chunk_numbering
from dsolver.grid.partition import Chunk, Partition
from dsolver.problems import BOX_OFFSETS, STAR_OFFSETS

NUMPY = kernels.load("numpy")
STENCILS = st.sampled_from([STAR_OFFSETS, BOX_OFFSETS])
MOST_CHUNKS = 60


@st.composite
def partitions(draw: st.DrawFn, *, uneven: bool = True, periodic: bool = False) -> Partition:
    """Any grid of 1 to 9 points an axis, in any number of chunks up to its size and to what a test can bear.

    uneven: their extents may be anything; periodic: axes may be.
    """
    grid, chunks, room = [0, 0, 0], [0, 0, 0], MOST_CHUNKS
    for axis in draw(st.permutations(range(3))):
        grid[axis] = draw(st.integers(1, 9))
        chunks[axis] = draw(st.integers(1, min(grid[axis], room)))
        room //= chunks[axis]
    cut: Any = tuple(chunks)
    if uneven and draw(st.booleans()):
        cut = tuple(draw(extents(n, p)) for n, p in zip(grid, chunks, strict=True))
    flags = draw(st.tuples(*[st.booleans()] * 3)) if periodic else (False, False, False)
    return Partition((grid[0], grid[1], grid[2]), cut, flags)


@st.composite
def extents(draw: st.DrawFn, points: int, chunks: int) -> tuple[int, ...]:
    """Any way to cut an axis."""
    inner = draw(st.permutations(range(1, points)))[: chunks - 1]
    cuts = [0, *sorted(inner), points]
    return tuple(b - a for a, b in pairwise(cuts))


def global_rows(partition: Partition, box: Box) -> npt.NDArray[np.int64]:
    """The number in the whole grid, x fastest, of each point of a box, x fastest."""
    numbers = np.arange(partition.domain.points).reshape(partition.grid, order="F")
    return numbers[box.slices].ravel(order="F")


def exchanged(partition: Partition, offsets: Offsets) -> list[npt.NDArray[np.int64]]:
    """The halo of each chunk when every chunk sends its rows' numbers in the whole grid."""
    plans = [partition.halo_plan(chunk.number, offsets) for chunk in partition]
    halos = []
    for chunk in partition:
        received = []
        for neighbor, count in plans[chunk.number].receives:
            (rows,) = [rows for to, rows in plans[neighbor].sends if to == chunk.number]
            assert len(rows) == count
            received.append(global_rows(partition, partition[neighbor].box)[rows])
        halos.append(np.concatenate(received) if received else np.empty(0, dtype=np.int64))
    return halos


def numbered(partition: Partition, chunk: Chunk, offsets: Offsets) -> Any:
    """Rows and slots of a chunk and the layer around it."""
    return chunk_numbering(NUMPY, partition, chunk.number, offsets).reshape(-1)


@settings(deadline=None)
@given(partitions())
def test_chunks_tile_the_grid_exactly_once(partition: Partition) -> None:
    times = np.zeros(partition.grid, dtype=int)
    for chunk in partition:
        assert min(chunk.box.shape) >= 1
        times[chunk.box.slices] += 1
    assert (times == 1).all()


@settings(deadline=None)
@given(partitions(uneven=False))
def test_chunks_are_numbered_x_fastest_and_are_as_equal_as_can_be(partition: Partition) -> None:
    assert [chunk.number for chunk in partition] == list(range(len(partition)))
    places = [(x, y, z) for z, y, x in product(*(range(n) for n in reversed(partition.counts)))]
    assert [partition.place(n) for n in range(len(partition))] == places
    assert [partition.number(place) for place in places] == list(range(len(partition)))
    corners = [partition[n].box.lo for n in range(len(partition))]
    assert corners == sorted(corners, key=lambda lo: lo[::-1])
    for axis, extents in enumerate(partition.sizes):
        assert sum(extents) == partition.grid[axis]
        assert max(extents) - min(extents) <= 1


@settings(deadline=None)
@given(partitions(periodic=True), STENCILS)
def test_every_slot_gets_the_point_that_rows_read_there(partition: Partition, offsets: Offsets) -> None:
    halos = exchanged(partition, offsets)
    nx, ny, _ = partition.grid
    for chunk in partition:
        number = numbered(partition, chunk, offsets)
        padded = number.reshape([n + 2 for n in chunk.box.shape], order="F")
        values = np.concatenate([global_rows(partition, chunk.box), halos[chunk.number]])
        used = set()
        for point in product(*(range(n) for n in chunk.box.shape)):
            for offset in offsets:
                local = tuple(p + d for p, d in zip(point, offset, strict=True))
                there = [low + p for low, p in zip(chunk.box.lo, local, strict=True)]
                i, j, k = (
                    a % n if wraps else a for a, n, wraps in zip(there, partition.grid, partition.periodic, strict=True)
                )
                inside = all(0 <= a < n for a, n in zip((i, j, k), partition.grid, strict=True))
                column = padded[tuple(p + 1 for p in local)]
                assert (column >= 0) == inside
                if inside:
                    assert values[column] == i + nx * (j + ny * k)
                    used.add(int(column))
        assert used == set(range(len(values))), "a slot that no row reads, or an own row that none reads"


@settings(deadline=None)
@given(partitions(), st.sets(st.sampled_from(BOX_OFFSETS), min_size=1, max_size=4))
def test_any_offsets_find_their_points(partition: Partition, half: set[Triple]) -> None:
    """A few offsets may bring slots that no row reads, but never lack one: (1, 1, 0) alone crosses faces too."""
    offsets = tuple(half | {(-i, -j, -k) for i, j, k in half})
    halos = exchanged(partition, offsets)
    for chunk in partition:
        number = numbered(partition, chunk, offsets)
        padded = number.reshape([n + 2 for n in chunk.box.shape], order="F")
        values = np.concatenate([global_rows(partition, chunk.box), halos[chunk.number]])
        for offset in offsets:
            read = chunk.box.shifted(offset).intersect(partition.domain)
            if read is not None:
                inside = tuple(
                    slice(a - b + 1, c - b + 1) for a, b, c in zip(read.lo, chunk.box.lo, read.hi, strict=True)
                )
                columns = padded[inside].ravel(order="F")
                assert (columns >= 0).all()
                assert (values[columns] == global_rows(partition, read)).all()


@settings(deadline=None)
@given(partitions(), STENCILS)
def test_no_point_is_received_twice_nor_is_an_own_one(partition: Partition, offsets: Offsets) -> None:
    for chunk, halo in zip(partition, exchanged(partition, offsets), strict=True):
        assert len(np.unique(halo)) == len(halo)
        assert not np.isin(halo, global_rows(partition, chunk.box)).any()


@settings(deadline=None)
@given(partitions(periodic=True), STENCILS)
def test_both_sides_of_a_pair_know_what_travels(partition: Partition, offsets: Offsets) -> None:
    plans = [partition.halo_plan(chunk.number, offsets) for chunk in partition]
    sent = {(own, to): len(rows) for own, plan in enumerate(plans) for to, rows in plan.sends}
    received = {(sender, own): count for own, plan in enumerate(plans) for sender, count in plan.receives}
    assert sent == received
    for own, plan in enumerate(plans):
        for numbers in ([n for n, _ in plan.sends], [n for n, _ in plan.receives]):
            assert numbers == sorted(set(numbers) - {own})
        assert plan.slots == sum(received.get((other, own), 0) for other in range(len(plans)))


@settings(deadline=None)
@given(partitions(periodic=True), st.integers(1, 3))
def test_thicker_halos_reach_across_thin_chunks(partition: Partition, width: int) -> None:
    """All points within a distance are found once in the box around a chunk, through as many periods as it takes."""
    steps = range(-width, width + 1)
    offsets = tuple((i, j, k) for i, j, k in product(steps, steps, steps))
    numbers = np.arange(partition.domain.points).reshape(partition.grid, order="F")
    periodic = np.array(partition.periodic)
    for chunk in partition:
        shape = [n + 2 * width for n in chunk.box.shape][::-1]
        found = np.full(shape, -1)
        pieces = partition.halo_pieces(chunk.number, offsets)
        for piece in pieces:
            assert piece.box.intersect(partition[piece.source].box) == piece.box
            place = found[chunk.box.around(piece.seen, width)]
            assert (place == -1).all()
            place[...] = numbers[piece.box.slices].T
        assert [p.source for p in pieces] == sorted(p.source for p in pieces)
        point = np.moveaxis(np.indices(shape)[::-1], 0, -1) + np.array(chunk.box.lo) - width
        wrapped = np.where(periodic, point % partition.grid, point)
        own = ((point >= chunk.box.lo) & (point < chunk.box.hi)).all(axis=-1)
        inside = ((wrapped >= 0) & (wrapped < partition.grid)).all(axis=-1) & ~own
        expected = np.where(inside, numbers[tuple(np.where(inside[..., None], wrapped, 0).T)].T, -1)
        assert np.array_equal(found, expected)


def test_chunks_of_any_extents_as_dask_writes_them() -> None:
    cut = ((3, 1, 5), (2,), (4, 4))
    partition = Partition((9, 2, 8), cut)
    assert partition.counts == (3, 1, 2)
    assert partition.sizes == cut
    assert [chunk.box.lo[0] for chunk in partition] == [0, 3, 4, 0, 3, 4]
    assert repr(partition) == "Partition(grid=(9, 2, 8), chunks=((3, 1, 5), (2,), (4, 4)))"
    assert repr(Partition((9, 2, 8), (3, 1, 2), (True, False, False))) == (
        "Partition(grid=(9, 2, 8), chunks=(3, 1, 2), periodic=(True, False, False))"
    )


def test_a_chunk_is_its_own_neighbor_across_a_periodic_axis_and_exchanges_nothing_with_itself() -> None:
    partition = Partition((4, 6, 5), (1, 2, 1), (True, True, False))
    assert partition.neighbors(0) == (1,)
    plan = partition.halo_plan(0, STAR_OFFSETS)
    assert plan.receives == ((1, 2 * 4 * 5),), "chunk 1 is met on both sides along y"
    assert [seen.lo for seen, _ in partition.wrapped(0, STAR_OFFSETS)] == [(-1, 0, 0), (4, 0, 0)]


def test_a_seven_point_stencil_needs_no_edges_and_corners() -> None:
    partition = Partition((6, 6, 6), (3, 3, 3))
    middle = partition.number((1, 1, 1))
    assert len(partition.halo_plan(middle, STAR_OFFSETS).receives) == 6
    assert len(partition.halo_plan(middle, BOX_OFFSETS).receives) == 26


@pytest.mark.parametrize(
    ("grid", "chunks", "message"),
    [
        ((0, 4, 4), (1, 1, 1), "0 points along x"),
        ((4, -2, 4), (1, 1, 1), "-2 points along y"),
        ((4, 4, 4), (1, 1, 0), "0 chunks along z"),
        ((4, 4, 4), (1, 5, 1), "5 chunks along y, but the grid has only 4 points there: use fewer"),
        ((4, 4), (1, 1, 1), "grid must be three integers"),
        ((4, 4, 4), (1, 1, 1, 1), "chunks must be three integers"),
        ((4.0, 4, 4), (1, 1, 1), "grid must be three integers"),
        (4, (1, 1, 1), "grid must be three integers"),
        ((4, 4, 4), ((4,), (4,)), "chunks must be three integers"),
        ((4, 4, 4), ((4,), (4,), (2.0, 2.0)), "chunks must be three integers"),
        ((4, 4, 4), ((4,), (2, 1), (4,)), "add up to 3, but the grid has 4"),
        ((4, 4, 4), ((4,), (4, 0), (4,)), "along y: every extent must be at least 1"),
    ],
)
def test_impossible_cuts_are_refused(grid: Any, chunks: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Partition(grid, chunks)


@pytest.mark.parametrize("three", [[4, 6, 8], np.array([4, 6, 8])])
def test_three_integers_of_any_kind_make_a_grid(three: Any) -> None:
    grid: Triple = Partition(three).grid
    assert grid == (4, 6, 8)
    assert all(type(n) is int for n in grid)
