"""Formats of any sparse matrix on a GPU, against the text-book and SciPy."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import dsolver
from dsolver import kernels
from dsolver.kernels.formats.block_slices import NEAR, RUN, WIDE
from dsolver.kernels.formats.choice import gpu_choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.operations import Between
from dsolver.kernels.general.setup import OtherValues
from dsolver.monitor import watch
from tests.kernels.general.test_formats import NAMES, check, compressed, lattice, long_tail, matrices, same
from tests.kernels.general.text import block_slices as numpy_slices
from tests.kernels.general.text import chunks as numpy_chunks

LARGEST, HALF_WAY = float(np.finfo(np.float32).max), 2.0**128 - 2.0**103
EDGES = (
    *(1e300, -1e300, LARGEST, HALF_WAY, np.nextafter(HALF_WAY, 0.0), -HALF_WAY, np.inf),
    *(2.0**-126, np.nextafter(2.0**-126, 0.0), 1e-40, -1e-40, 2.0**-150, np.nextafter(2.0**-150, 1.0), 1e-300, -0.0),
    *(1.0 + 2.0**-24, 1.0 + 3 * 2.0**-24, np.nextafter(1.0 + 2.0**-24, 2.0)),
)
"""Values at which rounding to float32 is decided: overflow, denormals, and ties to even."""


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 33, 500, 64 * 7])
def test_pairs_of_short_slices_have_the_bits_of_single_ones(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    from dsolver.kernels.cuda.block_slices import products as slices

    rng = np.random.default_rng(rows)
    columns = np.sort((np.arange(rows) // 8)[:, None] + rng.integers(0, 40, (rows, 4)), axis=1)
    columns[0, 0], columns[rows // 2, 3] = 0, 90_000  # columns of a slice that are far apart
    matrix = sparse.csr_array((rng.standard_normal(4 * rows), columns.ravel(), np.arange(rows + 1) * 4), (rows, 90_001))
    matrix.sum_duplicates()
    for entries in (0, 5, 9):  # of one row, in a slice that has no more columns of entries, one more, and many
        wide = sparse.lil_array(matrix)
        wide[[rows // 3]] = 0.0
        wide[rows // 3, :entries] = 1.0
        one = sparse.csr_array(wide)
        there = Csr(*map(cupy.asarray, (one.indptr.astype(np.int64), one.indices.astype(np.int32), one.data)))
        made = slices.made(there, 90_001, "float64", block=1, window=1)
        x, r, found = rng.standard_normal(90_001), rng.standard_normal(rows), []
        for short in (0, 10):
            monkeypatch.setattr(slices, "SHORT", short)
            y = cupy.empty(rows)
            made.add(cupy.asarray(x), cupy.asarray(r), y)
            found.append(y.get())
        assert (found[0] == found[1]).all()
        assert np.allclose(found[0], r + one @ x)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_formats_on_a_gpu(name: str, dtype: str) -> None:
    import cupy

    from dsolver.kernels.cuda.block_slices import products as slices
    from dsolver.kernels.cuda.csr import products as rows_of

    rows, matrix = compressed(name, dtype)
    there = Csr(*(cupy.asarray(part) for part in rows))
    wide = there._replace(values=cupy.asarray(rows.values.astype(np.float64)))
    made: list[Any] = [rows_of.CudaRows(shape=matrix.shape, entries=there, threads=t) for t in rows_of.LANES]
    made.append(rows_of.chunks(there, matrix.shape[1], rows.width))
    same(OnHost(made[-1]), numpy_chunks.chunks(rows, matrix.shape[1]), "chunks", "ends", "columns", "start")
    assert np.array_equal(made[-1].rows().get(), np.repeat(np.arange(rows.size), np.diff(rows.start)))
    assert np.array_equal(made[-1].columns_of_entries().get(), rows.columns)
    for block in (b for b in (1, 2, 3, 4, 6) if not any(n % b for n in matrix.shape)):
        for window in (1, 64, 1024):
            sliced = slices.made(wide, matrix.shape[1], dtype, block=block, window=window)
            cupy.cuda.get_current_stream().synchronize()
            text = numpy_slices.made(rows, matrix.shape[1], block=block, window=window)
            same(OnHost(sliced), text, "slices", "indices", "values", "row")
            made.append(sliced)
    for one in made:
        check(OnHost(one), matrix)
    if matrix.shape[0] == matrix.shape[1]:
        found = made[0].diagonal(2, rows.size + 5).get()
        assert (found == [1.0, 1.0, *matrix.diagonal(), 1.0, 1.0, 1.0]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("window", [1, 64, 1024])
@pytest.mark.parametrize("block", [1, 2, 3, 4, 6])
def test_slices_round_as_values_that_are_rounded_before(block: int, window: int) -> None:
    """Slices of short rows, each of which a lane reads, and of long ones; what becomes of denormals is the device's."""
    import cupy

    from dsolver.kernels.cuda.block_slices import products as slices
    from dsolver.kernels.cuda.vectors.vectors import narrowed

    rng, size = np.random.default_rng(block), 12 * 20
    short = sparse.random_array((size, size), density=3.0 / size, rng=rng)
    for matrix in (short, short + sparse.random_array((size, size), density=0.1, rng=rng)):
        one = sparse.csr_array(matrix)
        one.sort_indices()
        one.data = rng.standard_normal(one.nnz) * 10.0 ** rng.integers(-50, 50, one.nnz)
        one.data[: len(EDGES)] = EDGES
        there = Csr(*map(cupy.asarray, (one.indptr.astype(np.int64), one.indices.astype(np.int32), one.data)))
        before = there.values.astype(np.float32)
        assert narrowed(there.values, np.dtype(np.float32)).get().tobytes() == before.get().tobytes()
        made = OnHost(slices.made(there, size, "float32", block=block, window=window))
        rows = Csr(*(part.get() for part in (there.start, there.columns, before)))
        text = numpy_slices.made(rows, size, block=block, window=window)
        same(made, text, "slices", "indices", "values", "row")
        assert made.values.tobytes() == text.values.tobytes()  # signs of zeros, too


