"""Formats of any sparse matrix, in NumPy and on a CPU: SciPy's products, and the same arrays from both set-ups."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dsolver import kernels
from dsolver.kernels.cpu import octets as cpu_octets
from dsolver.kernels.cpu.block_slices import products as cpu_slices
from dsolver.kernels.cpu.csr import loops as cpu_loops
from dsolver.kernels.cpu.csr import products as cpu_rows
from dsolver.kernels.cpu.csr import transfers
from dsolver.kernels.cpu.csr.products import CpuRows
from dsolver.kernels.cpu.vectors import vectors
from dsolver.kernels.formats.block_slices import BLOCKS, NEAR, RUN, WIDE
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.octets import NO_BASE
from dsolver.kernels.general.operations import Between
from dsolver.kernels.reference import general as numpy_rows
from tests.kernels.general.text import block_slices as numpy_slices
from tests.kernels.general.text import chunks as numpy_chunks
from tests.kernels.general.text import octets as numpy_octets

DTYPES = ("float64", "float32")
LIMIT = {"float64": 1e-13, "float32": 1e-5}


def lattice(n: int) -> Any:
    one = sparse.diags([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1])
    i = sparse.eye(n)
    return (
        sparse.kron(sparse.kron(one, i), i) + sparse.kron(sparse.kron(i, one), i) + sparse.kron(sparse.kron(i, i), one)
    )


def long_tail(rows: int) -> Any:
    rng = np.random.default_rng(3)
    length = np.minimum((rng.pareto(1.0, rows) * 2).astype(np.int64), rows)
    length[3], length[5:60] = rows, 0
    columns = np.concatenate([rng.choice(rows, n, replace=False) for n in length])
    at = np.repeat(np.arange(rows), length), columns
    return sparse.csr_matrix((rng.standard_normal(len(columns)), at), shape=(rows, rows))


def far_apart(rows: int, columns: int) -> Any:
    rng, entries = np.random.default_rng(2), 300 * rows
    at = rng.integers(rows, size=entries), rng.integers(columns, size=entries)
    return sparse.csr_matrix((rng.standard_normal(entries), at), shape=(rows, columns))


@cache
def matrices() -> dict[str, Any]:
    made = {
        "random": sparse.random(391, 391, 0.03, random_state=1),
        "lattice": lattice(14),
        "long runs": lattice(7) @ lattice(7),
        "lattice of blocks": sparse.kron(lattice(6), np.arange(1.0, 10.0).reshape(3, 3)),
        "long tail": long_tail(2200),
        "columns far apart": far_apart(75, 300_000),
        "blocks": sparse.kron(sparse.random(50, 40, 0.1, random_state=4), np.ones((12, 12))),
        "one entry": sparse.csr_matrix(np.full((1, 1), 3.0)),
        "no entry": sparse.csr_matrix((40, 33)),
    }
    return {name: sparse.csr_matrix(matrix) for name, matrix in made.items()}


NAMES = tuple(matrices())


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of tests are cut among threads, too."""
    monkeypatch.setattr(cpu_rows, "ROWS_WORTH_A_THREAD", 16)
    monkeypatch.setattr(cpu_rows, "CHUNKS_WORTH_A_THREAD", 1)
    monkeypatch.setattr(transfers, "ENTRIES_WORTH_A_THREAD", 64)
    monkeypatch.setattr(cpu_octets, "ENTRIES_WORTH_A_THREAD", 128)


def compressed(name: str, dtype: str) -> tuple[Csr, Any]:
    """A matrix as compressed rows, and as SciPy's."""
    matrix = matrices()[name].astype(dtype)
    matrix.sort_indices()
    return Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data), matrix


def check(made: Any, matrix: Any) -> None:
    """The product of a format, also that with a dot product, against SciPy's in float64."""
    dtype = str(matrix.dtype)
    x = np.random.default_rng(8).standard_normal(matrix.shape[1]).astype(dtype)
    y = np.full(matrix.shape[0], np.nan, dtype=dtype)
    made.spmv(x, y)
    want = matrix.astype(np.float64) @ x.astype(np.float64)
    size = abs(matrix).astype(np.float64) @ abs(x).astype(np.float64)
    assert (abs(y - want) <= LIMIT[dtype] * size).all()
    if matrix.shape[0] == matrix.shape[1]:
        again, dot = np.full_like(y, np.nan), np.zeros(1)
        made.spmv_dot(x, again, dot)
        assert (again == y).all()
        assert dot[0] == pytest.approx(x.astype(np.float64) @ y.astype(np.float64), rel=1e-12, abs=1e-12)


