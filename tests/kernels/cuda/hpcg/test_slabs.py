"""The slabs of a half sweep on a GPU, planned by the kernels' text on the host: no launch runs before what it reads.

How the launches run, and their bits, is for those tests of `backends` that need a GPU.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise, product
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import load
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.sell import SellMatrix
from tests.support.on_host import ASSEMBLY, FIBERS, compiled, packed, without_assembly

I64 = npt.NDArray[np.int64]
Offsets = list[tuple[int, int, int]]

HOST = (
    FIBERS
    + """
#include "sell/assembly/assembly.cu"
#include "hpcg/assembly.cu"
static void* given[8];
static int numbers[8];
#define P(type, i) static_cast<type*>(given[i])
#define N(i) numbers[i]
static void call_lattice_slabs() { lattice_slabs(P(int, 0), P(int, 1), N(0), N(1), N(2), N(3)); }
static void call_reached_slabs() {
    reached_slabs(P(const Header, 0), P(const real, 1), P(int, 2), P(int, 3), P(int, 4), N(0), N(1), N(2), N(3), N(4));
}
static void call_mark_filled() { mark_filled(P(const Header, 0), P(const long long, 1), N(0), N(1), P(int, 2)); }
static void call_settle_slabs() { settle_slabs(P(int, 0), P(int, 1), N(0), N(1), N(2), N(3)); }
extern "C" void launch(const char* name, int blocks, int wide, void** pointers, int count, int* sizes, int more) {
    for (int i = 0; i < count; ++i) given[i] = pointers[i];
    for (int i = 0; i < more; ++i) numbers[i] = sizes[i];
#define IF(kernel) if (!std::strcmp(name, #kernel)) return run(call_##kernel, blocks, wide);
    IF(lattice_slabs) IF(reached_slabs) IF(settle_slabs) IF(mark_filled)
    __builtin_abort();
}
"""
)
GRID = (37, 9, 14)
ORDER = (7, 5, 6, 1, 2, 3, 4, 0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A matrix and its rows: entry i couples row rows[i] to row columns[i]."""

    matrix: SellMatrix
    color: I64
    rows: I64
    columns: I64


class OnHost(np.ndarray[Any, Any]):
    """Methods of CuPy's arrays that NumPy's have not."""

    def get(self) -> npt.NDArray[Any]:
        return np.asarray(self)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    options, folder = ("-O1", "-ffp-contract=off"), tmp_path_factory.mktemp("host")
    return compiled(folder, HOST, *options, sources=ASSEMBLY, edited=without_assembly)


