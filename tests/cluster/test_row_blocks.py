"""Matrices that lie on a cluster as blocks of rows, and stay there."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from dask.delayed import delayed
from distributed import Client, LocalCluster, futures_of, get_client
from scipy.sparse.linalg import spsolve

import dsolver
from dsolver.cluster import crew
from dsolver.cluster.rows.block_tasks import cut_block, findings_of, noise, placed_block
from dsolver.errors import ClusterError, InputError
from dsolver.grid.row_partition import RowPartition
from tests.support.clusters import breakable, cluster
from tests.support.waiting import PATIENCE

BOUNDS = (0, 40, 75, 120)


def laplacian(rows: int = 120, diagonal: float = 0.5) -> sp.csr_array:
    """Matrix of a random graph, with something on the diagonal."""
    i, j = np.random.default_rng(0).integers(0, rows, (2, 3 * rows))
    links = sp.coo_array((1.0 * (i != j), (i, j)), shape=(rows, rows)).tocsr()
    links = links + links.T
    return sp.csr_array(sp.diags_array(links.sum(axis=1) + diagonal) - links)


def piece(first: int, last: int, **options: Any) -> sp.csr_array:
    return laplacian(**options)[first:last]


def negative(first: int, last: int) -> sp.csr_array:
    return -piece(first, last)


A = laplacian()
B = np.random.default_rng(1).standard_normal(120)
PIECES = list(pairwise(BOUNDS))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


def test_blocks_are_solved_with_where_they_are_and_give_the_same_bits(client: Client) -> None:
    workers = sorted(client.nthreads())
    wanted = [workers[1], workers[0], workers[1]]
    blocks = [
        client.submit(piece, *span, workers=[worker], key=f"piece-{span[0]}")
        for span, worker in zip(PIECES, wanted, strict=True)
    ]
    problem = dsolver.matrix_from_blocks(blocks, client=client)
    assert problem.places == tuple(wanted)
    assert repr(problem) == "<MatrixProblem matrix: 120 rows>"
    expected = dsolver.solve(dsolver.matrix(A, chunks=[40, 35, 45]), B, device="cpu", M="jacobi", rtol=1e-11)
    assert np.allclose(expected.x, spsolve(A.tocsc(), B))
    found = dsolver.solve(problem, B, client=client, device="cpu", M="jacobi", rtol=1e-11)
    assert found.residuals == expected.residuals
    assert (found.x == expected.x).all()
    tasks = dsolver.solve(problem, B, client=client, device="cpu", engine="graph", M="jacobi", maxiter=4)
    assert tasks.residuals == expected.residuals[:5]
    lazy = dsolver.solve(problem, da.from_array(B, chunks=40), client=client, device="cpu", M="jacobi", rtol=1e-11).x
    assert isinstance(lazy, da.Array)
    holders = client.who_has(futures_of(lazy))
    assert sorted(holder for found in holders.values() for holder in found) == sorted(wanted)
    assert (client.compute(lazy).result() == expected.x).all()
    assert dsolver.estimate(problem, client=client, device="cpu").chunks == (3, 1, 1)


def test_no_rows_come_to_the_client(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    gather: Any = Client.gather

    def seen(self: Client, futures: Any, **options: Any) -> Any:
        found = gather(self, futures, **options)
        for value in found if isinstance(found, list) else ():
            assert not sp.issparse(value)
            assert not hasattr(value, "values")
        return found

    monkeypatch.setattr(Client, "gather", seen)
    lazy = [delayed(piece)(*span).tocoo() for span in PIECES]
    sizes = [(last - first, 120) for first, last in PIECES]
    array = da.concatenate([da.from_delayed(d, size, meta=A[:0]) for d, size in zip(lazy, sizes, strict=True)])
    problem = dsolver.matrix_from_blocks(array, client=client)
    assert problem.chunks == ((40, 35, 45), (1,), (1,))
    assert dsolver.solve(problem, da.from_array(B, chunks=40), client=client, device="cpu").converged


def test_constants_are_found(client: Client) -> None:
    blocks = [delayed(piece)(*span, diagonal=0.0) for span in PIECES]
    problem = dsolver.matrix_from_blocks(blocks)
    assert problem.singular
    x = dsolver.solve(problem, B - B.mean(), client=client, device="cpu").x
    assert abs(x.mean()) <= 1e-12 * abs(x).max()


def test_columns_of_all_scales(client: Client) -> None:
    """Columns in other units, which no residual tells of: x was off by its length where ‖b - Ax‖ / ‖b‖ was 1e-8."""
    rng = np.random.default_rng(1)
    a = sp.random_array((1200, 1200), density=4.0 / 1200, rng=rng) + 4.0 * sp.eye_array(1200)
    a, x = sp.csr_array(a @ sp.diags_array(10.0 ** rng.uniform(-6.0, 6.0, 1200))), rng.standard_normal(1200)
    problem = dsolver.matrix_from_blocks([delayed(a[:700]), delayed(a[700:])], client=client)
    found = dsolver.solve(problem, a @ x, client=client, device="cpu")
    assert found.converged
    assert np.linalg.norm(found.x - x) <= 1e-3 * np.linalg.norm(x)


def changed(block: sp.csr_array, row: int, column: int, value: Any) -> sp.csr_array:
    found = block.tolil()
    found[row, column] = value
    return found.tocsr()


def broken(*_: int) -> sp.csr_array:
    raise FileNotFoundError("no such file\nanywhere")


def without_arrays(block: sp.csr_array) -> Any:
    """A matrix that is none of SciPy's and has their names, as those of the package sparse have."""
    return SimpleNamespace(tocsr=None, nnz=block.nnz, shape=block.shape, dtype=block.dtype)


