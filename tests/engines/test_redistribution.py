"""Blocks of another cut, brought to the chunks of a grid."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise, product
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client, wait

import dsolver
from dsolver.engines import redistribution
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.redistribution import OtherCut, redistributed
from dsolver.engines.spmd import blocks as spmd_blocks
from dsolver.errors import InputError
from dsolver.grid.box import Box
from dsolver.grid.partition import Partition
from dsolver.kernels import load
from dsolver.problems import diffusion
from dsolver.session.user_arrays import containers
from tests.support.clusters import cluster

GRID = (7, 5, 6)
CUTS: list[tuple[tuple[int, ...], ...]] = [((7,), (5,), (6,)), ((3, 4), (5,), (6,)), ((1, 2, 4), (2, 3), (5, 1))]


def boxes_of(extents: tuple[tuple[int, ...], ...]) -> tuple[Box, ...]:
    """The boxes of such extents along x, y, z."""
    along = [list(pairwise(accumulate(each, initial=0))) for each in extents]
    return tuple(Box(lo=lo, hi=hi) for lo, hi in (zip(*sides, strict=True) for sides in product(*along)))


@pytest.mark.parametrize("extents", CUTS)
@pytest.mark.parametrize("at_once", [1, 13, 1000])
def test_chunks_have_the_values_of_boxes(
    extents: tuple[tuple[int, ...], ...], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redistribution, "AT_ONCE", at_once)
    values, partition = np.random.default_rng(1).integers(0, 99, GRID), Partition(GRID, (2, 1, 2))
    boxes = boxes_of(extents)
    cut = OtherCut(boxes=boxes, holders=tuple(3 * n % len(partition) for n in range(len(boxes))))
    engine = EagerEngine(partition, load("cpu"))
    found = redistributed(engine, cut, {n: values[box.slices] for n, box in enumerate(boxes)})
    for chunk in partition:
        assert found[chunk.number].dtype == np.float64
        assert (found[chunk.number] == values[chunk.box.slices]).all()


def test_a_block_that_is_not_as_promised_is_refused() -> None:
    boxes, engine = boxes_of(CUTS[1]), EagerEngine(Partition(GRID, (1, 1, 2)), load("cpu"))
    cut = OtherCut(boxes=boxes, holders=(0, 1))
    with pytest.raises(InputError, match=r"has shape \(4, 5, 5\), where the array says \(4, 5, 6\)"):
        redistributed(engine, cut, {0: np.ones((3, 5, 6)), 1: np.ones((4, 5, 5))})


@pytest.fixture(scope="module")
def apart() -> Iterator[Client]:
    with cluster(2, processes=True) as client:
        yield client


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[OtherCut]:
    """Cuts that blocks came in, of programs on CPUs that bring them to their chunks as those on GPUs do."""
    made: list[OtherCut] = []

    def kept(**given: Any) -> OtherCut:
        made.append(OtherCut(**given))
        return made[-1]

    monkeypatch.setattr(spmd_blocks, "MOVED_BY", ("cpu",))
    monkeypatch.setattr(spmd_blocks, "OtherCut", kept)
    monkeypatch.setattr(containers, "MANY", 100)
    return made


def test_arrays_are_taken_as_they_lie(apart: Client, cuts: list[OtherCut]) -> None:
    """Arrays of NumPy without gaps, those of workers where they are: the same to the bit as by chunk."""
    grid = (40, 30, 48)
    b, guess = np.random.default_rng(2).standard_normal((2, *grid))
    there = da.from_array(b, chunks=(25, 30, 31)).persist()
    wait(there)
    kappa = 1.0 + guess * guess
    with dsolver.Solver(diffusion(grid, np.asfortranarray(kappa), chunks=(1, 1, 2)), client=apart, device="cpu") as one:
        known = one.solve(np.asfortranarray(b), maxiter=5).x
        assert not cuts
    with dsolver.Solver(diffusion(grid, kappa, chunks=(1, 1, 2)), client=apart, device="cpu") as other:
        assert [len(cut.boxes) for cut in cuts] == [2]
        assert np.array_equal(other.solve(b, maxiter=5).x, known)
        cuts.clear()
    with dsolver.Solver(diffusion(grid, 2.0, chunks=(1, 1, 2)), client=apart, device="cpu") as solver:
        expected = solver.solve(np.asfortranarray(b), x0=np.asfortranarray(guess), maxiter=5).x
        assert not cuts
        for right, boxes in ((b, 2), (there, 4), (da.from_array(b, chunks=(20, 30, 48)), 2)):
            found = solver.solve(right, x0=guess, maxiter=5).x
            assert [len(cut.boxes) for cut in cuts] == [2, boxes]
            assert np.array_equal(np.asarray(found), expected)
            cuts.clear()
        in_chunks = solver.solve(da.from_array(b, chunks=(40, 30, 24)), maxiter=5).x
        assert in_chunks.chunks == ((40,), (30,), (24, 24))
        assert not cuts


def test_a_dask_array_whose_blocks_lie_is_refused(apart: Client, cuts: list[OtherCut]) -> None:
    grid = (40, 30, 48)
    lying = apart.persist(da.zeros(grid, chunks=(20, 30, 48)).map_blocks(lambda block: block[:-1], dtype=np.float64))
    with (
        dsolver.Solver(diffusion(grid, 2.0, chunks=(1, 1, 2)), client=apart, device="cpu") as solver,
        pytest.raises(InputError, match=r"has shape \(19, 30, 48\), where the array says \(20, 30, 48\)"),
    ):
        solver.solve(lying)
    assert cuts
