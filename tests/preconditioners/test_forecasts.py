"""Bytes that preconditioners of one level say that they move, from what they do to vectors."""

from __future__ import annotations

import scipy.sparse as sp

import dsolver
from dsolver.distributed.forecast import Part
from dsolver.preconditioners import Chebyshev
from dsolver.preconditioners.relaxation.l1_jacobi import L1Jacobi
from dsolver.program.spec import SolveSpec

ROWS = 1000


def part() -> Part:
    """A chunk of a third of a line's rows."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(ROWS, ROWS))
    problem = dsolver.matrix(line, chunks=4).planned(4)
    assert problem.chunks is not None
    spec = SolveSpec.plan(problem, problem.chunks, m=L1Jacobi())
    return Part(spec.problem, spec.partition, spec.order, 1, cuda=False)


def vector() -> int:
    """Bytes of a chunk's vector."""
    made = part()
    return 8 * made.partition[made.number].box.points


def test_sums_of_rows_are_read_with_r_and_z_is_written() -> None:
    assert L1Jacobi().forecast(part()).moved == 3 * vector()


def test_each_step_of_chebyshev_moves_the_matrix_and_ten_vectors() -> None:
    of = [Chebyshev(degree=degree).forecast(part()).moved for degree in (1, 2, 3, 4)]
    step = part().stored().stored(8) + 10 * vector()
    assert of == [5 * vector() + count * step for count in range(4)]
