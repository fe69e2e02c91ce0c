"""Arrays of this process that workers of its host read where they lie."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from distributed import Client

import dsolver
from dsolver.engines.dask import lending
from dsolver.engines.spmd import blocks as rank_blocks
from dsolver.engines.spmd import worker
from dsolver.engines.spmd.calls import RankCalls
from dsolver.grid.partition import Partition
from dsolver.kernels.cpu.loops import copying
from dsolver.kernels.lending import arrays as lent_arrays
from dsolver.kernels.lending.arrays import LentArray
from dsolver.kernels.lending.memory import Lender, LendingError
from dsolver.problems import diffusion
from tests.support.clusters import cluster

GRID = (40, 40, 48)


@pytest.fixture(scope="module")
def apart() -> Iterator[Client]:
    with cluster(2, processes=True) as client:
        yield client


def arrays() -> tuple[Any, Any, Any]:
    """κ, b and a first guess, the last of which is no part of memory without gaps."""
    rng = np.random.default_rng(0)
    return rng.uniform(0.5, 2.0, GRID), rng.standard_normal(GRID), rng.standard_normal((*GRID, 2))[..., 0]


def solved(client: Any, chunks: Any) -> dsolver.Solution:
    kappa, b, guess = arrays()
    problem = diffusion(GRID, kappa, chunks=chunks)
    return dsolver.solve(problem, b, x0=guess, M="jacobi", maxiter=20, client=client, device="cpu")


@pytest.mark.parametrize("chunks", [(2, 1, 1), (1, 1, 2), (1, 2, 2)])
def test_arrays_are_read_by_their_owners_and_give_the_same_bits(
    apart: Client, chunks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_blocks, "scatter_to_owners", None)  # nothing travels
    monkeypatch.setattr("dsolver.kernels.lending.arrays.WORTH", 1)
    apart.run(lend_small_ones)
    found, known = solved(apart, chunks), solved(False, chunks)
    assert found.residuals == known.residuals
    assert np.array_equal(found.x, known.x)
    assert found.x.flags.writeable


def test_vectors_of_eigenvalues_come_in_one_call(apart: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, every = [], RankCalls.all

    def counted(calls: RankCalls, command: Any, *arguments: Any) -> list[Any]:
        asked.append(command)
        return every(calls, command, *arguments)

    monkeypatch.setattr(RankCalls, "all", counted)
    apart.run(lend_small_ones)
    problem = diffusion((12, 10, 8), bc="neumann", chunks=(2, 1, 2))
    wanted: dict[str, Any] = {"k": 4, "M": "jacobi", "maxiter": 3, "device": "cpu"}
    found, known = (dsolver.eigsh(problem, client=client, **wanted) for client in (apart, False))
    assert asked.count(worker.unload_rank) == 1
    assert np.array_equal(found.vectors, known.vectors)


@pytest.mark.parametrize("chunks", [(2, 1, 1), (1, 2, 2)])
def test_x_is_read_from_its_owners(apart: Client, chunks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kappa, b, _ = arrays()
    filled: list[int] = []
    fill = LentArray.fill

    def counted(array: LentArray, out: Any) -> None:
        filled.append(array.lender.pid)
        fill(array, out)

    rooms, taken = [], copying.HostRoom.taken

    def kept(room: copying.HostRoom, *what: Any) -> Any:
        rooms.append(taken(room, *what))
        return rooms[-1]

    monkeypatch.setattr(LentArray, "fill", counted)
    monkeypatch.setattr(copying.HostRoom, "taken", kept)
    monkeypatch.setattr(copying, "ROOMY", 1)
    apart.run(lend_small_ones)
    problem = diffusion(GRID, kappa, chunks=chunks)
    with dsolver.Solver(problem, M="jacobi", client=apart, device="cpu") as solver:
        solutions = [solver.solve(values, maxiter=20).x for values in (b, 2.0 * b, 3.0 * b)]
        z = solver.aspreconditioner() @ b.ravel()
    with dsolver.Solver(problem, M="jacobi", client=False, device="cpu") as solver:
        for x, factor in zip(solutions, (1.0, 2.0, 3.0), strict=True):
            assert np.array_equal(x, solver.solve(factor * b, maxiter=20).x)
        assert np.array_equal(z, solver.aspreconditioner() @ b.ravel())
    assert len(filled) == 4 * len(Partition(GRID, chunks))
    assert all(np.shares_memory(x, room) for x, room in zip(solutions, rooms[:3], strict=True))
    assert set(filled) == set(apart.run(os.getpid).values())


def test_a_solve_goes_on_where_an_owner_is_lost_with_its_part_of_x(
    apart: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = ["process 1 cannot be read"]
    fill = LentArray.fill

    def failing(array: LentArray, out: Any) -> None:
        if failures:
            raise LendingError(failures.pop())
        fill(array, out)

    monkeypatch.setattr(LentArray, "fill", failing)
    apart.run(lend_small_ones)
    found = solved(apart, (2, 1, 1))
    assert not failures
    assert found.converged == solved(False, (2, 1, 1)).converged
    assert np.allclose(found.x, solved(False, (2, 1, 1)).x, atol=1e-3)


def lend_small_ones() -> None:
    """Have a worker lend arrays of any size."""
    lent_arrays.WORTH = 1  # type: ignore[misc]


def test_workers_that_cannot_read_get_copies_and_the_log_says_why(
    apart: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lending, "_known", {})
    monkeypatch.setattr(lending, "here", lambda: Lender(pid=1 << 22, place=8, secret=b""))
    with caplog.at_level(logging.INFO, "dsolver"):
        found = solved(apart, (2, 1, 1))
    assert np.array_equal(found.x, solved(False, (2, 1, 1)).x)
    assert "gets copies: [Errno 3] process 4194304 cannot be read: No such process" in caplog.text
