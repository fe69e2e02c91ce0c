"""A matrix of this process whose rows the owners of its chunks take, cut and count."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver import kernels
from dsolver.cluster.rows import sent_rows
from dsolver.cluster.rows.placed_rows import GivenRows, cut_piece, placed
from dsolver.cluster.rows.sent_rows import Sending, SentMatrix
from dsolver.cluster.rows.taken_rows import cut_given
from dsolver.cluster.runtime import connect
from dsolver.engines.out_of_memory import clear_frames
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.kernels import Backend
from dsolver.matrices import checked
from dsolver.matrices.chunks.cut import CutMatrix
from dsolver.matrices.chunks.row_block import CutRows
from tests.support.clusters import breakable, cluster
from tests.support.waiting import PATIENCE, eventually


def mesh(n: int = 24) -> Any:
    """A symmetric matrix whose chunks read many of each other's columns, (n², n²)."""
    rng = np.random.default_rng(0)
    line = sp.diags_array([-np.ones(n - 1), 2.1 * np.ones(n), -np.ones(n - 1)], offsets=(-1, 0, 1))
    made = sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))
    far = sp.random_array((n * n, n * n), density=4 / n**2 / n, rng=rng)
    far = abs(far) + abs(far.T)
    return sp.csr_array(made + sp.diags_array(np.asarray(far.sum(axis=0)).ravel()) - far)


@pytest.fixture(scope="module")
def apart() -> Iterator[Client]:
    with cluster(2, processes=True) as client:
        yield client


@pytest.fixture(scope="module")
def within() -> Iterator[Client]:
    with cluster(2) as client:
        yield client