def canceled(client: Client) -> Any:
    found = client.submit(piece, 0, 40, pure=False)
    found.cancel()
    return found


def emptied(block: sp.csr_array, row: int) -> sp.csr_array:
    return sp.csr_array(sp.diags_array(1.0 * (np.arange(block.shape[0]) != row)) @ block)


def test_what_is_no_symmetric_matrix_is_noticed(client: Client) -> None:
    pieces = [delayed(piece)(*span) for span in PIECES]
    good = dsolver.matrix_from_blocks(pieces, client=client)
    assert (good.asymmetry, good.hollow, good.indefinite) == ("", "", False)
    uneven = dsolver.matrix_from_blocks([delayed(changed)(pieces[0], 5, 100, -7.0), *pieces[1:]], client=client)
    assert uneven.asymmetry.startswith("xᵀA y = ")
    little = dsolver.matrix_from_blocks([delayed(changed)(pieces[0], 5, 100, -1e-8), *pieces[1:]], client=client)
    assert re.search(r"= .*, but yᵀA x differs from it by [1-9]\.\de-\d\d, for two", little.asymmetry)
    with pytest.raises(InputError, match="xᵀA y = "):
        dsolver.solve(uneven, B, client=client, method="cg")
    assert np.allclose(
        dsolver.solve(uneven, B, client=client, method="bicgstab", device="cpu", rtol=1e-10).x,
        spsolve(changed(A, 5, 100, -7.0).tocsc(), B),
    )
    hollow = dsolver.matrix_from_blocks([*pieces[:2], delayed(changed)(pieces[2], 3, 78, 0.0)], client=client)
    assert hollow.hollow == "A has 1 zeros on its diagonal, the first in row 78"
    assert hollow.indefinite
    assert (good.negative, hollow.negative) == (0, 1)
    sunk = dsolver.matrix_from_blocks([delayed(changed)(pieces[0], 5, 5, -9.0), *pieces[1:]], client=client)
    with pytest.raises(InputError, match="A has 1 diagonal entries that are not positive"):
        dsolver.solve(sunk, B, client=client, M="amg", device="cpu")
    opposite = dsolver.matrix_from_blocks([delayed(negative)(*span) for span in PIECES], client=client)
    assert (opposite.negated, opposite.indefinite, opposite.negative) == (True, False, 0)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: [], "has no block"),
        (lambda _: da.ones((120, 120), chunks=(40, 60)), r"in \(3, 2\) pieces: each must have whole rows"),
        (lambda _: [laplacian()], "block 0 is a csr_array, but must be a delayed object or a future"),
        (lambda _: [delayed(np.eye)(3)], "block 0 is a ndarray, but must be a sparse matrix"),
        (lambda p: p[:2], "block 0 has 120 columns, but the blocks have 75 rows"),
        (lambda _: [delayed(piece)(0, 0)], "blocks have no rows"),
        (lambda p: [p[0], delayed(piece)(0, 0), p[1]], "block 0 has 120 columns, but the blocks have 75 rows"),
        (lambda _: None, r"blocks is a NoneType, but must be a list of blocks: \[block\] for one"),
        (lambda p: p[0], "blocks is a Delayed, but must be a list"),
        (lambda p: futures_of(p[0].persist())[0], "blocks is a Future, but must be a list"),
        (lambda p: [*p[:2], delayed(broken)()], "block 2 cannot be computed: FileNotFoundError: no such file$"),
        (lambda p: [p[0], delayed(without_arrays)(p[1]), p[2]], "block 1 is a SimpleNamespace, but must be a sparse"),
        (lambda p: [p[0], p[1] * 1j, p[2]], "block 1 has dtype complex128"),
        (lambda p: [p[0], p[1], p[0]], "block 2 is the same object as block 0"),
        (
            lambda p: [p[0], delayed(changed)(p[1], 2, 7, np.nan), p[2]],
            r"NaN or infinity in 1 entry, the first at \(42, 7\)",
        ),
        (
            lambda p: [p[0], p[1], delayed(emptied)(p[2], 3)],
            "A has 1 empty row, the first is row 78: .* or pass A whole",
        ),
    ],
)
def test_blocks_that_are_no_matrix_are_refused(client: Client, make: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        dsolver.matrix_from_blocks(make([delayed(piece)(*span) for span in PIECES]), client=client)


def test_blocks_without_rows_are_left_out(client: Client) -> None:
    spans = [PIECES[0], (0, 0), *PIECES[1:], (120, 120)]
    some = dsolver.matrix_from_blocks([delayed(piece)(*span) for span in spans], client=client)
    every = dsolver.matrix_from_blocks([delayed(piece)(*span) for span in PIECES], client=client)
    assert some.chunks == every.chunks
    one, other = (dsolver.solve(each, np.ones(120), client=client) for each in (some, every))
    assert one.converged
    np.testing.assert_array_equal(one.x, other.x)


def inside(file: str) -> list[int]:
    """As a job's task does it, on a worker that has one slot for tasks."""
    with get_client() as client:
        blocks = dsolver.matrix_from_blocks([delayed(laplacian)()], client=client)
        return [blocks.grid[0], dsolver.read_matrix(file, client=client).grid[0]]


def test_a_task_may_wait_for_them_on_the_only_worker(tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "A.mtx", A)
    with cluster(1) as client:
        assert client.submit(inside, str(tmp_path / "A.mtx")).result(PATIENCE) == [120, 120]


def test_blocks_that_are_lost_are_told_by_number(client: Client) -> None:
    pieces = [delayed(piece)(*span) for span in PIECES]
    with pytest.raises(ClusterError, match=r"^block 1 was cancelled: make them anew, with the client"):
        dsolver.matrix_from_blocks([pieces[0], canceled(client), pieces[2]], client=client)


@pytest.mark.parametrize(
    "make", [dsolver.matrix_from_blocks, lambda _, client: dsolver.read_matrix("A.mtx", client=client)]
)
def test_without_a_cluster_none_is_made(client: Client, make: Any) -> None:
    blocks = [delayed(laplacian)()]
    closed = Client(client.cluster)
    closed.close()
    with pytest.raises(InputError, match=r"client must be a dask\.distributed Client"):
        make(blocks, client="tcp://127.0.0.1:8786")
    with pytest.raises(ClusterError, match="the client is closed: connect a new one"):
        make(blocks, client=closed)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        Client(empty) as alone,
        pytest.raises(ClusterError, match="the cluster has no workers: start some, of an adaptive one with"),
    ):
        make(blocks, client=alone)


