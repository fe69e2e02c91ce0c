"""Cut of a grid for workers, and owners of its chunks."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsolver.errors import InputError
from dsolver.grid.box import Triple
from dsolver.grid.cut import balanced_cut, cut_for, owners_of
from dsolver.grid.partition import Partition


def surface(cut: Triple, grid: Triple) -> int:
    """Points on one side of all faces between chunks, counted cut by cut."""
    nx, ny, nz = grid
    return (cut[0] - 1) * ny * nz + (cut[1] - 1) * nx * nz + (cut[2] - 1) * nx * ny


def possible(grid: Triple, divisor: int) -> list[Triple]:
    """Every cut into chunks of equal extents that are divisible."""
    ranges = ([p for p in range(1, n + 1) if n % p == 0 and (n // p) % divisor == 0] for n in grid)
    return [(x, y, z) for x, y, z in product(*ranges)]


def test_cuts_for_a_million_workers_are_found_without_trying_all() -> None:
    assert cut_for((4096, 4096, 4096), 10**6, 8) == (64, 64, 128)
    x, y, z = balanced_cut((4096, 4096, 4096), 10**6)
    assert (x, y, z) == (100, 100, 100)


SIZES = st.integers(1, 12)


@settings(deadline=None)
@given(st.tuples(SIZES, SIZES, SIZES), st.integers(1, 16), st.sampled_from([1, 2, 4]))
def test_the_cut_has_the_most_chunks_and_then_the_smallest_surface(units: Triple, count: int, divisor: int) -> None:
    grid = (units[0] * divisor, units[1] * divisor, units[2] * divisor)
    cut = cut_for(grid, count, divisor)
    cuts = possible(grid, divisor)
    assert cut in cuts
    most = max(x * y * z for x, y, z in cuts if x * y * z <= count)
    assert cut[0] * cut[1] * cut[2] == most
    assert surface(cut, grid) == min(surface(c, grid) for c in cuts if c[0] * c[1] * c[2] == most)


@settings(deadline=None)
@given(st.tuples(SIZES, SIZES, SIZES), st.integers(1, 16))
def test_any_grid_is_cut_so_that_the_largest_chunk_and_its_halo_are_small(grid: Triple, count: int) -> None:
    cut = balanced_cut(grid, count)

    def largest(cut: Triple) -> int:
        sizes = ([n + min(p - 1, 2) for n in along] for along, p in zip(Partition(grid, cut).sizes, cut, strict=True))
        return max(x * y * z for x, y, z in product(*sizes))

    ranges = (range(1, min(n, count) + 1) for n in grid)
    possible = [(x, y, z) for x, y, z in product(*ranges) if x * y * z <= count]
    assert cut in possible
    smallest = min(map(largest, possible))
    assert largest(cut) == smallest
    assert surface(cut, grid) == min(surface(c, grid) for c in possible if largest(c) == smallest)


def test_prime_and_thin_grids_are_cut_too() -> None:
    assert balanced_cut((127, 127, 127), 8) == (2, 2, 2)
    assert balanced_cut((1, 101, 1), 4) == (1, 4, 1)
    assert balanced_cut((1, 1, 2), 8) == (1, 1, 1), "a chunk and its halo would be the whole grid again"
    assert balanced_cut((9, 8, 8), 2) == (1, 1, 2), "5 planes of 9 would make one worker wait for the other"


def test_long_grids_are_cut_across() -> None:
    assert cut_for((8, 8, 64), 4, 8) == (1, 1, 4)
    assert cut_for((64, 8, 8), 4, 8) == (4, 1, 1)
    assert cut_for((64, 64, 64), 8, 8) == (2, 2, 2)


def test_fewer_chunks_are_made_where_as_many_do_not_fit() -> None:
    assert cut_for((8, 8, 8), 5, 8) == (1, 1, 1)
    assert cut_for((24, 8, 8), 2, 8) == (1, 1, 1)


def test_a_grid_that_is_not_divisible_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="multiples of 8"):
        cut_for((12, 8, 8), 4, 8)


@settings(deadline=None)
@given(st.tuples(*[st.integers(1, 4)] * 3), st.integers(1, 20))
def test_owners_are_contiguous_balanced_and_in_rank_order(counts: Triple, workers: int) -> None:
    partition = Partition(counts, counts)
    names = [f"worker-{number:02}" for number in range(workers)]
    owners = owners_of(partition, names)
    assert len(owners) == len(partition)
    assert list(owners) == sorted(owners)
    held = Counter(owners)
    assert len(held) == min(workers, len(partition))
    assert max(held.values()) - min(held.values()) <= 1


def test_without_workers_nobody_owns_anything() -> None:
    assert owners_of(Partition((4, 4, 4), (2, 1, 1)), []) == ()
