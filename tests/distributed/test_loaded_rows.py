"""Rows of general matrices in the formats that are chosen for them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import Delaunay

import dsolver
from dsolver import kernels
from dsolver.cost import memory
from dsolver.distributed.loaded_rows import chunk_matrix
from dsolver.errors import InputError
from dsolver.grid.coloring import Order
from dsolver.kernels.cpu.csr.loops import find_chunks
from dsolver.kernels.formats.compressed import count_of
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.rows import split
from dsolver.preconditioners import Jacobi
from dsolver.program.spec import SolveSpec
from tests.matrices.test_matrix import lattice
from tests.support.clusters import cluster

CHUNKS = 6
NAMES = ("elements", "power law", "arrow", "lattice", "blocks")
FORMATS = ("slices", "chunks", "rows", "measure")


def definite(couplings: Any) -> sp.csr_array:
    """A symmetric matrix with these couplings, in which every row outweighs them."""
    off = abs(sp.csr_array(couplings + couplings.T))
    off.setdiag(0.0)
    off.eliminate_zeros()
    return (sp.diags_array(np.asarray(off.sum(axis=1)).ravel() + 0.5) - off).tocsr()


def elements(points: int) -> sp.csr_array:
    """Linear elements on a mesh of random points: rows of 5 to 20 entries in random order."""
    rng = np.random.default_rng(1)
    corners = Delaunay(rng.random((points, 2))).simplices
    i, j = corners[:, [0, 1, 2]].ravel(), corners[:, [1, 2, 0]].ravel()
    return definite(sp.coo_array((rng.random(len(i)) + 0.1, (i, j)), shape=(points, points)))


def power_law(rows: int) -> sp.csr_array:
    """Links of random lengths, a few of which are very many."""
    rng = np.random.default_rng(2)
    links = np.minimum((rng.pareto(1.0, rows) * 2).astype(np.int64) + 1, rows // 3)
    i = np.repeat(np.arange(rows), links)
    return definite(sp.coo_array((rng.random(len(i)) + 0.1, (i, rng.integers(0, rows, len(i)))), shape=(rows, rows)))


def arrow(rows: int) -> sp.csr_array:
    """One row and one column that are full."""
    full, first = np.arange(1, rows), np.zeros(rows - 1, dtype=np.int64)
    return definite(sp.coo_array((np.full(rows - 1, 1.0 / rows), (first, full)), shape=(rows, rows)))


@cache
def matrices() -> dict[str, sp.csr_array]:
    block = np.array([[4.0, 1.0, 0.5], [1.0, 5.0, -1.0], [0.5, -1.0, 6.0]])
    return {
        "elements": elements(700),
        "power law": power_law(900),
        "arrow": arrow(50_000),
        "lattice": lattice(48),
        "blocks": sp.csr_array(sp.kron(lattice(12), block)),
    }


def right_hand_side(name: str) -> Any:
    return np.random.default_rng(3).standard_normal(matrices()[name].shape[0])


def solved(name: str, formats: Any = None, **arguments: Any) -> Any:
    problem = dsolver.matrix(matrices()[name], chunks=CHUNKS, formats=formats)
    return dsolver.solve(problem, right_hand_side(name), **{"device": "cpu", "maxiter": 12, "rtol": 1e-13, **arguments})


def same(one: Any, other: Any) -> None:
    assert one.residuals == other.residuals
    assert (one.x == other.x).all()


def test_the_same_bits_on_every_engine_and_any_number_of_workers() -> None:
    usual: dict[str, dict[str, Any]] = {name: {"M": "jacobi"} if name == "arrow" else {} for name in NAMES}
    expected = {name: solved(name, engine="reference", **usual[name]) for name in NAMES}
    for name in NAMES:
        same(solved(name, **usual[name]), expected[name])
    for workers in (2, 3):
        with cluster(workers) as client:
            for name in NAMES:
                same(solved(name, client=client, **usual[name]), expected[name])
                if workers == 2:
                    tasks = solved(name, client=client, engine="graph", M="jacobi", maxiter=2)
                    assert tasks.residuals == solved(name, M="jacobi", maxiter=2).residuals


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", NAMES)
def test_every_format_multiplies_every_matrix(name: str, device: Any) -> None:
    a, b = matrices()[name], right_hand_side(name)
    own = ["octets"] if device == "cpu" else ["blocks"] if name == "blocks" else []
    for formats in (None, *FORMATS, *own):
        found = [
            solved(name, formats, M="jacobi", device=device, maxiter=1000, engine=e) for e in ("reference", "auto")
        ]
        assert np.linalg.norm(a @ found[0].x - b) <= 1e-10 * np.linalg.norm(b), formats
        if formats != "measure":
            same(*found)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("formats", [None, "slices", "rows"])
def test_several_right_hand_sides_have_the_bits_that_each_has_alone(formats: Any, device: Any) -> None:
    for name in ("power law", "lattice"):
        b = np.random.default_rng(8).standard_normal((matrices()[name].shape[0], 3))
        with dsolver.Solver(dsolver.matrix(matrices()[name], chunks=3, formats=formats), device=device) as solver:
            for number, together in enumerate(solver.solve(list(b.T), maxiter=10)):
                same(together, solver.solve(b[:, number], maxiter=10))


def test_formats_are_told_and_why() -> None:
    chosen = {}
    for name in ("lattice", "arrow"):
        with dsolver.Solver(dsolver.matrix(matrices()[name], chunks=3), device="cpu", M="jacobi") as solver:
            chosen[name] = solver.formats
    assert chosen["lattice"] == ("slices (rows of a lattice)",) * 3
    assert chosen["arrow"][0] == "chunks of compressed rows (some rows are far longer than the others)"
    asked = dsolver.matrix(matrices()["blocks"], chunks=2, formats="chunks")
    with cluster(1) as client:
        for engine in ("graph", "resident"):
            with dsolver.Solver(asked, device="cpu", client=client, engine=engine) as solver:
                assert solver.formats == ("chunks of compressed rows (asked for)",) * 2
    with dsolver.Solver(dsolver.problems.poisson7((4, 4, 4)), device="cpu") as solver:
        assert solver.formats == ()


def test_formats_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"formats must be None or one of 'slices', 'blocks'.*not 'csr'"):
        dsolver.matrix(lattice(4), formats="csr")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not fit chunk 0: blocks are a format for GPUs"):
        dsolver.solve(dsolver.matrix(lattice(9), formats="blocks"), np.ones(81), device="cpu")
    with pytest.raises(InputError, match="does not fit chunk 0: these rows have no blocks"):
        dsolver.matrix(lattice(9), formats="blocks").planned(1, cuda=True)
    with pytest.raises(InputError, match="does not fit chunk 0: octets are a format for CPUs"):
        dsolver.matrix(lattice(9), formats="octets").planned(1, cuda=True)
    with pytest.raises(InputError, match="'blocks' is for rows in A's order"):
        dsolver.matrix(lattice(9), formats="blocks", order="rcm")


def test_a_matrix_that_is_changed_afterwards_is_not_the_one_that_is_solved() -> None:
    a = matrices()["elements"].copy()
    b = right_hand_side("elements")
    with dsolver.Solver(dsolver.matrix(a), device="cpu") as solver:
        before = solver.solve(b)
        a.data[:] = np.nan
        same(solver.solve(b), before)


@pytest.mark.parametrize("name", NAMES)
def test_the_forecast_is_what_is_stored(name: str) -> None:
    backend = kernels.load("cpu")
    for formats in (None, "octets", "rows"):
        asked: Any = formats
        problem = dsolver.matrix(matrices()[name], chunks=3, formats=asked).planned(3)
        spec = SolveSpec.plan(problem, problem.chunks or (3, 1, 1), Order.parse("color8"), Jacobi())
        for number, block in problem.coefficients["rows"].blocks(spec.partition, host=True).items():
            (made,) = chunk_matrix(backend, number, block)
            part = memory.part_of(spec, number, cuda=False)
            expected = part.stored()
            layout = sum(int(x.nbytes) for x in (made.layout.position, made.layout.row, made.layout.color))
            assert made.local.nbytes + layout <= expected.matrix <= 1.02 * (made.local.nbytes + layout)
            assert made.ghost.nbytes - 600 <= expected.halo_matrix <= 1.05 * made.ghost.nbytes


def test_more_than_two_billion_entries_are_cut_where_they_should() -> None:
    rows, each = 2_600, 1_000_000
    start = np.arange(rows + 1, dtype=np.int64) * each
    assert start[-1] > 2**31
    table = np.empty((count_of(rows, int(start[-1])) + 1, 4), dtype=np.uint32)
    find_chunks(start, False, table)
    first = table[:, 0].astype(np.int64) + (table[:, 1].astype(np.int64) << 32)
    assert first[-1] == start[-1]
    assert (np.diff(first) >= 0).all()
    row = table[-2, 2].astype(np.int64)
    assert start[row] <= first[-2] < start[row + 1]


def test_rows_are_split_by_whether_they_read_a_halo() -> None:
    start, columns = np.array([0, 2, 2, 5, 6]), np.array([0, 4, 1, 2, 5, 3], dtype=np.int32)
    parts = split(np, Csr(start, columns, np.arange(1.0, 7.0)))
    assert parts.boundary.tolist() == [0, 2]
    for found, expected in (
        (parts.local, ([0, 1, 1, 3, 4], [0, 1, 2, 3], [1.0, 3.0, 4.0, 6.0])),
        (parts.ghost, ([0, 1, 2], [0, 1], [2.0, 5.0])),
    ):
        assert [array.tolist() for array in found] == list(expected)


@pytest.mark.parametrize("own", [1, 700, 900])
def test_compiled_loops_split_rows_as_the_text_does(own: int) -> None:
    rng = np.random.default_rng(own)
    start = np.append(0, np.cumsum(rng.integers(0, 9, 900)))
    rows = Csr(start, rng.integers(0, own + 3 * (own < 900), start[-1], dtype=np.int32), rng.random(start[-1]))
    for threads in (1, 3):
        parts = [kernels.load("cpu", threads).general.split(rows, own), split(np, rows, own)]
        found, expected = ((*part.local, part.boundary, *part.ghost) for part in parts)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()