def test_without_a_client_none_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.client._get_global_client", lambda: None)
    with pytest.raises(ClusterError, match="there is no client of a cluster: pass client="):
        dsolver.matrix_from_blocks([delayed(laplacian)()])


def test_a_number_of_chunks_is_a_number(client: Client) -> None:
    with pytest.raises(InputError, match=r"chunks must be an integer, not 1\.5"):
        dsolver.read_matrix("A.mtx", client=client, chunks=1.5)  # type: ignore[call-overload]


def test_without_its_cluster_it_is_refused(client: Client) -> None:
    problem = dsolver.matrix_from_blocks([delayed(piece)(*span) for span in PIECES], client=client)
    for more in ({}, {"client": client, "engine": "reference"}):
        with pytest.raises(InputError, match="this matrix lies on a cluster: solve with its client"):
            dsolver.solve(problem, B, device="cpu", **more)  # type: ignore[arg-type]


def test_noise_depends_on_the_place_alone() -> None:
    places = np.arange(10_000)
    values = noise(places, 1)
    assert (noise(places[77:99], 1) == values[77:99]).all()
    assert -1.0 <= values.min() < -0.99
    assert 0.99 < values.max() < 1.0
    assert abs(values.mean()) < 0.02
    assert abs(np.corrcoef(values, noise(places, 2))[0, 1]) < 0.05


