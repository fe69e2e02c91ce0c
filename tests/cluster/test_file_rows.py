"""Matrices from files that the workers of a cluster read, each its part."""

from __future__ import annotations

import gzip
import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver.cluster.rows import file_rows, row_blocks
from dsolver.cluster.rows.file_rows import blocks_of_file
from dsolver.engines.dask import attended
from dsolver.errors import ClusterError, InputError, WorkerLostError
from dsolver.matrices.files.matrix_market import market_part
from dsolver.matrices.io import header_of
from tests.support.clusters import breakable, cluster, process_of, scheduler_in_a_process, workers_without_nanny
from tests.support.petsc import write_petsc
from tests.support.waiting import PATIENCE, eventually

HEAD = "%%MatrixMarket matrix coordinate"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


def matrix(rows: int = 97) -> sp.csr_array:
    """Rows of very different lengths, symmetric."""
    rng = np.random.default_rng(0)
    off = sp.random_array((rows, rows), density=0.03, rng=rng, format="csr")
    off = (off + off.T).tolil()
    off[3, :] = off[:, 3] = 0.1
    off = off.tocsr()
    return (off + sp.diags_array(1.0 + off.sum(axis=1))).tocsr()


def in_file(folder: Path, a: Any, ending: str) -> Path:
    path = folder / f"a{ending}"
    if ending in (".mtx", ".mtx.gz"):
        plain = folder / "plain.mtx"
        scipy.io.mmwrite(plain, a, precision=17, symmetry="symmetric")
        path.write_bytes(gzip.compress(plain.read_bytes()) if ending.endswith("gz") else plain.read_bytes())
    elif ending == ".petsc":
        write_petsc(path, a)
    elif ending == ".mat":
        scipy.io.savemat(path, {"A": a})
    else:
        sp.save_npz(path, a.asformat(ending.removesuffix(".npz").strip("-") or "csr"), compressed="csc" in ending)
    return path


@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz", ".petsc", ".npz", "-csc.npz", ".mat"])
def test_blocks_are_the_rows_of_the_file(client: Client, tmp_path: Path, ending: str) -> None:
    a = matrix()
    path = in_file(tmp_path, a, ending)
    blocks = client.gather(blocks_of_file(path, client, 3))
    assert len(blocks) == 3
    assert abs(sp.vstack(blocks) - a).max() == 0.0
    problem = dsolver.read_matrix(path, client=client)
    assert problem.name == path.name
    here = dsolver.matrix(a, chunks=2)
    assert problem.chunks == here.chunks
    b = np.ones(97)
    expected = dsolver.solve(here, b, device="cpu", M="jacobi")
    found = dsolver.solve(problem, b, client=client, device="cpu", M="jacobi")
    assert found.residuals == expected.residuals
    assert (found.x == expected.x).all()


