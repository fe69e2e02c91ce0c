"""Solves for which no client is named take the one that is open, as Dask does."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver.cluster import default_client
from dsolver.errors import InputError
from tests.support.clusters import cluster

PROBLEM = dsolver.problems.poisson7((8, 8, 8))
B = np.random.default_rng(5).standard_normal((8, 8, 8))
OPEN_CLIENT: Final = default_client.open_client


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_client, "open_client", OPEN_CLIENT)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


def test_the_open_client_is_taken_which_a_note_tells(client: Client) -> None:
    named = dsolver.solve(PROBLEM, B, M="jacobi", client=client)
    found = dsolver.solve(PROBLEM, B, M="jacobi")
    assert found.engine == named.engine
    assert "2 workers" in found.engine
    assert (found.x == named.x).all()
    assert not named.notes
    (note,) = found.notes
    assert note.startswith("no client= was given, and a client is open: its cluster was taken, ")
    scheduler: Any = client.scheduler
    assert scheduler.address in note


def test_blocks_of_dask_stay_on_the_cluster(client: Client) -> None:
    x = dsolver.solve(PROBLEM, da.from_array(B, chunks=4), M="jacobi").x
    keys = {key for keys in client.has_what().values() for key in keys}
    assert {name for block in x.dask.values() if (name := getattr(block, "key", None))} <= keys
    assert isinstance(x, da.Array)


@pytest.mark.usefixtures("client")
def test_a_matrix_is_sent_to_no_worker_where_it_is_solved_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.cluster.rows.sent_rows.sent_ahead", None)
    a = sp.diags_array([2.0, 3.0, 4.0]).tocsr()
    assert np.allclose(dsolver.solve(a, np.ones(3), M=lambda r: r).x, [1 / 2, 1 / 3, 1 / 4])


@pytest.mark.usefixtures("client")
def test_without_a_cluster_all_is_here() -> None:
    for more in ({"client": False}, {"engine": "reference"}, {"M": lambda r: r}):
        options: Any = {"M": "jacobi", **more}
        found = dsolver.solve(PROBLEM, B, **options)
        assert "worker" not in found.engine
        assert not found.notes
    with dask.config.set(scheduler="threads"):  # so Dask computes here, too
        assert "worker" not in dsolver.solve(PROBLEM, B, M="jacobi").engine
    assert "worker" not in repr(dsolver.Solver(PROBLEM, client=False))
    with pytest.raises(InputError, match="client must be a"):
        dsolver.solve(PROBLEM, B, client=True)  # type: ignore[arg-type]


def engine_of_a_solve() -> str:
    return dsolver.solve(PROBLEM, B, M="jacobi").engine


def test_a_task_stays_on_its_worker(client: Client) -> None:
    """In threads of this process, where the client is open."""
    assert "worker" not in client.submit(engine_of_a_solve, pure=False).result()


def test_other_calls_take_it_too(client: Client) -> None:
    x, info = dsolver.cg(PROBLEM, B)
    assert info == 0
    assert np.allclose(x, dsolver.cg(PROBLEM, B, client=client)[0], atol=1e-6)
    assert len(dsolver.estimate(PROBLEM).workers) == 2
    assert len(dsolver.estimate(PROBLEM, client=False).workers) == 1


def solve_in_a_fork(client: Client, solver: dsolver.Solver) -> None:
    """Solves in a process that was forked: without a client, with one of the parent's, and with a Solver."""
    assert "worker" not in engine_of_a_solve()
    for solve in (partial(dsolver.solve, PROBLEM, client=client), solver.solve):
        with pytest.raises(InputError, match="was forked from"):
            solve(B)


def test_a_forked_process_waits_for_no_answer_of_the_client_that_it_was_forked_with(client: Client) -> None:
    with dsolver.Solver(PROBLEM, M="jacobi", client=client) as solver:
        child = multiprocessing.get_context("fork").Process(target=solve_in_a_fork, args=(client, solver))
        child.start()
        child.join(60.0)
        child.kill()
        assert child.exitcode == 0
        assert solver.solve(B).converged