@pytest.fixture
def schedule(host: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """schedule.py on NumPy's arrays, with its kernels on the host."""

    def empty(shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype).view(OnHost)

    def kernel(_: str, name: str, __: str) -> Callable[..., None]:
        def run(grid: tuple[int], block: tuple[int], arguments: tuple[Any, ...]) -> None:
            arrays = [a for a in arguments if isinstance(a, np.ndarray)]
            sizes = [int(a) for a in arguments if not isinstance(a, np.ndarray)]
            pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
            numbers = (ctypes.c_int * len(sizes))(*sizes)
            host.launch(name.encode(), *grid, *block, pointers, len(arrays), numbers, len(sizes))

        return run

    as_numpy = dict.fromkeys(("asarray", "asnumpy"), np.asarray)
    fake: Any = SimpleNamespace(empty=empty, zeros=empty, full=np.full, argsort=np.argsort, **as_numpy)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    module = loaded("launch", "schedule", monkeypatch)
    vars(module).update(kernel=kernel, device_property=lambda _: 4)
    return module


def loaded(room: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Another copy of a module of dsolver.kernels.cuda."""
    path = str(resources.files("dsolver.kernels") / "cuda" / room / f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"{name}_on_host", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def made(keep: Callable[[I64, I64], npt.NDArray[np.bool_]], offsets: Offsets) -> Case:
    """Rows of a lattice in eight colors with those entries (row, column) that are kept."""
    backend, count = load("cpu"), int(np.prod(GRID))
    z, y, x = np.unravel_index(np.arange(count), GRID[::-1])
    color = np.argsort(ORDER).astype(np.int32)[x % 2 + 2 * (y % 2) + 4 * (z % 2)]
    columns = np.full((len(offsets) + 1, count), -1, dtype=np.int32)
    columns[-1] = np.arange(count)
    for number, (i, j, k) in enumerate(offsets):
        there = [(at + step >= 0) & (at + step < n) for at, step, n in zip((x, y, z), (i, j, k), GRID, strict=True)]
        inside = np.flatnonzero(np.logical_and.reduce(there))
        other = inside + i + GRID[0] * (j + GRID[1] * k)
        kept = keep(inside, other)
        columns[number, inside[kept]] = other[kept]
    values = np.where(columns == columns[-1], 30.0, -1.0)
    layout = backend.layouts.colored(color, 8, GRID)
    matrix: Any = backend.format("hpcg").matrix(layout, Ell(columns=columns, values=values), color == 7)
    rows = np.broadcast_to(np.arange(count), columns[:-1].shape)[columns[:-1] >= 0]
    others = columns[:-1][columns[:-1] >= 0].astype(np.int64)
    return Case(matrix=matrix, color=color, rows=rows, columns=others)


AROUND: Offsets = [(i, j, k) for i, j, k in product((-1, 0, 1), repeat=3) if (i, j, k) != (0, 0, 0)]
FAR: Offsets = [(1, 0, 0), (0, 0, 5), (0, 1, -7), (3, 2, 9)]
CASES: dict[str, Callable[[], Case]] = {
    "27 points": lambda: made(lambda i, _: i >= 0, AROUND),
    "half of the entries": lambda: made(lambda i, j: (i * 7 + j * 3) % 5 < 2, AROUND),
    "far entries on one side": lambda: made(lambda i, j: (i * 5 + j) % 3 > 0, FAR),
    "lower entries alone": lambda: made(lambda i, _: i >= 0, [(-1, 0, 0), (0, -1, 0)]),
}


def filled(case: Case) -> set[int]:
    """Colors of slices with upper entries."""
    local, begins = case.matrix.local, case.matrix.layout.color_slices - 1
    upper = (local.start[1:] - local.start[:-1]) // SLICE > local.upper
    return {c for c, (a, b) in enumerate(pairwise(begins.tolist())) if upper[a:b].any()}


def half_sweeps(schedule: ModuleType, case: Case, slabs: int) -> tuple[Any, Any]:
    """The halves of a sweep, cut into so many slabs."""
    headers = packed(case.matrix.local).reshape(-1, 4)
    vars(schedule)["slabs_of"] = lambda *_: slabs
    found: tuple[Any, Any] = schedule.half_sweeps(case.matrix.layout, headers, case.matrix.local)
    return found


def follows(case: Case, sweep: Any, *, back: bool) -> bool:
    """Whether every slice with entries of the half sweep is in one launch, after those with slices that it reads."""
    unit_of = np.full(len(case.matrix.local.upper), -1)
    newest: dict[int, int] = {}
    ran: list[int] = []  # before each launch, as the bits of a number
    for number, unit in enumerate(sweep.units):
        before = [n for n in (newest.get(unit.chain), unit.after) if n is not None]
        assert all(n < number for n in before)
        assert unit.after is None or sweep.units[unit.after].awaited
        newest[unit.chain] = number
        known = 0
        for n in before:
            known |= ran[n] | 1 << n
        ran.append(known)
        start, step, count = map(int, unit.launch[2])
        slices = start + step * np.arange(count)
        assert (unit_of[slices] < 0).all()
        unit_of[slices] = number
    own, other = (case.matrix.layout.position[rows] // SLICE - 1 for rows in (case.rows, case.columns))
    read = (case.color[case.columns] > case.color[case.rows]) == back
    pairs = np.unique(np.stack([unit_of[own[read]], unit_of[other[read]]], axis=1), axis=0)
    assert (pairs[:, 0] >= 0).all()
    return all(earlier < 0 or ran[later] >> earlier & 1 == 1 for later, earlier in pairs.tolist())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("slabs", [1, 2, 5, 8])
def test_no_launch_runs_before_what_it_reads(schedule: ModuleType, name: str, slabs: int) -> None:
    case = CASES[name]()
    forward, backward = half_sweeps(schedule, case, slabs)
    assert follows(case, forward.sweep(), back=False)
    assert follows(case, backward.sweep(), back=True)
    assert follows(case, backward.sweep(filled(case)), back=True)
    if slabs > 1:
        assert forward.sweep().chains == 2


def test_cuts_at_the_same_place_of_the_lattice_would_be_too_early(schedule: ModuleType) -> None:
    """Rows read the plane behind them: without a shift from color to color a slab would read one after it."""
    case = CASES["27 points"]()
    cuts = schedule.cuts_of

    def unshifted(_: Any, colors: Any, slabs: int, *__: Any, **___: Any) -> I64:
        lengths = np.array([color.last - color.first for color in colors])
        return lengths[:, None] * np.arange(slabs + 1) // slabs

    for made, fine in ((cuts, True), (unshifted, False)):
        vars(schedule)["cuts_of"] = made
        assert follows(case, half_sweeps(schedule, case, 5)[0].sweep(), back=False) is fine


@pytest.mark.parametrize("name", CASES)
def test_colors_with_upper_entries_are_marked(host: ctypes.CDLL, name: str) -> None:
    case = CASES[name]()
    headers, flags = packed(case.matrix.local), np.zeros(case.matrix.layout.colors, dtype=np.int32)
    begins = case.matrix.layout.color_slices.astype(np.int64)
    pointers = (ctypes.c_void_p * 3)(*(a.ctypes.data for a in (headers, begins, flags)))
    count = len(case.matrix.local.upper)
    host.launch(b"mark_filled", -(-count // 64), 64, pointers, 3, (ctypes.c_int * 2)(len(flags), count), 2)
    assert set(np.flatnonzero(flags).tolist()) == filled(case)
