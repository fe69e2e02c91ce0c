"""Bytes of an iteration, against those that `bench/gpu.py` counts from the arrays of a hierarchy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dsolver import kernels, problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.benchmarks.hpcg.levels import MakeLevels, partitions
from dsolver.cost import traffic
from dsolver.cost.memory import part_of
from dsolver.kernels.formats.layout import SLICE
from dsolver.preconditioners import Chebyshev, Identity, Jacobi, Multigrid, Preconditioner
from dsolver.program.spec import SolveSpec


def entries(matrix: Any) -> int:
    return int(matrix.local.values.nbytes + matrix.local.columns.nbytes)


def tail(matrix: Any) -> int:
    s = matrix.local
    return int(((s.start[1:] - s.start[:-1]) // SLICE - matrix.coarse).sum()) * SLICE * 8


def coarse_rows(matrix: Any, transfer: Any) -> int:
    first, last = transfer.slices
    return int(matrix.local.upper[first - 1 : last - 1].sum()) * SLICE * 8


def counted(spec: SolveSpec) -> int:
    """Bytes counted from what was built."""
    moved = 0
    backend = kernels.load("cpu")
    make = MakeLevels(problem=spec.problem, partitions=partitions(spec.partition), order=spec.order)
    for number in range(len(spec.partition)):
        levels = make(backend, number)
        moved += entries(levels[0].local) + spec.traits.moved * 8 * levels[0].layout.rows
        for level in levels[:-1]:
            a, n8 = level.local, 8 * level.layout.rows
            moved += 2 * entries(a) + 15 * n8 + n8 // 8 + tail(a)
            moved += coarse_rows(a, level.transfer) + n8 + n8 // 8 + n8 // 16 + n8 // 16 + n8 // 4
        moved += entries(levels[-1].local) + 6 * 8 * levels[-1].layout.rows
    return moved


@pytest.mark.parametrize(("grid", "chunks"), [((64, 64, 64), (1, 1, 1)), ((64, 128, 64), (1, 2, 1))])
def test_an_iteration_moves_what_its_arrays_say(grid: Any, chunks: Any) -> None:
    spec = SolveSpec.plan(problems.hpcg(grid), chunks, m=Hpcg())
    assert traffic.of_iteration(spec) == pytest.approx(counted(spec), rel=0.01)


def test_an_iteration_on_256_cubed_moves_what_was_measured_there() -> None:
    """docs/performance.md: 16.981 GB."""
    whole = SolveSpec.plan(problems.hpcg((256, 256, 256)), (1, 1, 1), m=Hpcg())
    assert traffic.of_iteration(whole) / 1e9 == pytest.approx(16.981, abs=0.001)
    two = SolveSpec.plan(problems.hpcg((256, 256, 512)), (1, 1, 2), m=Hpcg())
    assert traffic.of_iteration(two) == pytest.approx(2 * 16.981e9, rel=1e-3)


def test_preconditioners_move_what_their_kernels_read_and_write() -> None:
    def moved(m: Preconditioner, dtype: str = "float64") -> int:
        return traffic.of_iteration(replace(spec, preconditioner=m, precond_dtype=dtype))

    spec = SolveSpec.plan(problems.diffusion((32, 32, 32), lambda x, y, z: 1 + x + 0 * y * z), (1, 1, 1))
    none, jacobi = moved(Identity()), moved(Jacobi())
    vector = 8 * 32**3
    assert jacobi - none == vector
    product = none - 16 * vector
    assert 6 * vector < product < 8 * vector, "six entries a row, their columns, and what fills slices"
    two, three = (moved(Chebyshev(degree=d)) for d in (2, 3))
    assert three - two == product + 10 * vector
    halves = moved(Multigrid()), moved(Multigrid(), "float32")
    assert halves[0] > none + 2 * product
    assert halves[1] < 0.8 * halves[0]


@pytest.mark.parametrize(("sigma", "parts"), [(1.0, 1), (1j, 2)])
def test_all_parts_of_vectors_are_narrowed(sigma: complex, parts: int) -> None:
    """z of complex systems was counted as of real ones."""
    spec = SolveSpec.plan(problems.diffusion((32, 32, 32), lambda x, y, z: 1 + x + 0 * y * z, sigma), (1, 1, 1))

    def beside_m(dtype: str) -> int:
        """Bytes of all but M."""
        narrow = replace(spec, preconditioner=Multigrid(), precond_dtype=dtype)
        made = narrow.preconditioner.forecast(part_of(narrow, 0, cuda=True))
        return traffic.of_iteration(narrow) - spec.traits.products * made.moved

    assert beside_m("float32") - beside_m("float64") == parts * 4 * 32**3
