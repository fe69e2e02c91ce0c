"""Algebraic hierarchies as set-up makes them: digests of their levels' rows, matrices, and what their transfers do."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import dsolver
from dsolver import kernels
from dsolver.discretize.system import System
from dsolver.engines.eager.engine import EagerEngine
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.level import Level
from dsolver.multigrid.reuse import Reuse
from dsolver.preconditioners import Algebraic
from dsolver.preconditioners.builder import Builder
from dsolver.program.spec import SolveSpec
from dsolver.session.user_arrays import container_of

SMALL = Algebraic(coarse_rows=20, gathered_rows=100)
"""Options that make several levels of few rows."""


class Hierarchy(NamedTuple):
    """A hierarchy, and the rows that it was made of.

    Attributes:
        digests: of the rows of every level.
        matrices: these rows; the symmetric part, which coarsening follows, where they are not symmetric.
        levels: finest first.
    """

    digests: list[str]
    matrices: list[sp.csr_array]
    levels: list[Level]


def hierarchy(
    problem: Any, m: Algebraic, backend: str = "cpu", earlier: Any = None, dtype: str = "float64"
) -> Hierarchy:
    """The hierarchy of a problem; with the interpolation of an earlier one, if there is one. dtype: of its levels."""
    engine = EagerEngine(SolveSpec.plan(problem, problem.chunks, m=m).partition, kernels.load(backend, 2))
    reuse = None
    if earlier is not None:
        reuse = Reuse()
        m.build(builder_of(engine, earlier, m, reuse))
    builder = builder_of(engine, problem, m, reuse, dtype)
    _, setup = m.setup(builder, lambda: builder.rows)
    assert reuse is None or reuse.outcome == "used"
    digests, matrices, more = [], [], True
    while more:
        rows: list[LevelRows] = list(setup.rows.items.values())  # type: ignore[attr-defined]
        assert {type(part.matrix.values) for part in rows} == {engine.backend.xp.ndarray}
        arrays = joined(rows)
        digests.append(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())
        lengths, columns, values, *_ = arrays
        start = np.concatenate([[0], np.cumsum(lengths)])
        matrices.append(sp.csr_array((values, columns, start), shape=(len(lengths),) * 2))
        more = setup.descend()
    return Hierarchy(digests, matrices, setup.levels)


def hierarchy_of_matrix(
    matrix: Any, chunks: int, m: Algebraic = SMALL, backend: str = "cpu", earlier: Any = None, **told: Any
) -> Hierarchy:
    """The hierarchy of a matrix in so many chunks; told: as of `dsolver.matrix`."""
    before = None if earlier is None else dsolver.matrix(earlier, chunks=chunks).planned(chunks)
    return hierarchy(dsolver.matrix(matrix, chunks=chunks, **told).planned(chunks), m, backend, before)


def builder_of(engine: EagerEngine, problem: Any, m: Algebraic, reuse: Reuse | None, dtype: str = "float64") -> Builder:
    """The builder of a problem whose coefficients an engine gets."""
    spec = SolveSpec.plan(problem, problem.chunks, m=m, precond_dtype=dtype)
    system = System(engine, spec.problem, spec.partition)
    for name, values in problem.coefficients.items():
        if problem.lattice:
            system.load(name, container_of(name, values, spec.partition, None).blocks())
        else:
            system.load(name, values.blocks(spec.partition, host=True))
    system.prepare()
    return spec.builder(engine, system, reuse)


def joined(rows: Sequence[LevelRows]) -> list[Any]:
    """The arrays of a level's rows, those of one chunk after those of another: the same ones however a level is cut.

    They are lengths, columns by number, values, values of A, origins and near-null vectors, all on the host.
    """
    parts = [
        (
            np.diff(part.matrix.start),
            part.window.numbers[part.matrix.columns],
            part.matrix.values,
            part.a.values,
            part.origin,
            part.near,
        )
        for part in rows
    ]
    return [np.concatenate([on_host(array) for array in arrays]) for arrays in zip(*parts, strict=True)]


def on_host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


def loaded(level: Level, vector: Any, field: Any) -> None:
    """A vector becomes a field of a level."""
    engine: Any = level.engine
    blocks = {
        n: vector[level.partition[n].box.slices[0]].reshape(-1, 1, 1) for n in engine.owned[: len(level.partition)]
    }
    engine.load(blocks, level.layout, field)


def unloaded(level: Level, field: Any) -> Any:
    return np.concatenate([block.ravel() for _, block in sorted(level.engine.unload(field, level.layout).items())])


def transfers(fine: Level, coarse: Level) -> tuple[Any, Any]:
    """P, by what it makes of coarse unit vectors, and R in the same way."""
    step: Any = fine.step(coarse)
    x, rows, columns = fine.engine.field(fine.layout), fine.partition.grid[0], coarse.partition.grid[0]
    p, r = np.zeros((rows, columns)), np.zeros((columns, rows))
    for j, unit in enumerate(np.eye(columns)):
        fine.engine.fill(fine.layout, 0.0, x)
        loaded(coarse, unit, step.xc)
        step.correct(x, x)
        p[:, j] = unloaded(fine, x)
    for i, unit in enumerate(np.eye(rows)):
        loaded(fine, unit, x)
        step.restrict(x)
        r[:, i] = unloaded(coarse, step.rc)
    return p, r
