"""Small levels whose couplings jump from point to point: coarsened along strong couplings, wherever they lead.

A coarse point of the lattice then stands for points that it is hardly coupled to, and clusters of strongly coupled
points have none at all. `dsolver.kernels.algebraic` chooses coarse points by couplings instead. Such levels have no
lattice and no colors: they are smoothed by polynomials.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from dsolver.engines.base import Engine, PerChunk
from dsolver.gridlevels import at_level, fixed
from dsolver.grids import in_lattice_order, numbered
from dsolver.kernels import Backend
from dsolver.kernels import algebraic as rows_on_host
from dsolver.kernels.algebraic import Coarser, Rows
from dsolver.kernels.backend import Entries
from dsolver.kernels.cpu.team import Team
from dsolver.kernels.layout import Layout
from dsolver.partition import Offsets, Partition
from dsolver.roughness import ending, jumping, turning

BLOCKY: Final = 0.25
"""Part of the pairs of neighbors between which couplings jump, from where on the lattice says little of a level. Random
blocks of one cell have a third to a half, of two to four cells more than a quarter, white noise a fifth."""
MOST_ROWS: Final = 64**3
"""Rows at most of the first level that is coarsened so, in less than a second of one core of the host."""
WIDEST: Final = 1000
"""Entries of a row at most; slices of the GPU count to 1023."""
ROOM: Final = 2**23
"""Places of a table as wide as the widest row, at most, where rows are wider on CPUs: 100 MB while a level is made."""
SAFETY: Final = 1.1
"""What the largest eigenvalue that a few steps have found is multiplied by."""


@final
@dataclass(frozen=True, kw_only=True)
class Reach:
    """What is coarsened by couplings from the finest level on: on CPUs what takes less time so than on the lattice.

    Attributes:
        ends: part of the points at which a line of them ends, beside those at the faces of the grid, at least. Where a
            tenth of the cells is masked at random it is a sixth, where a half is, two thirds.
        turns: for ratios of `dsolver.roughness.turning`, the part of the rows at least; one of them is enough.
        rows: of the finest level at most, all chunks' copies together: every owner makes the coarser levels whole, at
            600 bytes a row, where on the lattice owners share the work. `MOST_ROWS` are never too many.
    """

    ends: float
    rows: int
    turns: tuple[tuple[float, float], ...] = ()


_ROWS: Final = 2 * 128**3
_OF_CPUS: Final = Reach(ends=0.12, rows=_ROWS, turns=((30.0, 0.06), (1e3, 0.005)))
REACH: Final = {"numpy": _OF_CPUS, "cpu": _OF_CPUS, "cuda": Reach(ends=0.16, rows=_ROWS)}
"""By the name of the backend. On GPUs, where everything but the choice of coarse points is fast, set-up weighs more: a
first solve takes longer so, a further one a third to a sixth, and the slowest do not end otherwise."""


@final
@dataclass(frozen=True, kw_only=True)
class AlgebraicLevel:
    """A level without lattice, on one chunk. Of the first one, which has a lattice, only the way down is here.

    Attributes:
        layout: the storage order of its rows, which is that of their numbers.
        matrix: its rows, in the backend's form.
        damped: the same with the diagonal multiplied by the largest eigenvalue of D⁻¹A.
        inverse: a `DenseInverse` on the coarsest level, else None.
        lattice: the storage order of the next coarser level.
        restriction: R.
        prolongation: P.
        halo, halo_matrix, restriction_halo, prolongation_halo: None: there are no neighbors.
    """

    layout: Layout
    matrix: Any = None
    damped: Any = None
    inverse: Any = None
    lattice: Layout | None = None
    restriction: Any = None
    prolongation: Any = None
    halo: None = None
    halo_matrix: None = None
    restriction_halo: None = None
    prolongation_halo: None = None


def wanted(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> bool:
    """Whether a level of a rough problem is to be coarsened by couplings; the same on every rank.

    Args:
        engine: of the level.
        partition: its chunks.
        offsets: of its rows' columns.
        weights: float64 (K rows,) of every chunk.
    """
    if len(partition) > 1 or partition.domain.points > MOST_ROWS:
        return False
    return jumping(engine, offsets, weights) > BLOCKY


def wanted_at_once(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, *, masked: bool) -> bool:
    """Whether a problem is to be coarsened by couplings from its finest level on; the same on every rank.

    So are media of whose cells many are left out, and rows whose anisotropy differs from place to place.

    Args:
        engine: of the finest level.
        partition: its chunks.
        offsets: of its rows' columns.
        weights: float64 (K rows,) of every chunk.
        masked: whether cells are left out.
    """
    reach = REACH[engine.kernels]
    if partition.domain.points > max(MOST_ROWS, reach.rows // len(partition)):
        return False
    if masked and ending(engine, offsets, weights) - _at_faces(partition) > reach.ends:
        return True
    if not reach.turns:
        return False
    found = turning(engine, offsets, weights, [ratio for ratio, _ in reach.turns])
    return any(part > least for part, (_, least) in zip(found, reach.turns, strict=True))


def _at_faces(partition: Partition) -> float:
    """The part of the points at which a line ends where all cells are there: two of each line that is not closed."""
    each = [0.0 if p else 2.0 / n for n, p in zip(partition.grid, partition.periodic, strict=True) if n > 1]
    return sum(each) / len(each) if each else 0.0


def count_of(engine: Engine, made: PerChunk) -> int:
    """How many levels `MakeAlgebraic` has made, the first one included; 0 where rows became too long.

    Args:
        engine: in float64, as counts are.
        made: what was made, on that engine or a view of it.
    """
    (count,) = engine.totals(engine.per_chunk(_count, made))
    return int(count)


@final
@dataclass(frozen=True, kw_only=True)
class MakeAlgebraic:
    """Makes all levels from one on that is one chunk.

    Attributes:
        depth: of that level.
        partition: its chunk.
        offsets: of its rows' columns.
        last: rows of the coarsest level at most.
        singular: whether constants are in the null space.
    """

    depth: int
    partition: Partition
    offsets: Offsets
    last: int
    singular: bool

    def __call__(self, backend: Backend, _: int, layout: Layout, weights: Any) -> tuple[Any, ...]:
        """An `AlgebraicLevel` for each level, at its number."""
        around = backend.to_host(numbered(backend, self.partition, 0, self.offsets))
        values = np.ascontiguousarray(backend.to_host(weights), dtype=np.float64).reshape(len(self.offsets), -1)
        team = Team(backend.host_threads)
        a, here = rows_on_host.of_stencil(self.offsets, around, values, team), layout
        made: list[AlgebraicLevel] = []
        for fine, below in _coarsened(a, self.last, team):
            if _too_wide(backend, below.matrix) or _too_wide(backend, below.restriction):
                return (None,) * self.depth
            lattice = in_lattice_order(backend, (below.matrix.size, 1, 1))
            level = AlgebraicLevel(
                layout=here,
                lattice=lattice,
                restriction=backend.product(lattice, here, _table(backend, below.restriction, team), in_order=True),
                prolongation=backend.product(here, lattice, _table(backend, below.prolongation, team), in_order=False),
                **(_smoothed(backend, here, fine, team) if made else {}),
            )
            made.append(level)
            a, here = below.matrix, lattice
        dense = a.dense()
        dense = (dense + dense.T) / 2
        inverse = backend.dense_inverse(here, fixed(dense) if self.singular else dense)
        made.append(AlgebraicLevel(layout=here, inverse=inverse))
        backend.synchronize()
        return at_level(self.depth, *made)


def _coarsened(a: Rows, last: int, team: Team) -> Iterator[tuple[Rows, Coarser]]:
    """Each level with more than `last` rows, and what lies below it; that is made while the one before is stored."""
    with ThreadPoolExecutor(1, "dsolver-coarsening") as ahead:
        waiting = ahead.submit(rows_on_host.coarser, a, team) if a.size > last else None
        while waiting is not None:
            below, fine = waiting.result(), a
            a = below.matrix
            waiting = ahead.submit(rows_on_host.coarser, a, team) if a.size > last else None
            yield fine, below


def _too_wide(backend: Backend, rows: Rows) -> bool:
    """Whether rows are longer than a GPU can store, or than is worth the memory of their table on CPUs."""
    return rows.width > WIDEST and (backend.name == "cuda" or rows.width * rows.size > ROOM)


def _table(backend: Backend, a: Rows, team: Team) -> Entries:
    return backend.table(backend.sparse(a), a.width, team)


def _smoothed(backend: Backend, layout: Layout, a: Rows, team: Team) -> dict[str, Any]:
    """The matrix, and what its smoother divides by."""
    there = backend.sparse(a)
    matrix = backend.matrix(layout, backend.table(there, a.width, team), None)
    factors = backend.xp.full(layout.shape, SAFETY * backend.largest_eigenvalue(there, team))
    return {"matrix": matrix, "damped": backend.scale_diagonal(matrix, factors)}


def _count(backend: Backend, _: int, made: tuple[Any, ...]) -> Any:
    """float64 (1,)."""
    return backend.xp.full(1, float(sum(level is not None for level in made)))