@pytest.mark.parametrize("symmetry", ["general", "skew-symmetric", "symmetric"])
def test_the_lines_of_any_part_are_read_once(tmp_path: Path, symmetry: str) -> None:
    lines = [f"{i} {j} {i}.{j}" for i in range(2, 9) for j in range(1, i, 2)]
    path = tmp_path / "a.mtx"
    for end in ("\n", "\r\n", "\n\n"):
        path.write_bytes(end.join([f"{HEAD} real {symmetry}", "% a comment", f"9 9 {len(lines)}", *lines]).encode())
        header, whole = header_of(path), dsolver.read_matrix(path)
        for count in (1, 2, 7, 100):
            cuts = [header.begin + (header.size - header.begin) * part // count for part in range(count + 1)]
            parts = [market_part(path, header, *span) for span in pairwise(cuts)]
            assert sum(part.lines for part in parts) == len(lines)
            found = sum(sp.coo_array((p.values, (p.row, p.column)), shape=(9, 9)).toarray() for p in parts)
            assert (found == whole.toarray()).all()
        if end != "\n\n":
            length = len(lines[0] + end)
            assert market_part(path, header, header.begin + length, header.size).lines == len(lines) - 1
            assert market_part(path, header, header.begin + length + 1, header.size).lines == len(lines) - 2


def test_many_parts_and_ranges_of_rows(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "PART_BYTES", 1000)
    monkeypatch.setattr(file_rows, "RANGES", 1)
    a = sp.diags_array([np.arange(1.0, 3001.0)] * 2, offsets=[0, -1], shape=(3000, 3000)).tocsr()
    scipy.io.mmwrite(tmp_path / "a.mtx", a)
    blocks = client.gather(blocks_of_file(tmp_path / "a.mtx", client, 2))
    assert blocks[0].shape[0] % 12 == 0
    assert abs(sp.vstack(blocks) - a).max() == 0.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"{HEAD} real general\n3 3 4\n1 1 2.0\n2 1 -1\n",
            "cut short: its header tells of 4 entries, but 2 lines follow",
        ),
        (f"{HEAD} real general\n3 3 1\n1 1 2.0\n2 1 -1\n", "has too many lines: its header tells of 1 entry"),
        (f"{HEAD} real general\n% more\n3 3 3\n1 1 2.0\n2 2 2\n4 1 -1\n", "Line 6: Row index out of bounds"),
        (f"{HEAD} real general\n3 3 3\n1 1 2.0\n2 x -1\n3 3 1\n", "Line 4"),
        (f"{HEAD} real general\n3 3\n1 1 2.0\n", "Line 2: three numbers must be there"),
        (f"{HEAD} complex general\n2 2 1\n1 1 2.0 3.0\n", "real numbers are needed"),
        (f"{HEAD} real general\n2 2 2\n1 1 1\n2 1 1e999\n", r"NaN or infinity in 1 entry, the first at \(1, 0"),
        (f"{HEAD} real general\n2 2 2\n1 1 1\n2 1 2\0\n", r"Line 4: .* must be there, not '2 1 2\\x00'"),
        (
            f"{HEAD} real symmetric\n2 2 2\n1 2 1\n2 1 1\n",
            r"is symmetric by its header, and has entries on both sides of .*, such as at \(2, 1\) and \(1, 2\)",
        ),
        (f"{HEAD} real general\n2 3 1\n1 1 1\n", "as many rows as columns"),
        (f"{HEAD} real general\n3 3 2\n1 1 1\n3 3 1\n", "A has 1 empty row, the first is row 1"),
        ("%%MatrixMarket matrix array real general\n1 1\n1\n", "by coordinates"),
        ("1 1 1\n", "Missing banner"),
    ],
)
def test_bad_files_are_refused_with_the_line(client: Client, tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "a.mtx"
    path.write_text(text)
    with pytest.raises(InputError, match=reason):
        dsolver.read_matrix(path, client=client)


THREE: dict[str, Any] = {
    "format": np.array(b"csr"),
    "shape": np.array([3, 3]),
    "indptr": np.arange(4),
    "indices": np.arange(3),
    "data": np.arange(1.0, 4.0),
}


@pytest.mark.parametrize(
    "arrays",
    [
        {"indptr": np.array([1, 2, 3, 4])},
        {"indptr": np.array([0, 2, 1, 3])},
        {"indptr": np.array([0, 1, 2, 99])},
        {"indptr": np.arange(4.0)},
        {"indptr": np.arange(3)},
        {"data": np.ones(7)},
        {"data": np.ones((3, 1))},
        {"data": np.ones(3, complex)},
        {"shape": np.array([4, 3])},
        {"shape": np.array([3, 2])},
        {"shape": np.array([3, 3, 3])},
        {"indices": np.array([0, 1, 3])},
        {"indices": np.array([0, 1, -1])},
        {"indices": np.arange(3.0)},
        {"format": np.array(b"csc"), "indptr": np.array([0, 3, 2, 3])},
        {"format": np.array(b"csc"), "indptr": np.array([0, 2, 2**40, 3])},
        {"format": np.array(b"csc"), "indices": np.array([0, 1, 7])},
        {"format": np.array(b"abc")},
        {
            "format": np.array(b"coo"),
            "shape": np.array([10**10, 10**10]),
            "row": np.arange(3),
            "col": np.arange(3),
        },
    ],
)
def test_arrays_that_are_no_matrix_are_refused_by_workers_too(
    client: Client, tmp_path: Path, arrays: dict[str, Any]
) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **(THREE | arrays))
    workers = set(client.nthreads())
    with pytest.raises(InputError, match=r"a\.npz"):
        dsolver.read_matrix(path, client=client)
    assert set(client.nthreads()) == workers
    if "row" not in arrays and not np.iscomplexobj(
        arrays.get("data", 0.0)
    ):  # which would need memory, or are read here
        with pytest.raises(InputError, match=r"a\.npz"):
            dsolver.read_matrix(path)