def same(a: Any, b: Any, *names: str) -> None:
    for name in names:
        one, other = getattr(a, name), getattr(b, name)
        if one is None or other is None:
            assert one is other, name
        else:
            assert one.dtype == other.dtype, name
            assert np.array_equal(one, other), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_compressed_rows(name: str, dtype: str) -> None:
    rows, matrix = compressed(name, dtype)
    check(numpy_rows.TextbookRows(shape=matrix.shape, entries=rows), matrix)
    for threads in (1, 2):
        check(cpu_rows.CpuRows(shape=matrix.shape, entries=rows, vectors=vectors(threads, dtype)), matrix)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_chunks(name: str, dtype: str) -> None:
    rows, matrix = compressed(name, dtype)
    text = numpy_chunks.chunks(rows, matrix.shape[1])
    made = cpu_rows.chunks(rows, matrix.shape[1], vectors(2, dtype))
    check(text, matrix)
    check(made, matrix)
    assert made.whole == text.whole == (rows.width <= 512)
    same(made, text, "chunks", "ends", "columns", "start", "values")
    assert (made.near is None) == (text.near is None)
    assert (made.columns is not None) == (name == "columns far apart")
    for one in (text, made, numpy_rows.TextbookRows(shape=matrix.shape, entries=rows)):
        assert np.array_equal(one.rows(), np.repeat(np.arange(rows.size), np.diff(rows.start)))
        assert np.array_equal(one.columns_of_entries(), rows.columns)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", NAMES)
def test_slices_of_blocks(name: str, block: int, dtype: str) -> None:
    rows, matrix = compressed(name, dtype)
    if any(n % block for n in matrix.shape):
        with pytest.raises(ValueError, match=f"no {block} x {block} blocks"):
            numpy_slices.made(rows, matrix.shape[1], block=block)
        return
    for window in (1, 64, 1024):
        text = numpy_slices.made(rows, matrix.shape[1], block=block, window=window)
        check(text, matrix)
        if block == window == 1:
            made = cpu_slices.made(rows, matrix.shape[1], vectors(2, dtype))
            check(made, matrix)
            same(made, text, "slices", "indices", "values", "row")


def test_rows_with_as_many_entries_elsewhere_are_no_run() -> None:
    """Every other row has its entries at other distances from the diagonal."""
    lane = np.arange(64)
    columns = (lane + 40 * (lane % 2))[:, None] + np.arange(4)
    rows = Csr(4 * np.arange(65), columns.ravel().astype(np.int32), np.random.default_rng(0).standard_normal(256))
    matrix = sparse.csr_matrix((rows.values, rows.columns, rows.start), shape=(64, 128))
    made = cpu_slices.made(rows, 128, vectors(1, "float64"))
    check(made, matrix)
    same(made, numpy_slices.made(rows, 128, window=1), "slices", "indices", "values", "row")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_octets(name: str, dtype: str) -> None:
    rows, matrix = compressed(name, dtype)
    text = numpy_octets.made(rows, matrix.shape[1])
    made = cpu_octets.made(rows, matrix.shape[1], vectors(2, dtype))
    check(text, matrix)
    check(made, matrix)
    same(made, text, "octets", "lanes", "indices", "values")
    wide = (made.octets[:-1, 2] == NO_BASE) & (np.diff(made.octets[:, 0]) > 0)
    assert wide.any() == (name == "columns far apart")
    assert (
        made.nbytes
        == text.nbytes
        == 12 * len(made.octets)
        + len(made.lanes)
        + sum(
            (made.values.itemsize + size) * count
            for size, count in ((2, len(made.values) - 8 * _columns(made, wide)), (4, 8 * _columns(made, wide)))
        )
    )


def _columns(made: Any, of: Any) -> int:
    """Entry columns of some octets."""
    return int(np.diff(made.octets[:, 0].astype(np.int64))[of].sum())


def test_several_vectors_in_octets_have_the_bits_of_each() -> None:
    rows, matrix = compressed("random", "float64")
    made = cpu_octets.made(rows, matrix.shape[1], vectors(2, "float64"))
    x = np.random.default_rng(6).standard_normal((3, matrix.shape[1]))
    together, alone = np.empty((2, 3, matrix.shape[0]))
    made.batched(3).spmv(x, together)
    for n in range(3):
        made.spmv(x[n], alone[n])
    assert (together == alone).all()


def kinds(made: Any) -> set[int]:
    return {int(kind) for kind, width in zip(made.slices[:, 2] & 3, made.slices[:, 2] >> 2, strict=True) if width}


def test_rows_of_a_lattice_are_runs_but_at_its_ends() -> None:
    rows, matrix = compressed("lattice", "float64")
    made = numpy_slices.made(rows, matrix.shape[1])
    assert kinds(made) == {NEAR, RUN}
    runs = (made.slices[:, 2] & 3) == RUN
    assert runs[7:-7].all()
    assert made.nbytes < 9.5 * matrix.nnz
    assert kinds(numpy_slices.made(*compressed_of_blocks(), block=3)) >= {RUN}


def compressed_of_blocks() -> tuple[Csr, int]:
    rows, matrix = compressed("lattice of blocks", "float64")
    return rows, matrix.shape[1]


def test_columns_have_16_bits_where_they_lie_close_together() -> None:
    near, matrix = compressed("random", "float64")
    assert kinds(numpy_slices.made(near, matrix.shape[1])) == {NEAR}
    far, matrix = compressed("columns far apart", "float64")
    assert kinds(numpy_slices.made(far, matrix.shape[1])) == {WIDE}