@pytest.fixture(params=["apart", "within"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found


def wide(a: Any) -> Any:
    return sp.csr_array((a.data, a.indices.astype(np.int64), a.indptr.astype(np.int64)), shape=a.shape)


def rounded(a: Any) -> Any:
    """With entries that differ from their mirror images as those of an assembly in float32 do."""
    made = a.copy()
    made.data *= 1.0 + 1e-8 * np.random.default_rng(1).standard_normal(len(made.data))
    return made


SYSTEMS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "one chunk": lambda: (mesh(), {"chunks": 1}),
    "a chunk for each worker": lambda: (mesh(), {}),
    "many chunks": lambda: (mesh(), {"chunks": 5}),
    "int64 indices": lambda: (wide(mesh()), {"chunks": 3}),
    "float32 values": lambda: (mesh().astype(np.float32), {"chunks": 2}),
    "COO": lambda: (mesh().tocoo(), {"chunks": 2}),
    "an order": lambda: (mesh(), {"chunks": 2, "order": "rcm"}),
    "parts": lambda: (mesh(), {"partition": np.arange(576) % 3}),
    "a near-null space": lambda: (mesh(), {"chunks": 2, "near_nullspace": np.linspace(1.0, 2.0, 576)}),
    "nearly symmetric": lambda: (rounded(mesh()), {"chunks": 2}),
    "negative": lambda: (-mesh(), {"chunks": 2}),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_same_bits_as_in_this_process(name: str, apart: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.kernels.lending.arrays.WORTH", 1)
    monkeypatch.setattr(sent_rows, "WORTH", 1)
    a, options = SYSTEMS[name]()
    b = np.random.default_rng(0).standard_normal(a.shape[0])
    problem = dsolver.matrix(a, **options)
    given: dict[str, Any] = {"M": "amg", "device": "cpu", "maxiter": 30}
    found = dsolver.solve(problem, b, client=apart, **given)
    chunks: dict[str, Any] = {} if "chunks" in options or "partition" in options else {"chunks": 2}
    known = dsolver.solve(dsolver.matrix(a, **options, **chunks), b, client=False, **given)
    assert found.residuals == known.residuals
    assert np.array_equal(found.x, known.x)


def test_counts_and_rows_are_those_of_a_cut_in_this_process(client: Client) -> None:
    a, partition = mesh(), RowPartition(bounds=(0, 100, 350, 576))
    chunks = Partition((576, 1, 1), partition.sizes)
    runtime = connect(client, device="cpu")
    sent, cut = SentMatrix(runtime, None, a, partition, None, None, (1, 2)), CutMatrix(a, partition, blocks=(1, 2))
    assert sent.counts == cut.counts
    assert sent.senders == cut.senders
    owners = [runtime.workers[0], runtime.workers[0], runtime.workers[1]]
    for _ in range(2):  # sent again, as nothing keeps what was given away
        futures = sent.blocks(chunks, host=True, owners=owners)
        for number, block in cut.blocks(chunks, host=True).items():
            found = futures[number].result()
            assert all(np.array_equal(*pair) for pair in zip(found.csr, block.csr, strict=True))
            assert found.known == block.known
            assert str(found.plan) == str(block.plan)
            first, last = partition.bounds[number : number + 2]
            named = np.concatenate([np.arange(first, last), found.ghosts])[found.columns]
            assert np.array_equal(named, a[first:last].indices)
            assert np.array_equal(found.ghosts, block.ghosts)
        del futures
    assert sent._sent is None
    eventually(lambda: not client.who_has())


def test_rows_that_are_read_do_not_travel(apart: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.kernels.lending.arrays.WORTH", 1)
    monkeypatch.setattr(sent_rows, "WORTH", 1)
    monkeypatch.setattr(sent_rows, "scatter", None)
    with dsolver.Solver(mesh(), client=apart, device="cpu", M="jacobi") as solver:
        assert solver.solve(np.ones(576)).converged


@pytest.fixture
def ahead(apart: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client whose matrices of any size are sent before they are looked at."""
    monkeypatch.setattr("dsolver.kernels.lending.arrays.WORTH", 1)
    monkeypatch.setattr(sent_rows, "WORTH", 1)
    monkeypatch.setattr(sent_rows, "AHEAD", 1)
    return apart


@pytest.mark.parametrize("name", ["plain", "an object's", "negative", "nearly symmetric", "float32", "far too large"])
def test_rows_that_are_sent_before_the_look_are_those_that_are_solved_with_or_are_dropped(
    name: str, ahead: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    a: Any = {
        "plain": mesh(),
        "an object's": sp.csr_matrix(mesh()),
        "negative": -mesh(),
        "nearly symmetric": rounded(mesh()),
        "float32": mesh().astype(np.float32),
        "far too large": mesh() * 1e200,
    }[name]
    sent, send = [], SentMatrix._send

    def counted(matrix: SentMatrix) -> Any:
        sent.append(matrix)
        return send(matrix)

    monkeypatch.setattr(SentMatrix, "_send", counted)
    b = a @ np.random.default_rng(0).standard_normal(a.shape[0])
    given: dict[str, Any] = {"M": "amg", "device": "cpu"}
    with dsolver.Solver(a, client=ahead, **given) as solver:
        assert len(sent) == {"plain": 0, "an object's": 0, "nearly symmetric": 1}.get(name, 1)
        eventually(lambda: not any("dsolver-rows" in key for key in ahead.who_has()))
        found = solver.solve(b, maxiter=30)
    known = dsolver.solve(dsolver.matrix(a, chunks=2), b, client=False, maxiter=30, **given)
    assert found.residuals == known.residuals
    assert np.array_equal(found.x, known.x)


def test_another_matrix_is_sent_before_the_look_as_well(ahead: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    b = np.random.default_rng(0).standard_normal(576)
    monkeypatch.setattr(SentMatrix, "_send", None)
    with dsolver.Solver(mesh(), client=ahead, device="cpu", M="jacobi") as solver:
        first = solver.solve(b)
        solver.update(2.0 * mesh())
        again = solver.solve(b)
    assert np.allclose(again.x, 0.5 * first.x)


def rows_held(dask_worker: Any) -> list[str]:
    """Rows of matrices in the memory of a worker, which a scheduler may know or not."""
    return [key for key in dask_worker.data if "dsolver-rows" in str(key)]


def processing(client: Client) -> bool:
    """Whether workers have tasks to do."""
    return any(client.processing().values())


def _descending(a: Any) -> None:
    a.indptr[7] = a.indptr[9]


def _beyond(a: Any) -> None:
    a.indptr[-1] += 100


def _far(a: Any) -> None:
    a.indices[:] = 1 << 30


def _below(a: Any) -> None:
    a.indices[5] = -7


def _infinite(a: Any) -> None:
    a.data[0] = np.inf


@pytest.mark.parametrize("spoil", [_descending, _beyond, _far, _below, _infinite])
def test_a_matrix_with_faults_that_was_sent_is_refused_and_harms_no_owner(
    spoil: Callable[[Any], None], ahead: Client
) -> None:
    a = mesh()
    spoil(a)
    owners = ahead.run(os.getpid)
    with pytest.raises(dsolver.InputError):
        dsolver.Solver(a, client=ahead, device="cpu", M="jacobi")
    eventually(lambda: not ahead.who_has() and not processing(ahead))
    eventually(lambda: not any(ahead.run(rows_held).values()))
    assert ahead.run(os.getpid) == owners
    assert not any("Failed" in line for lines in ahead.get_worker_logs().values() for _, line in lines)


def test_owners_forget_rows_though_the_error_of_another_is_dealt_with_meanwhile() -> None:
    """An error whose frames are cleared, which ends coroutines that it has passed."""
    told: list[bool] = []
    sending: Any = object.__new__(Sending)
    sending._names, sending._to_owners = ["rows"], lambda each: each

    async def gather(*_: Any) -> None:
        await asyncio.sleep(0.05)
        told.append(True)

    async def run() -> None:
        taken, error = Future[Any](), dsolver.WorkerLostError("an owner is lost")
        ending = asyncio.ensure_future(sending._ended(taken, None, ExitStack()))
        await asyncio.sleep(0)
        taken.set_exception(error)
        await asyncio.sleep(0.01)
        clear_frames(error)
        await asyncio.wait_for(ending, PATIENCE)

    sending._calls = SimpleNamespace(gather=gather)
    asyncio.run(run())
    assert told


def test_an_update_sends_the_rows_of_the_other_matrix(client: Client) -> None:
    b = np.random.default_rng(0).standard_normal(576)
    with dsolver.Solver(mesh(), client=client, device="cpu", M="jacobi") as solver:
        first = solver.solve(b)
        solver.update(2.0 * mesh())
        again = solver.solve(b)
    assert np.allclose(again.x, 0.5 * first.x)


def test_rows_are_sent_again_to_those_that_are_left() -> None:
    b = np.random.default_rng(0).standard_normal(576)
    known = dsolver.solve(dsolver.matrix(mesh(), chunks=2), b, client=False, device="cpu", M="jacobi")
    with breakable(2) as client, dsolver.Solver(mesh(), client=client, device="cpu", M="jacobi") as solver:
        lost = solver.solve(b)
        pid = next(iter(client.run(os.getpid).values()))
        os.kill(pid, signal.SIGKILL)
        found = solver.solve(b)
    assert np.array_equal(lost.x, known.x)
    assert found.converged
    assert np.allclose(found.x, known.x, rtol=1e-6)


def test_an_owner_that_is_lost_while_its_rows_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("dsolver.kernels.lending.arrays.WORTH", "dsolver.cluster.rows.sent_rows.WORTH"):
        monkeypatch.setattr(module, 1)
    monkeypatch.setattr(sent_rows, "AHEAD", 1)
    b = np.random.default_rng(0).standard_normal(576)
    known = dsolver.solve(dsolver.matrix(mesh(), chunks=1), b, client=False, device="cpu", M="jacobi")
    with breakable(2) as client:
        pid = next(iter(client.run(os.getpid).values()))

        def look_while_it_ends(*given: Any, **options: Any) -> Any:
            os.kill(pid, signal.SIGKILL)
            return dsolver.matrix(*given, **options)

        monkeypatch.setattr("dsolver.session.arguments.matrix", look_while_it_ends)
        found = dsolver.solve(mesh(), b, client=client, device="cpu", M="jacobi")
    assert found.converged
    assert np.allclose(found.x, known.x, rtol=1e-6)


class CutThere(CutRows):
    """Rows that owners with a GPU have cut."""

    def __init__(self, matrix: Any, partition: RowPartition, formats: Any, near: Any, blocks: Sequence[int]) -> None:
        self._here = CutMatrix(matrix, partition, formats, near, blocks)
        self._found: dict[int, Any] = {}
        for number, (first, last) in enumerate(pairwise(partition.bounds)):
            begin, end = matrix.indptr[[first, last]]
            arrays = matrix.indptr[first : last + 1], matrix.indices[begin:end], matrix.data[begin:end]
            rows = GivenRows((first, last), *arrays, None if near is None else near[first:last])
            plan = self._here.plans[number]
            block = cut_piece(placed(rows, "cuda"), plan, formats=formats, blocks=blocks, kernels="cuda")
            assert block.counts is not None
            assert replace(block.counts, local=self.counts[number].local) == self.counts[number]
            self._found[number] = block

    @property
    def counts(self) -> Any:
        """As here, like `senders`."""
        return self._here.counts

    @property
    def senders(self) -> Any:
        return self._here.senders

    def blocks(self, *_: Any, **__: Any) -> dict[int, Any]:
        return self._found


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "M"),
    [
        *((name, "amg") for name in SYSTEMS if "worker" not in name and name != "COO"),
        *(("many chunks", M) for M in ("symgs", "block-jacobi", "direct")),
        ("nearly symmetric", "chebyshev"),
        ("an order", "ic0"),
    ],
)
def test_rows_on_gpus_give_the_bits_of_rows_on_the_host(name: str, M: str) -> None:
    a, options = SYSTEMS[name]()
    b = np.random.default_rng(0).standard_normal(a.shape[0])
    problem: Any = dsolver.matrix(a, **options)
    given: dict[str, Any] = {"M": M, "device": "cuda", "maxiter": 20, "client": False}
    found = dsolver.solve(problem.planned(1, cuda=True, cut=CutThere), b, **given)
    known = dsolver.solve(problem, b, **given)
    assert found.residuals == known.residuals
    assert np.array_equal(found.x, known.x)


@pytest.mark.parametrize("kernels", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("spoil", [None, _descending, _beyond, _far, _below])
def test_an_owner_refuses_rows_that_lead_out_of_their_arrays(spoil: Any, kernels: str) -> None:
    a = mesh()
    first, last = 100, 300
    begin, end = a.indptr[[first, last]]
    part = sp.csr_array(a[first:last])
    part.indptr += 7  # pointers of a chunk begin anywhere
    if spoil is not None:
        spoil(part)
    rows = GivenRows((first, last), part.indptr, part.indices, part.data, None)
    with nullcontext() if spoil is None else pytest.raises(dsolver.InputError, match="lead out of their arrays"):
        block, _ = cut_given(rows, a.shape[0], {"formats": None, "blocks": (1,), "kernels": kernels})
        assert len(block.columns) == end - begin


def test_an_owner_has_one_thread_for_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners of a host share its cores: with all of them each, their threads took turns."""
    asked, a, found = set[int](), mesh(), kernels._loaded

    def loaded(name: str, threads: int, dtype: str) -> Backend:
        asked.add(threads)
        return found(name, threads, dtype)

    monkeypatch.setattr(checked, "usable_cpus", lambda: 7)
    monkeypatch.setattr(kernels, "_loaded", loaded)
    half = a.indptr[a.shape[0] // 2]
    rows = GivenRows((0, a.shape[0] // 2), a.indptr[: a.shape[0] // 2 + 1], a.indices[:half], a.data[:half], None)
    cut_given(rows, a.shape[1], {"formats": None, "blocks": (1,), "kernels": "cpu"})
    assert asked == {1}