def test_rows_of_a_lost_worker_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "RETURN", 0.0)
    monkeypatch.setattr(crew, "ANSWER", PATIENCE)
    with breakable(2) as client:
        problem = dsolver.matrix_from_blocks([delayed(piece)(*span) for span in PIECES], client=client)
        expected = dsolver.solve(problem, B, client=client, device="cpu", rtol=1e-10)
        killed: list[int] = []

        def kill(_: Any) -> None:
            if not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        found = dsolver.solve(problem, B, client=client, device="cpu", rtol=1e-10, callback=kill)
        assert killed
        assert found.converged
        assert np.allclose(found.x, expected.x)


def on_gpu(first: int, last: int) -> Any:
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse.csr_matrix(sp.csr_matrix(piece(first, last)))


def backwards(rows: sp.csr_array) -> sp.csr_array:
    """Rows with descending columns, equal to those given."""
    turned = rows.tocsc()[:, ::-1].tocsr()
    return sp.csr_array((turned.data, rows.shape[1] - 1 - turned.indices, turned.indptr), shape=rows.shape)


def only_ghosts(first: int, last: int) -> sp.csr_array:
    """Rows without their own columns, of those given."""
    rows = piece(first, last).tolil()
    rows[:, first:last] = 0.0
    return sp.csr_array(rows)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "made", [piece, on_gpu, lambda *span: backwards(piece(*span)), lambda *span: -piece(*span), only_ghosts]
)
def test_findings_about_a_block_on_a_gpu_are_those_of_the_host(made: Any) -> None:
    for number, span in enumerate(PIECES):
        here, there = (placed_block(made(*span), number, span[0], kernels) for kernels in ("cpu", "cuda"))
        known, found = findings_of(here, "cpu"), findings_of(there, "cuda")
        assert known.hollow[0] == (span[1] - span[0]) * (made is only_ghosts)
        assert (known.ghosts == found.ghosts).all()
        assert np.allclose(known.products, found.products, rtol=1e-13)
        assert replace(known, ghosts=found.ghosts, products=found.products) == found
        nothing = known.ghosts[:0]
        plan = RowPartition(bounds=BOUNDS).halo_plans([known.ghosts if i == number else nothing for i in range(3)])[
            number
        ]
        rows, others = (cut_block(at, plan, kind, negated=True) for at, kind in ((here, "cpu"), (there, "cuda")))
        for one, other in zip(rows.csr, others.here.csr, strict=True):
            assert (one == other).all()
        assert rows.counts is not None
        assert others.counts is not None
        assert rows.counts == replace(others.counts, local=rows.counts.local)
    with pytest.raises(InputError, match="block 1 has NaN or infinity in 1 entry, the first at \\(40, 40\\)"):
        placed_block(sp.csr_array(([np.nan], [40], [0, 1, 1]), shape=(2, 120)), 1, 40, "cuda")


@pytest.mark.gpu
def test_blocks_on_a_gpu() -> None:
    from dask_cuda import LocalCUDACluster

    with (
        LocalCUDACluster(n_workers=1, device_memory_limit=None, memory_limit=None, dashboard_address=None) as made,
        Client(made) as client,
    ):
        problem = dsolver.matrix_from_blocks([client.submit(on_gpu, *span) for span in PIECES], client=client)
        for engine, most in (("resident", None), ("graph", 3)):
            found = dsolver.solve(problem, B, client=client, device="cuda", engine=engine, maxiter=most, M="jacobi")  # type: ignore[arg-type]
            here = dsolver.solve(dsolver.matrix(A, chunks=[40, 35, 45]), B, device="cuda", maxiter=most, M="jacobi")
            assert found.residuals == here.residuals
            assert (found.x == here.x).all()