def test_sorting_in_windows_takes_less_padding() -> None:
    rows, matrix = compressed("long tail", "float64")
    sizes = [numpy_slices.made(rows, matrix.shape[1], window=w).nbytes for w in (1, 64, 1024)]
    assert sizes[2] < sizes[1] < sizes[0]


def test_windows_are_powers_of_two() -> None:
    rows, matrix = compressed("random", "float64")
    for window in (0, 2, 48, 2048):
        with pytest.raises(ValueError, match="windows of 32, 64"):
            numpy_slices.made(rows, matrix.shape[1], window=window)


@pytest.mark.parametrize("name", NAMES)
def test_bits_do_not_depend_on_threads(name: str) -> None:
    rows, matrix = compressed(name, "float64")
    x = np.random.default_rng(9).standard_normal(matrix.shape[1])
    found = []
    for threads in (1, 2, 3):
        y = np.empty((3, matrix.shape[0]))
        cpu_rows.chunks(rows, matrix.shape[1], vectors(threads, "float64")).spmv(x, y[0])
        cpu_slices.made(rows, matrix.shape[1], vectors(threads, "float64")).spmv(x, y[1])
        cpu_octets.made(rows, matrix.shape[1], vectors(threads, "float64")).spmv(x, y[2])
        found.append(y)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_the_diagonal_is_zero_where_a_row_has_none() -> None:
    rows, matrix = compressed("random", "float64")
    assert (numpy_rows.TextbookRows(shape=matrix.shape, entries=rows).diagonal() == matrix.diagonal()).all()


@pytest.mark.parametrize(("longest", "kind"), [(3, cpu_octets.CpuOctets), (9, cpu_octets.CpuOctets), (60, CpuRows)])
def test_the_form_of_rows_between_levels_changes_no_bit(longest: int, kind: type) -> None:
    rng = np.random.default_rng(longest)
    start = np.append(0, np.cumsum(rng.integers(0, longest + 1, 100)))
    rows = Csr(start, rng.integers(0, 50, start[-1], dtype=np.int32), rng.standard_normal(start[-1]))
    made = transfers.between(
        Between(shape=(100, 50), rows=rows, written=slice(100), read=slice(50)), vectors(2, "float64")
    )
    assert isinstance(made.product, kind)
    x, y = rng.standard_normal(50), rng.standard_normal((2, 100))
    y[1] = y[0]
    cpu_loops.transfer(0, 100, *rows, x, 1.0, y[0], y[0])
    made.prolong_add(x, y[1])
    assert y[0].tobytes() == y[1].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ordered", [True, False], ids=["in order", "in another order"])
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_rows_between_two_levels(backend: str, ordered: bool, dtype: str) -> None:
    """Products go to and come from vectors of engines, which have guards, and orders of their own."""
    rows, matrix = compressed("columns far apart", dtype)
    device, rng = kernels.load(backend, 2, dtype), np.random.default_rng(0)
    written, read = (device.layouts.plain((count, 1, 1)) for count in matrix.shape)
    if not ordered:
        written, read = (
            device.layouts.permuted(layout, rng.permutation(layout.rows).astype(np.int32)) for layout in (written, read)
        )
    made: Any = device.general.transfer(rows, written, read)
    x, y = rng.standard_normal((2, read.size)).astype(dtype), rng.standard_normal((2, written.size)).astype(dtype)
    expected = matrix @ x[:, read.position].T
    alone, both = y.copy(), y.copy()
    for n in range(2):
        made.restrict_full(x[n], alone[n])
    made.batched(2).restrict_full(x, both)
    np.testing.assert_allclose(alone[:, written.position].T, expected, rtol=0, atol=30 * LIMIT[dtype])
    np.testing.assert_array_equal(alone, both)
    before = y.copy()
    made.batched(2).prolong_add(x, y)
    np.testing.assert_allclose((y - before)[:, written.position].T, expected, rtol=0, atol=30 * LIMIT[dtype])
    np.testing.assert_array_equal(y[:, written.row < 0], before[:, written.row < 0])


@pytest.mark.parametrize("formats", ["slices", "octets", "chunks", "rows"])
def test_a_users_rows_may_change_afterwards(formats: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of which a format is a copy anyway were copied twice."""
    backend, a = kernels.load("cpu"), sparse.csr_matrix(lattice(6))
    rows = Csr(a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data.astype(np.float64))
    copies, own = [], backend.general._own

    def copied(given: Csr) -> Csr:
        copies.append(given)
        return own(given)

    monkeypatch.setattr(backend.general, "_own", copied)
    layout = backend.layouts.plain((rows.size, 1, 1))
    made = backend.general.matrix(rows, layout, formats, borrowed=True)
    x, y, expected = np.ones(rows.size), np.empty(rows.size), a @ np.ones(rows.size)
    rows.values[:] = 0.0
    made.product.spmv(x, y)
    assert np.allclose(y, expected)
    assert bool(copies) == (formats in ("chunks", "rows"))
