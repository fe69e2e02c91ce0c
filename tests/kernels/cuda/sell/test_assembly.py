"""Set-up of slices on a GPU, its text run on the host: the same slices as a CPU's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import load
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.sell import Slices
from tests.kernels.backends.boxes import AROUND, SOME_NEIGHBORS, Box, Case, box
from tests.support.on_host import ASSEMBLY, FIBERS, compiled, gpu_modules, packed, without_assembly

HOST = (
    FIBERS
    + """
#include <utility>
#define fma std::fma
#include "sell/assembly/assembly.cu"
#include "hpcg/assembly.cu"
static long long slots[32];
template <typename T> struct Slot { static T of(long long value) { return static_cast<T>(value); } };
template <typename T> struct Slot<T*> { static T* of(long long value) { return reinterpret_cast<T*>(value); } };
template <typename... Types, std::size_t... I>
static void apply(void (*kernel)(Types...), std::index_sequence<I...>) { kernel(Slot<Types>::of(slots[I])...); }
template <typename... Types>
static void apply(void (*kernel)(Types...)) { apply(kernel, std::index_sequence_for<Types...>()); }
extern "C" void launch(const char* name, int blocks, int wide, const long long* arguments, int count) {
    std::memcpy(slots, arguments, 8 * count);
#define IF(kernel) if (!std::strcmp(name, #kernel)) return run([] { apply(kernel); }, blocks, wide);
    IF(measure_local) IF(fill_local) IF(measure_halo) IF(fill_halo) IF(measure_rectangle) IF(fill_rectangle)
    IF(measure_smoothed) IF(fill_smoothed) IF(find_boundary) IF(shapes) IF(pack_headers) IF(rows_to_visit)
    IF(pack_smoothed)
    __builtin_abort();
}
"""
)
CASES = [
    Case(shape=(7, 5, 3), points=27, order="parity", neighbors=SOME_NEIGHBORS, per_row=True),
    Case(shape=(16, 4, 4), points=27, order="parity", neighbors=AROUND),
    Case(shape=(1, 9, 4), points=7, order="natural", neighbors=SOME_NEIGHBORS),
    Case(shape=(33, 5, 4), points=7, order="parity"),
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("host")
    return compiled(folder, HOST, "-O1", "-ffp-contract=off", sources=ASSEMBLY, edited=without_assembly)


@pytest.fixture
def assembly(host: ctypes.CDLL) -> Iterator[ModuleType]:
    """assembly.py and slices.py of the GPU on NumPy's arrays, with its kernels on the host."""

    def kernel(_: str, name: str, __: str) -> Any:
        def run(grid: tuple[int], block: tuple[int], arguments: tuple[Any, ...]) -> None:
            slots = [a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments]
            host.launch(name.encode(), *grid, *block, (ctypes.c_longlong * len(slots))(*slots), len(slots))

        return run

    def for_each(file: str, name: str, count: int, *arguments: Any) -> None:
        if count:
            kernel(file, name, "float64")((-(-count // 64),), (64,), arguments)

    names = ("empty", "zeros", "full", "ones", "asarray", "ascontiguousarray")
    with gpu_modules(SimpleNamespace(asnumpy=np.asarray, **{name: getattr(np, name) for name in names})):
        from dsolver.kernels.cuda.sell.assembly import assembly, slices

        vars(assembly).update(for_each=for_each, none_of=_none_of, set_places=_set_places)
        vars(slices).update(
            kernel=kernel, for_each=for_each, table=np.ascontiguousarray, warps=_warps, starts_of_lists=_starts_of_lists
        )
        yield assembly


def _starts_of_lists(lengths: npt.NDArray[np.int32], totals: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    start = np.zeros((lengths.shape[1], len(lengths) + 1), dtype=np.int64)
    np.cumsum(lengths.T, axis=1, out=start[:, 1:])
    totals[:] = start[:, -1]
    return start


def _set_places(flags: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    return np.flatnonzero(flags).astype(np.int32)


def _none_of(size: int) -> npt.NDArray[np.int32]:
    return np.full(size, -1, dtype=np.int32)


def _warps(count: int) -> tuple[tuple[int], tuple[int]]:
    return (-(-count // 2),), (64,)


def tables_of(b: Box) -> Ell:
    """The rows of a box as a table."""
    rows = b.stencil
    nx, ny, first, line, lines = rows.walk
    i = np.arange(rows.rows)
    place = first + i % nx + line * (i // nx % ny + lines * (i // (nx * ny)))
    columns = rows.numbering[place[None, :] + rows.steps()[:, None]]
    values = np.broadcast_to(rows.weights.reshape(len(columns), -1), columns.shape)
    return Ell(columns=columns, values=np.where(columns < 0, 0.0, values))


def equal(found: Slices, wanted: Slices) -> None:
    for name in ("start", "upper", "column_start", "values", "columns"):
        ours, theirs = getattr(found, name), getattr(wanted, name)
        assert ours.dtype == theirs.dtype, name
        assert np.array_equal(ours, theirs), name


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("table", [False, True])
def test_rows_of_a_stencil_and_of_a_table(assembly: ModuleType, case: Case, *, table: bool) -> None:
    b = box(case, "cpu")
    rows = tables_of(b) if table else b.stencil
    wanted = load("cpu").format("sell").matrix(b.layout, b.stencil)
    found, ends = assembly.square(assembly.slices.LOCAL, b.layout, rows, np.dtype(np.float64))
    equal(found.local, wanted.local)
    assert np.array_equal(found.diagonal, wanted.diagonal)
    assert np.array_equal(ends[:, 0], wanted.local.upper)
    halo = assembly.halo_matrix(b.layout, b.layout, rows, np.dtype(np.float64))
    assert np.array_equal(halo.boundary, b.outer.boundary)
    equal(halo.slices, b.outer.slices)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_entries_at_coarse_points_come_last(assembly: ModuleType, case: Case) -> None:
    from dsolver.kernels.cuda.hpcg import matrix

    b = box(case, "cpu")
    late = np.zeros(case.rows, dtype=np.uint8)
    late[b.layout.row[b.transfer.fine_of[b.coarse.position]]] = 1
    found, ends = assembly.square(matrix.SMOOTHED, b.layout, b.stencil, np.dtype(np.float64), late)
    equal(found.local, b.matrix.local)
    assert np.array_equal(ends[:, 1], b.matrix.coarse)


@pytest.mark.parametrize(("slices", "looks"), [(1, 2), (None, 1)])
def test_one_batch_looks_for_its_candidates_once(
    slices: int | None, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the time of set-up on CPUs went into candidates."""
    from dsolver.kernels.cpu.sell import assembly

    b, sell, took = box(CASES[0], "cpu"), load("cpu").format("sell"), Mock(side_effect=assembly._take)
    expected = sell.matrix(b.layout, b.stencil)
    monkeypatch.setattr(assembly, "_take", took)
    if slices is not None:
        monkeypatch.setattr(assembly, "BATCH", slices)
    equal(sell.matrix(b.layout, b.stencil).local, expected.local)
    batches = 1 if slices is None else (len(b.layout.row) // SLICE - 2) // slices
    assert took.call_count == looks * batches


@pytest.mark.parametrize("in_order", [False, True])
def test_rectangular_rows(assembly: ModuleType, *, in_order: bool) -> None:
    b = box(CASES[1], "cpu")
    rng, own = np.random.default_rng(8), b.coarse.rows
    columns = rng.integers(-1, own + 40, (5, b.layout.rows)).astype(np.int32)
    columns[3] = np.minimum(np.arange(b.layout.rows), own - 1)  # neighbors in lattice order
    rows = Ell(columns=columns, values=rng.standard_normal(columns.shape))
    wanted = load("cpu").format("sell").product(b.layout, b.coarse, rows, in_order=in_order)
    found = assembly.product(b.layout, b.coarse, rows, np.dtype(np.float64), in_order=in_order)
    equal(found.slices, wanted.slices)
    assert np.array_equal(found.target, wanted.target)
    halo, outer = (
        assembly.halo_matrix(b.layout, b.coarse, rows, np.dtype(np.float64)),
        load("cpu").format("sell").halo_product(b.layout, b.coarse, rows),
    )
    assert np.array_equal(halo.boundary, outer.boundary)
    equal(halo.slices, outer.slices)


def test_headers_tell_what_slices_are(assembly: ModuleType) -> None:
    b = box(CASES[0], "cpu")
    order = np.random.default_rng(3).permutation(len(b.matrix.local.upper))
    for listed in (None, order):
        found = assembly.slices.packed(b.matrix.local, listed)
        assert np.array_equal(found.reshape(-1), packed(b.matrix.local, listed))


def test_headers_of_the_post_smoother_tell_where_coarse_points_begin(assembly: ModuleType) -> None:
    from dsolver.kernels.cuda.hpcg import matrix

    vars(matrix).update(kernel=assembly.slices.kernel, warps=_warps)
    b = box(CASES[1], "cpu")
    found = matrix._packed(assembly.slices.packed(b.matrix.local), b.matrix.coarse)
    assert np.array_equal(found.reshape(-1), packed(b.matrix.local, coarse=b.matrix.coarse))