def test_small_integers_are_added_in_float64(client: Client, tmp_path: Path) -> None:
    for kind in ("csr", "csc"):
        values = {"data": np.array([100, 100, 1], np.int8), "indices": np.zeros(3, int), "indptr": np.array([0, 3])}
        np.savez(tmp_path / "a.npz", **(THREE | values | {"format": np.array(kind), "shape": np.array([1, 1])}))
        (block,) = client.gather(blocks_of_file(tmp_path / "a.npz", client, 1))
        problem = dsolver.read_matrix(tmp_path / "a.npz", client=client, chunks=1)
        assert dsolver.solve(problem, np.array([402.0]), client=client, device="cpu").x == pytest.approx([2.0])
        assert block.shape == (1, 1)


def test_files_that_are_none(client: Client, tmp_path: Path) -> None:
    for name, reason in (("a.mtx", "there is no file"), ("a.txt", "ends in none of"), ("a.petsc", "there is no file")):
        with pytest.raises(InputError, match=reason):
            dsolver.read_matrix(tmp_path / name, client=client)
    path = in_file(tmp_path, matrix(), ".petsc")
    with pytest.raises(InputError, match="97 rows cannot be cut into 98 chunks"):
        dsolver.read_matrix(path, client=client, chunks=98)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match="the file is cut short"):
        dsolver.read_matrix(path, client=client)
    with pytest.raises(InputError, match="chunks= is for a cluster"):
        dsolver.read_matrix(path, chunks=2)  # type: ignore[call-overload]


# -- workers that are lost meanwhile -----------------------------------------------------------------------------------


def end_once(counts: Any, mark: str, number: int, *args: Any) -> Any:
    """A task that ends its worker by a signal, or stops it, the first time that it runs on any."""
    try:
        Path(mark).mkdir()
    except FileExistsError:
        return counts(*args)
    os.kill(os.getpid(), number)
    return counts(*args)


def striking(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
    monkeypatch.setattr(file_rows, "_counts", partial(end_once, file_rows._counts, str(folder / "mark"), number))


def test_the_only_worker_is_killed_and_another_reads_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that were to run on it may run anywhere, but stayed where they were."""
    path = in_file(tmp_path, matrix(), ".mtx")
    striking(monkeypatch, tmp_path, signal.SIGKILL)
    monkeypatch.setattr(attended, "WITHOUT_WORKERS", PATIENCE)
    with breakable(1) as client:
        problem = dsolver.read_matrix(path, client=client)
        assert problem.grid[0] == 97


def test_a_worker_that_is_stopped_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_file(tmp_path, matrix(), ".mtx")
    striking(monkeypatch, tmp_path, signal.SIGSTOP)
    monkeypatch.setattr(attended, "LOOK", 0.1)
    monkeypatch.setattr(row_blocks.results_of, "__kwdefaults__", {"silence": 0.5})
    with workers_without_nanny(1) as (client, (process,)):
        (worker,) = client.nthreads()
        try:
            with pytest.raises(WorkerLostError, match=f"worker {worker} has not answered for"):
                dsolver.read_matrix(path, client=client)
        finally:
            os.kill(process.pid or 0, signal.SIGCONT)


def test_workers_that_are_all_gone_are_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_file(tmp_path, matrix(), ".mtx")
    striking(monkeypatch, tmp_path, signal.SIGKILL)
    monkeypatch.setattr(attended, "WITHOUT_WORKERS", 0.5)
    gone = pytest.raises(ClusterError, match=r"the cluster has had no workers for 0\.5 s")
    with workers_without_nanny(1) as (client, _), gone:
        dsolver.read_matrix(path, client=client)


def test_a_scheduler_that_is_killed_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that was a bare FutureCancelledError."""
    path = in_file(tmp_path, matrix(), ".mtx")
    striking(monkeypatch, tmp_path, signal.SIGSTOP)
    where = tmp_path / "scheduler.json"
    worker = ["distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--scheduler-file", str(where)]
    with (
        scheduler_in_a_process(where, "--no-dashboard") as scheduler,
        process_of(*worker, "--no-dashboard"),
        Client(scheduler_file=str(where), timeout=PATIENCE) as client,
    ):
        client.wait_for_workers(1, timeout=PATIENCE)

        def strike() -> None:
            eventually((tmp_path / "mark").exists)
            scheduler.kill()

        alarm = threading.Thread(target=strike)
        alarm.start()
        with pytest.raises(ClusterError, match="the cluster does not answer any more"):
            dsolver.read_matrix(path, client=client)
        alarm.join()
