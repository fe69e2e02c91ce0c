"""Set-up of algebraic multigrid of a complex symmetric matrix."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

from dsolver.engines.base import PerChunk
from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.algebraic.setup import HierarchySetup
from dsolver.multigrid.complex.levels import ComplexSetup
from dsolver.multigrid.reuse import Reuse
from dsolver.preconditioners.base import Built
from dsolver.preconditioners.builder import Builder

SetUp = Callable[[Builder, Callable[[], Any]], tuple[Callable[[], PerChunk], HierarchySetup]]
"""Begins a real hierarchy, as `Algebraic.setup`."""


def built_complex(builder: Builder, begun: SetUp) -> Built:
    """All levels: those of the real matrix that stands for A, and their imaginary parts."""
    engine, problem, reuse = builder.engine, builder.problem, builder.reuse or Reuse()
    assert isinstance(problem, MatrixProblem)
    assert problem.quadrant is not None
    exact, setup = begun(replace(builder, reuse=reuse), lambda: builder.rows)
    rows = [setup.rows]
    while setup.descend():
        rows.append(setup.rows)
    made = exact()
    complex_setup = ComplexSetup(
        engine=engine,
        levels=setup.levels,
        rows=rows,
        kept=reuse.kept,
        parts=builder.system.part_rows,
        bounds=tuple(accumulate(builder.partition.sizes[0], initial=0)),
        signs=problem.quadrant,
        lowered=builder.lowered,
        singular=builder.system.singular,
    )
    return made, complex_setup.complex_levels()