def full_blocks(pattern: Any, block: int) -> Any:
    """A matrix with a block wherever another has an entry."""
    made = sparse.csr_matrix(sparse.kron(sparse.csr_matrix(pattern), np.ones((block, block))))
    made.sort_indices()
    made.data = np.random.default_rng(block).standard_normal(made.nnz)
    return made


def without_one(matrix: Any, row: int) -> Any:
    """A matrix without the second entry of a row."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    kept = np.arange(matrix.nnz) != matrix.indptr[row] + 1
    return sparse.csr_matrix((matrix.data[kept], (rows[kept], matrix.indices[kept])), matrix.shape)


def with_one_more(matrix: Any, row: int) -> Any:
    """A matrix with an entry in the last column of a row, behind its others."""
    assert matrix.indices[matrix.indptr[row + 1] - 1] < matrix.shape[1] - 1
    return sparse.csr_matrix(matrix + sparse.csr_matrix(([1.0], ([row], [matrix.shape[1] - 1])), matrix.shape))


def all_but_full(pattern: Any, block: int) -> Any:
    """Full blocks with entries moved in some slices, and rows as long as before: blocks of other or more columns."""
    made = full_blocks(pattern, block)
    columns, wide = made.indices, made.shape[1]
    starts = made.indptr[:-1][:: 32 * block]  # first rows of slices
    every = slice(starts[1], made.indptr[33 * block])
    columns[every] = (columns[every] + 1) % wide  # blocks that begin at no multiple of their size
    columns[made.indptr[65 * block + 1] + block - 1] += block  # of one row that is not its block's first
    for row in range(96 * block, 97 * block):  # the same in all rows of a row of blocks
        columns[made.indptr[row] + block - 1] += block
    made.has_sorted_indices = False
    made.sort_indices()
    return made


def patterns() -> dict[str, Any]:
    """Entries where blocks will be: of lattices, of random meshes with empty and long rows, near and far."""
    rng = np.random.default_rng(11)
    near = sparse.lil_array(sparse.random_array((131, 140), density=0.08, rng=rng))
    near[[0, 40, 41, 130]] = 0.0
    near[70, :50] = 1.0
    far = sparse.random_array((75, 90_000), density=12 / 90_000, rng=rng)
    each = np.add.outer(7 * np.arange(131), [1, 4, 9, 17])  # blocks apart from each other
    apart = sparse.csr_array((np.ones(4 * 131), each.ravel(), np.arange(132) * 4), (131, 7 * 131 + 11))
    runs = sparse.lil_array(sparse.diags_array(np.ones((40, 131)), offsets=list(range(0, 120, 3)), shape=(131, 290)))
    for row in range(1, 131, 2):
        runs[row, row : row + 120 : row % 7 + 3] = 0.0
    return {"lattice": lattice(5), "long runs": runs, "near": near, "far": far, "apart": apart}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("block", [2, 3, 4, 6])
def test_slices_of_full_blocks_are_those_of_any(block: int, dtype: str) -> None:
    """Also where a row of blocks, or all of a slice, is not full."""
    import cupy

    from dsolver.kernels.cuda.block_slices import products as slices

    found, kinds = patterns(), {"lattice": RUN, "long runs": RUN, "near": NEAR, "far": WIDE}
    made_of = {name: full_blocks(pattern, block) for name, pattern in found.items()}
    for name in ("lattice", "far"):
        made_of[f"{name} without one"] = without_one(made_of[name], 40 * block + block - 1)
        made_of[f"{name} with one more"] = with_one_more(made_of[name], 40 * block + block - 1)
    made_of["others"] = all_but_full(found["apart"], block)
    for name, matrix in made_of.items():
        columns = matrix.shape[1]
        arrays = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
        there = Csr(*map(cupy.asarray, arrays))
        rows = Csr(*arrays[:2], matrix.data.astype(dtype))
        for window in (1, 64):
            made = OnHost(slices.made(there, columns, dtype, block=block, window=window))
            text = numpy_slices.made(rows, columns, block=block, window=window)
            same(made, text, "slices", "indices", "values", "row")
            assert made.values.tobytes() == text.values.tobytes()
            assert name not in kinds or window > 1 or (text.slices[:, 2] & 3 == kinds[name]).any()
        wanted = np.diff(numpy_slices.blocks(rows, columns, block)[0].searchsorted(range(rows.size // block + 1)))
        assert (slices.lengths(there, block, dtype=dtype).get() == wanted).all()


class OnHost:
    """A format on a GPU as one that takes and gives NumPy arrays."""

    def __init__(self, one: Any) -> None:
        self._one = one

    def __getattr__(self, name: str) -> Any:
        import cupy

        found = getattr(self._one, name)
        return found.get() if isinstance(found, cupy.ndarray) else found

    def spmv(self, x: Any, y: Any) -> None:
        self._called("spmv", x, y)

    def spmv_dot(self, x: Any, y: Any, dot: Any) -> None:
        self._called("spmv_dot", x, y, dot)

    def _called(self, name: str, *arrays: Any) -> None:
        import cupy

        there = [cupy.asarray(array) for array in arrays]
        getattr(self._one, name)(*there)
        for array, result in zip(arrays[1:], there[1:], strict=True):
            array[:] = result.get()


@pytest.mark.gpu
@pytest.mark.parametrize(("threads", "dtype"), [(8, "float64"), (32, "float32")])
def test_rows_of_full_blocks_have_the_bits_of_rows(threads: int, dtype: str) -> None:
    import cupy

    from dsolver.kernels.cuda.csr import products

    rng, block = np.random.default_rng(6), 3
    pattern = sparse.random_array((70, 70), density=0.2, rng=rng) + sparse.eye_array(70)
    matrix = sparse.csr_matrix(sparse.kron(sparse.csr_array(pattern), np.ones((block, block))))
    matrix.data = rng.standard_normal(matrix.nnz).astype(dtype)
    there = Csr(*map(cupy.asarray, (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)))
    places = products.blocks_of_rows(there, matrix.shape[1], (block, block))
    assert places is not None
    plain = products.CudaRows(shape=matrix.shape, entries=there, threads=threads)
    x, r, w = (cupy.asarray(rng.standard_normal(matrix.shape[0]).astype(dtype)) for _ in range(3))
    found = [_all_products(one, x, r, w) for one in (plain, replace(plain, blocks=places))]
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
    other = matrix.tolil()
    other[0, : block - 1] = 0.0
    sparser = sparse.csr_matrix(other)
    sparser.eliminate_zeros()
    parts = (sparser.indptr.astype(np.int64), sparser.indices.astype(np.int32), sparser.data)
    assert products.blocks_of_rows(Csr(*map(cupy.asarray, parts)), matrix.shape[1], (block, block)) is None


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(3, 6), (6, 3)])
def test_blocks_between_levels_have_the_bits_of_rows(shape: tuple[int, int]) -> None:
    import cupy

    from dsolver.kernels.cuda.csr.transfer import transfer
    from dsolver.kernels.cuda.vectors.vectors import vectors

    rng = np.random.default_rng(7)
    matrix = sparse.csr_matrix(sparse.kron(sparse.random_array((50, 40), density=0.2, rng=rng), np.ones(shape)))
    matrix.data = rng.standard_normal(matrix.nnz)
    there = Csr(*map(cupy.asarray, (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)))
    x, r = (cupy.asarray(rng.standard_normal(n)) for n in matrix.shape[::-1])
    written, read = (slice(0, n) for n in matrix.shape)
    found = []
    for blocks in ((1, 1), shape):
        levels = Between(shape=matrix.shape, rows=there, written=written, read=read, blocks=blocks)
        one: Any = transfer(levels, vectors("float64"))
        y, z = r.copy(), r.copy()
        assert (one.product.blocks is None) == (blocks == (1, 1))
        one.restrict_full(x, y)
        one.prolong_sum(x, r, z)
        found.append((y.get(), z.get()))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    assert np.allclose(found[0][0], matrix @ x.get())


def _all_products(one: Any, x: Any, r: Any, w: Any) -> list[Any]:
    """Results of all kernels, with dot products."""
    import cupy

    y, kept, dots = cupy.empty_like(x), cupy.empty_like(x), cupy.zeros(2)
    found = []
    for name, arguments in (
        ("spmv", (x, y)),
        ("spmv_dot", (x, y, dots[:1])),
        ("add", (x, r, y)),
        ("residual", (r, x, y)),
        ("jacobi_sweep", (w, r, x, y)),
        ("jacobi_sweep_dot", (w, r, x, y, dots[1:])),
        ("jacobi_first", (w, r, kept, y)),
    ):
        y[:] = kept[:] = 0.0
        getattr(one, name)(*arguments)
        found += [y.get(), kept.get()]
    return [*found, dots.get()]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_statistics_on_a_gpu_are_those_of_a_cpu(dtype: str) -> None:
    import cupy

    from dsolver.kernels.cpu.csr.statistics import statistics as on_cpu
    from dsolver.kernels.cuda.csr.statistics import statistics as on_gpu

    few = sparse.csr_matrix(np.ones((70, 70)))
    for matrix in (long_tail(3000), sparse.csr_matrix(sparse.kron(sparse.eye(9000), np.ones((6, 6)))), few):
        rows = Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
        on_device = Csr(*(cupy.asarray(p) for p in rows))
        here = on_cpu(rows._replace(values=rows.values.astype(dtype)), matrix.shape[1])
        there = on_gpu(on_device, matrix.shape[1], dtype=dtype)
        assert kernels.load("cuda", dtype=dtype).general.choice(on_device, None) == gpu_choice(there)
        assert (there.shape, there.entries, there.longest, there.stored) == (
            here.shape,
            here.entries,
            here.longest,
            here.stored,
        )
        assert there.variance == pytest.approx(here.variance)
        alone = on_gpu(on_device, matrix.shape[1], (1,), dtype)
        assert alone == replace(there, stored={1: there.stored[1]})


@pytest.mark.gpu
def test_a_solve_that_lasts_is_measured_on_a_gpu_and_not_in_an_emulation() -> None:
    """On a busy machine any solve may last, and the emulator has no events in graphs."""
    matrix = sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(64, 64), format="csr")

    def wait(state: dsolver.State) -> None:
        time.sleep(0.6 if state.iteration == 1 else 0.0)  # longer than watch.MEASURE_AFTER is on a GPU

    solution = dsolver.solve(matrix, np.ones(64), M=None, device="cuda", maxiter=6, rtol=0.0, callback=wait)
    assert solution.iterations == 6
    assert bool(solution.spans) == (math.inf > watch.MEASURE_AFTER)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["lattice", "blocks", "few rows", "random", "long tail"])
def test_a_matrix_in_float32_from_one_in_float64_has_the_bits_of_one_that_is_made(name: str) -> None:
    import cupy

    matrix = sparse.csr_matrix(np.ones((70, 70)) / 3.0) if name == "few rows" else matrices()[name]
    square = sparse.csr_matrix(matrix[:, : matrix.shape[0]])
    square.setdiag(1e300 * (np.arange(square.shape[0]) == 5) + 0.7)
    square.sort_indices()
    arrays = (square.indptr.astype(np.int64), square.indices.astype(np.int32), square.data)
    rows = Csr(*(cupy.asarray(part) for part in arrays))
    wide, narrow = kernels.load("cuda"), kernels.load("cuda", dtype="float32")
    layout = wide.layouts.plain((square.shape[0], 1, 1))
    made, exact = narrow.general.matrix(rows, layout), wide.general.matrix(rows, layout)
    known = wide.general.statistics(rows, rows.size)
    together, beside = wide.general.matrices(rows, layout, narrow.general, known=known)
    doubled = OtherValues(2.0 * rows.values, 2.0 * cupy.asarray(square.diagonal()))
    unlike, other_values = wide.general.matrices(rows, layout, narrow.general, others=doubled)
    twice = narrow.general.matrix(rows._replace(values=doubled.entries), layout)
    x = cupy.asarray(np.random.default_rng(3).standard_normal(layout.size).astype(np.float32))
    pairs = [(made, narrow.general.narrowed(exact)), (made, beside), (exact, together), (exact, unlike)]
    assert (other_values is None) != (made.choice.name == "slices" and made.choice.block == 1)
    for one, other in [*pairs, *([] if other_values is None else [(twice, other_values)])]:
        assert other is not None
        assert other.choice.name == one.choice.name
        assert other.diagonal.dtype == one.diagonal.dtype
        np.testing.assert_array_equal(other.diagonal.get(), one.diagonal.get())
        x = x.astype(one.diagonal.dtype)
        y, z = cupy.zeros_like(x), cupy.zeros_like(x)
        one.spmv(x, y)
        other.spmv(x, z)
        np.testing.assert_array_equal(z.get(), y.get())
