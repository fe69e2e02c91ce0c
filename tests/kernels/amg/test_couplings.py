"""Couplings, coarse points and rows of grids on a GPU, beside the host's: the same arrays."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dsolver.kernels import load
from dsolver.kernels.amg import COARSE, FINE, UNDECIDED, LatticeBox, OpenBox
from dsolver.kernels.cpu.amg import box_rows as boxes
from dsolver.kernels.cpu.amg import couplings as on_host
from dsolver.kernels.cpu.amg import pmis
from dsolver.kernels.cpu.amg.box_rows import box_rows
from dsolver.kernels.cpu.amg.extended_interpolation import coarse_couplings
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE
from tests.kernels.amg.test_loops import graph, rows_of

TEAM = Team(1)
THETA = 0.25
BOX = tuple((i, j, k) for k, j, i in product((-1, 0, 1), repeat=3))
STAR = tuple(offset for offset in BOX if sum(map(abs, offset)) <= 1)


def matrices() -> dict[str, Any]:
    """Rows of 3, 9, 13, 30 entries on average, some of 1500, islands and empty rows."""
    rng = np.random.default_rng(3)
    crowded = sp.random_array((600, 600), density=0.025, rng=rng, format="csr")
    hub = sp.lil_array((1600, 1600))
    hub[7, 20:1520] = -rng.random(1500)
    line = sp.diags_array([-np.ones(899), 2.0 * np.ones(900), -np.ones(899)], offsets=[-1, 0, 1])
    return {
        "line": sp.csr_array(line),
        "graph": graph(700, 1, 0.2),
        "denser": graph(500, 2) + graph(500, 3),
        "crowded": sp.csr_array(sp.eye_array(600) * 20.0 - (crowded + crowded.T)),
        "hub": sp.csr_array(hub + hub.T) + sp.eye_array(1600, format="csr") * 9.0,
        "islands": sp.block_diag([graph(90, 4), sp.csr_array((40, 40)), graph(300, 5)], format="csr"),
    }


def there(*arrays: Any) -> Any:
    """Arrays on the GPU, rows as rows."""
    import cupy

    made = [Csr(*map(cupy.asarray, a)) if isinstance(a, Csr) else cupy.asarray(a) for a in arrays]
    return made[0] if len(made) == 1 else made


def same(found: Any, expected: Any) -> None:
    """Arrays of a GPU and of the host have the same types and bits."""
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one.get(), other, equal_nan=other.dtype.kind == "f")


def settled(a: Csr, below: int, size: int, whole: tuple[Any, Any], bits: Any) -> None:
    """Points that a part of the rows decides by what it knows, a few ghosts among it, and their couplings."""
    from dsolver.kernels.cuda.amg import couplings as gpu
    from dsolver.kernels.cuda.amg import pmis as on_gpu

    key, origin = whole
    state = np.zeros(size, dtype=np.int8)
    ghosts = np.r_[0:below, below + a.size : size]
    state[ghosts] = np.resize([UNDECIDED, FINE, UNDECIDED, COARSE, FINE], len(ghosts))
    its_a, its_bits, its_state = there(a, bits, state)
    own, left, last, opened = its_state[below : below + a.size], -1, a.size, None
    while left != last:  # a turn is a few rounds
        opened = on_gpu.settled(its_a, below, its_bits, there(key), there(origin), its_state, opened)
        last, (left, coarse, before) = left, on_gpu.counted(own, opened)
    assert left == len(pmis.settle(a, below, bits, key, origin, state, TEAM).points)
    assert (left > 0) == (below > 0)
    assert coarse == int(before[-1]) == np.count_nonzero(state[below : below + a.size] == COARSE)
    same([its_state], [state])
    names = np.arange(size, dtype=np.int32)[::-1].copy()
    for every in (False, True):
        found = gpu.coarse_couplings(its_a, its_bits, its_state, below, lambda: there(names), every=every)
        same(found, coarse_couplings(a, bits, state, below, names, TEAM, every=every))


@pytest.mark.gpu
@pytest.mark.parametrize("of_lane", [8, 2, 1])
@pytest.mark.parametrize("name", list(matrices()))
def test_rows_are_measured_coupled_and_settled_as_on_the_host(
    name: str, of_lane: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsolver.kernels.cuda.amg import couplings as gpu
    from dsolver.kernels.cuda.amg import pmis as on_gpu

    monkeypatch.setattr(gpu, "OF_LANE", of_lane)  # 1 to 32 lanes a row
    monkeypatch.setattr(on_gpu, "FEW", on_gpu.FEW if of_lane > 1 else 0)
    matrix = matrices()[name]
    size = matrix.shape[0]
    whole, origin = rows_of(matrix), np.arange(size)[::-1] * 5
    largest = on_host.row_measures(whole, 0, TEAM)[0]
    counts = on_host.couplings(whole, 0, largest, THETA, TEAM)[1]
    key, state = pmis.begun(counts, origin, 3, FINE)
    its_counts, its_origin = there(counts, origin)
    same(on_gpu.begun(its_counts, its_origin, 3, FINE), (key, state))
    for below, last in ((0, size), (size // 5, size - size // 3)):
        a = rows_of(matrix[below:last])
        same(gpu.row_measures(there(a), below), AmgKernels(TEAM).row_measures(a, below))
        bits, counts = on_host.couplings(a, below, largest, THETA, TEAM)
        same(gpu.couplings(there(a), below, there(largest), THETA), (bits, counts))
        settled(a, below, size, (key, origin), bits)


@pytest.mark.gpu
def test_equal_keys_and_no_rows_are_no_special_case() -> None:
    from dsolver.kernels.cuda.amg import couplings as gpu
    from dsolver.kernels.cuda.amg import pmis as on_gpu

    matrix = graph(200, 6)
    a, origin = rows_of(matrix), np.random.default_rng(7).permutation(200)
    bits, _ = on_host.couplings(a, 0, on_host.row_measures(a, 0, TEAM)[0], THETA, TEAM)
    settled(a, 0, 200, (np.full(200, 5, dtype=np.uint64), origin), bits)
    empty, (none, state, names) = there(rows_of(sp.csr_array((0, 9)))), there(*np.zeros((3, 9), dtype=np.int64))
    bits = none[:0].astype(np.uint8)
    states = state.astype(np.int8)
    opened = on_gpu.settled(empty, 4, bits, none.astype(np.uint64), none, states)
    assert on_gpu.counted(states[:0], opened)[:2] == (0, 0)
    assert gpu.coarse_couplings(empty, bits, state.astype(np.int8), 4, lambda: names.astype(np.int32)).size == 0
    assert all(len(part) == 0 for part in (*gpu.row_measures(empty, 4), *on_gpu.begun(none[:0], none[:0], 1, FINE)))


@pytest.mark.gpu
@pytest.mark.parametrize("periodic", [(False, False, False), (True, False, True), (True, True, True)])
@pytest.mark.parametrize("offsets", [STAR, BOX, tuple(reversed(BOX))])
def test_rows_of_a_box_are_those_of_the_host(offsets: tuple[Any, ...], periodic: Any) -> None:
    from dsolver.kernels.cuda.amg.boxes.box_rows import box_rows as on_gpu

    rng = np.random.default_rng(11)
    for grid, lower, shape in (((7, 5, 6), (0, 0, 0), (7, 5, 6)), ((9, 8, 2), (2, 3, 0), (7, 5, 2))):
        box = LatticeBox(grid, periodic, lower, shape)
        weights = rng.standard_normal((len(offsets), int(np.prod(shape)))) * (rng.random((len(offsets), 1)) < 0.9)
        weights[:, rng.random(weights.shape[1]) < 0.2] *= rng.random((len(offsets), 1)) < 0.5
        for given in (weights.reshape(-1), weights[:, 3]):
            rows, share = on_gpu(box, offsets, there(given))
            expected, shares = box_rows(box, offsets, given, TEAM)
            same([*rows, share], [*expected, shares])


def test_threads_share_lines_of_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "ROWS_WORTH_A_THREAD", 3)
    box = LatticeBox((9, 8, 3), (True, False, False), (2, 3, 0), (7, 5, 3))
    weights = np.random.default_rng(13).standard_normal((len(BOX), 7 * 5 * 3)).reshape(-1)
    expected, shares = box_rows(box, BOX, weights, TEAM)
    for threads in (2, 4, 8):  # whose ranges end within lines
        rows, share = box_rows(box, BOX, weights, Team(threads))
        assert all(np.array_equal(*pair) for pair in zip((*rows, share), (*expected, shares), strict=True))


def test_rows_of_a_box_are_by_definition_those_of_its_points() -> None:
    box = LatticeBox((5, 4, 3), (True, False, False), (1, 0, 1), (4, 4, 2))
    weights = np.arange(1.0, 8.0)
    rows, share = box_rows(box, STAR, weights, TEAM)
    points = [(x, y, z) for z in (1, 2) for y in range(4) for x in (1, 2, 3, 4)]
    for i, (x, y, z) in enumerate(points):
        found = {}
        for (dx, dy, dz), weight in zip(STAR, weights, strict=True):
            if 0 <= y + dy < 4 and 0 <= z + dz < 3:
                found[(x + dx) % 5 + 5 * (y + dy + 4 * (z + dz))] = weight
        here = slice(rows.start[i], rows.start[i + 1])
        assert dict(zip(rows.columns[here].tolist(), rows.values[here].tolist(), strict=True)) == found
        assert rows.columns[here].tolist() == sorted(found)
        assert share[i] == pytest.approx((4.0 + sum(found.values())) / 8.0)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("offsets", [STAR, BOX])
def test_rows_of_open_cells_are_those_of_the_box_among_them(offsets: tuple[Any, ...], device: str) -> None:
    """Cells that are left out are neither rows nor columns, and halo slots come behind own rows."""
    backend, rng = load(device), np.random.default_rng(13)
    nx, ny, nz = shape = (7, 5, 6)
    closed = rng.random(210) < 0.4
    cells = np.flatnonzero(~closed).astype(np.int32)
    weights = rng.standard_normal((len(offsets), 210)) * (rng.random((len(offsets), 210)) < 0.8)
    numbering = np.full((nz + 2, ny + 2, nx + 2), -1, dtype=np.int32)
    numbering[1:-1, 1:-1, 1:-1] = np.arange(210).reshape(nz, ny, nx)
    numbering[-1, 1:-1, 1:-1] = 210 + np.arange(35).reshape(ny, nx)  # another box lies above
    names = np.full(245, -1, dtype=np.int32)
    names[cells] = np.arange(len(cells))
    names[210::2] = len(cells) + np.arange(18)
    layout = backend.layouts.some(shape, backend.asarray(cells))
    box = OpenBox(
        shape=shape,
        numbering=backend.asarray(numbering),
        position=layout.position,
        left_out=layout.size - SLICE,
        beyond=backend.asarray(names[210:]),
        cells=backend.asarray(cells),
    )
    found = backend.amg.open_rows(box, offsets, backend.asarray(weights[:, cells]))
    start, columns, values = (backend.to_host(part) for part in found)
    ordered = sorted(range(len(offsets)), key=lambda k: offsets[k][::-1])
    for row, cell in enumerate(cells):
        x, y, z = cell % nx, cell // nx % ny, cell // (nx * ny)
        expected = []
        for k in ordered:
            i, j, up = offsets[k]
            seen = numbering[1 + z + up, 1 + y + j, 1 + x + i]
            if seen >= 0 and names[seen] >= 0 and (weights[k, cell] != 0.0 or offsets[k] == (0, 0, 0)):
                expected.append((names[seen], weights[k, cell]))
        here = slice(start[row], start[row + 1])
        assert list(zip(columns[here], values[here], strict=True)) == expected


@pytest.mark.gpu
def test_grids_that_are_too_large_are_refused() -> None:
    from dsolver.kernels.cuda.amg.boxes.box_rows import box_rows as on_gpu

    box = LatticeBox((2000, 2000, 2000), (False, False, False), (0, 0, 0), (2, 2, 2))
    with pytest.raises(ValueError, match="no kernel makes rows"):
        on_gpu(box, STAR, there(np.ones(7)))
    assert box_rows(box, STAR, np.ones(7), TEAM)[0].columns.dtype == np.int64
