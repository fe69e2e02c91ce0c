"""Algebraic multigrid for any matrix with a positive diagonal, as a preconditioner."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, Final, final

import numpy as np

from dsolver.distributed.forecast import I32, Part
from dsolver.distributed.loaded_rows import chunk_layouts, chunk_matrices, chunk_matrix, measured_chunk
from dsolver.distributed.matrix import ChunkMatrix
from dsolver.engines.base import PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import DTYPES, Backend
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.foresight import Foresight
from dsolver.krylov.methods import FOR_FLOWS
from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.algebraic.aggregation.smoothing import OVER
from dsolver.multigrid.algebraic.finest import FinestLevel, rows_of_blocks
from dsolver.multigrid.algebraic.lattice.levels import finest_of_grid
from dsolver.multigrid.algebraic.lattice.open_rows import (
    OpenLayouts,
    OpenRows,
    all_rows,
    can_open,
    is_in_slabs,
    open_bounds,
    open_rows,
    raised,
)
from dsolver.multigrid.algebraic.methods import MOST, STRONG, Aggregation, CoarsePoints, Method
from dsolver.multigrid.algebraic.options import COARSE_ROWS, GATHERED_ROWS, HierarchyOptions
from dsolver.multigrid.algebraic.requirements import ONE_SIDED, check_diagonal
from dsolver.multigrid.algebraic.rows.measures import measured
from dsolver.multigrid.algebraic.setup import LATE, HierarchySetup
from dsolver.multigrid.cycle import MultigridCycle
from dsolver.multigrid.geometric.assembly import chunk_matrix as grid_matrix
from dsolver.multigrid.geometric.assembly import narrowed_matrix, raised_rows
from dsolver.multigrid.hierarchy import FinestRows, foreseen
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site, is_a
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem

COARSENINGS: Final = ("pmis", "aggregation")
SMOOTHERS: Final = ("jacobi", "l1-jacobi", "chebyshev")
CYCLES: Final = ("V", "W")
THETA: Final = {"pmis": STRONG, "aggregation": 0.08}
FULL_ROWS: Final = 8
"""Entries a row, on average, above which "pmis" takes `FULL_ROWS_THETA`."""
FULL_ROWS_THETA: Final = 0.3
"""Bilinear elements that are stretched have couplings of just above a quarter of the largest one, and no error that is
smooth along them: 20 iterations in place of 30 to 250."""
FLOW_THETA: Final = 0.15
"""Strength of "aggregation" on a grid with a flow: below 1/6, a coupling in a box without one. Iterations of BiCGStab
at cell Péclet numbers from 0.1 to 10,000 (`bench/flow.py`): at most 39 in place of 43 on 128², 29 as before on 32³."""
SMOOTHER: Final = {"pmis": "jacobi", "aggregation": "chebyshev"}
COMPLEXITY: Final = (2.8, 1.9)
"""Entries of all levels over those of A, without and with aggressive coarsening, for a forecast: 2.3 to 2.8 and 1.4 to
2.7 were seen. With aggregation they were 1.4 to 2.1."""
GRIDS: Final = (1.45, 1.2)
"""Rows of all levels over those of A, too."""
AGGRESSIVE: Final = 1
"""Levels that "pmis" coarsens twice at once, where nothing else is said."""
AGGREGATES: Final = 4
"""Aggregates that a row of a smoothed P reads: 3 to 5 were seen."""
SETUP_ROW: Final = 340
SETUP_ENTRY: Final = 85
"""Bytes of each row, and of each entry beside the diagonal, that set-up needs for a while: 5, 7 and 27 points, of grids
and matrices, took 0.8 to 1.1 times as much as is counted so, and 7 points of a grid on a GPU 0.7."""
SETUP_ON_GPU: Final = (480, 340, 2)
"""Bytes of each row of a matrix that is alone on a GPU, of one with fewer rows than `LATE` and of a larger one, and of
each entry beside the diagonal, by "pmis". With the finest matrix it was 0.6 to 1.0 and 0.7 to 1.0 times as much for 7
and 27 points, rough coefficients, layers and tetrahedra."""
ACROSS: Final = (1.0, 2.0)
"""Times as much where there are several chunks, whose rows travel to others, on CPUs (0.9 to 1.1) and on GPUs (2.0)."""
PUT_OFF: Final = 1 << 22
"""Cells of a grid at most whose matrix is stored while a GPU makes coarse rows: their weights, 56 bytes each, stay so
long. With more cells the host's work counts for little."""
TYPICAL: Final = 15
"""Iterations that reduce the residual by 1e-8."""


@final
@dataclass(frozen=True, kw_only=True)
class Algebraic(Preconditioner):
    """One cycle of algebraic multigrid, for any matrix with a positive diagonal, of a grid or not: ``"amg"``.

    It is made for symmetric positive definite matrices. Where A is not symmetric, coarsening follows (A + Aᵀ) / 2, and
    methods such as GMRES are expected; that serves diffusion with convection, by BiCGStab on grids.

    Set-up is shared by all chunks and runs on their devices; the levels are the same to the bit however many chunks and
    workers there are, on GPUs too. Coarse matrices are PᵀAP (docs/theory.md).

    Attributes:
        coarsening: "pmis": coarse points by a parallel maximal independent set, twice on the finest level, and
            interpolation "extended+i" over a distance of two. "aggregation": smoothed aggregation, which keeps the
            near-null space that `dsolver.matrix` was given; for elasticity, and unstructured meshes. By default that
            where A is not symmetric, nodes have several unknowns, or a near-null space was given, else "pmis".
        theta: of "pmis", a coupling is strong if it is larger than this part of its row's largest one; by default 0.25,
            and 0.3 where rows have more than 8 entries on average, as those of finite elements have. Of "aggregation",
            if |a_ij| > theta √(a_ii a_jj), half of it on each coarser level; by default 0.08, 0.15 for a flow on a
            grid, and 0 for nodes of several unknowns.
        max_elements: entries of a row of P by "pmis", at most: the largest are kept.
        aggressive_levels: levels, from the finest on, that "pmis" coarsens twice at once where that leaves less
            than half of the coarse points: little more than half the memory, for a few iterations more. By default 1.
        omega: of "aggregation", P is smoothed with this damping over the largest eigenvalue of D⁻¹A; 0 leaves it as it
            is. By default 4/3, and 0 where A is not symmetric: the coarse matrices of strong convection are stable so.
        smoother: "jacobi", "l1-jacobi" or "chebyshev", two steps of it. By default "jacobi" for "pmis", with the
            diagonal a_ii / 0.85 or 1.05 Σ_j |a_ij| / 2, whichever is more, and "chebyshev" for "aggregation".
            "l1-jacobi" has the diagonal (a_ii + Σ_j |a_ij|) / 2, with which sweeps converge for any such A.
        sweeps: of Jacobi on the finest level, before and after; 1 or 2. By default 1, and 2 where A is complex: a cycle
            serves both parts, and COCG needs a better one for as few iterations (48³: 36 in place of 47).
        cycle: "V", or "W": the two largest coarse levels are visited twice. By default "V", and "W" where A is not
            symmetric and P is not smoothed, for then coarse corrections are too small.
        coarse_rows: a level with as few rows is solved by its inverse. By default 300, and 1500 where that is made on
            GPUs.
        precision: value type of the levels, "float64" or "float32", which moves half the bytes; by default what
            `precond_dtype` says.
        gathered_rows: a coarse level with as few rows lives whole on every worker: exchanges would take longer than
            to do the work everywhere. By default 4000, and 60,000 on GPUs. It changes no bit of the levels.

    Raises:
        InputError: one of them makes no sense.
    """

    can: ClassVar[Capabilities] = Capabilities(
        batched=True, lowered=True, multilevel=True, guesses=True, diagonal=True, fallback=60
    )
    # Coarse rows are shared out in lattice order, as slabs are. Cut across x, half of a cycle's fine points would be
    # restricted to rows of another chunk: on two GPUs 3.3 ms an iteration of 512x256x256, of 256x256x512 across z 2.6.
    slabs: ClassVar[bool] = True
    coarsening: str | None = None
    theta: float | None = None
    max_elements: int = MOST
    aggressive_levels: int | None = None
    omega: float | None = None
    smoother: str | None = None
    sweeps: int | None = None
    cycle: str | None = None
    coarse_rows: int | None = None
    gathered_rows: int | None = None
    precision: str | None = None

    def __post_init__(self) -> None:
        if self.coarsening not in (None, *COARSENINGS):
            raise InputError(f"coarsening must be {' or '.join(map(repr, COARSENINGS))}, not {self.coarsening!r}")
        if not (self.theta is None or (is_a(self.theta, Real) and 0.0 <= self.theta < 1.0)):
            raise InputError(f"theta must be a number from 0 to below 1, not {self.theta!r}")
        for name, least, most in (
            ("max_elements", 1, 64),
            ("aggressive_levels", 0, 30),
            ("sweeps", 1, 2),
            ("gathered_rows", 0, 10**7),
        ):
            value = getattr(self, name)
            usual = value is None and name in ("aggressive_levels", "sweeps", "gathered_rows")
            if not usual and not (is_a(value, Integral) and least <= value <= most):
                raise InputError(f"{name} must be an integer from {least} to {most}, not {value!r}")
        if not (self.coarse_rows is None or (is_a(self.coarse_rows, Integral) and 1 <= self.coarse_rows <= 2000)):
            raise InputError(f"coarse_rows must be an integer from 1 to 2000, not {self.coarse_rows!r}")
        if not (self.omega is None or (is_a(self.omega, Real) and 0.0 <= self.omega < 2.0)):
            raise InputError(f"omega must be a number from 0 to below 2, not {self.omega!r}")
        if self.smoother not in (None, *SMOOTHERS):
            raise InputError(f"smoother must be {' or '.join(map(repr, SMOOTHERS))}, not {self.smoother!r}")
        if self.precision not in (None, *DTYPES):
            raise InputError(f"precision must be {' or '.join(map(repr, DTYPES))}, not {self.precision!r}")
        if self.cycle not in (None, *CYCLES):
            raise InputError(f"cycle must be {' or '.join(map(repr, CYCLES))}, not {self.cycle!r}")

    def usual_method(self, problem: Problem) -> str | None:
        """BiCGStab for a flow on a grid.

        It took 0.7 times the processor time of GMRES on average, 1.3 at most, where M is as good as here, and 8 vectors
        in place of 38; its M may have float32 levels.
        """
        return FOR_FLOWS if _flows(problem) else None

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse a diagonal that is not positive, one-sided zeros of a symmetric matrix, and chunks that cut nodes."""
        if not isinstance(problem, MatrixProblem):
            return
        check_diagonal(problem.negative)
        if not problem.asymmetry and not problem.mirrored:
            raise InputError(ONE_SIDED)
        if self._coarsening(problem) == "aggregation":
            _check_nodes(problem, partition)

    def build(self, builder: Builder) -> Built:
        """All levels; A is the finest one, or one more in float64."""
        return self.build_from(builder, lambda: builder.rows)

    def build_from(self, builder: Builder, take: Callable[[], FinestRows]) -> Built:
        """All levels; the rows of a grid are taken from their maker."""
        return foreseen(lambda: self._built(builder, take))

    def matrix(self, builder: Builder, levels: Sequence[Any]) -> PerChunk:
        """A alone."""
        return foreseen(lambda: _alone(builder))

    def _built(self, builder: Builder, take: Callable[[], FinestRows]) -> Built:
        engine, rows = builder.engine, [take()] if builder.problem.lattice else []
        foreseeing = rows[0].foreseeing(engine, "algebraic", builder.dtype) if rows and not builder.reuse else None
        with foreseeing or nullcontext(Foresight()) as foresight, engine.deferring():
            try:  # what is put off asks after all others, so questions have one order whenever it is done
                exact, setup = self.setup(builder, rows.pop)
                while setup.descend():
                    pass
                made = exact(), setup.levels
            except InputError:
                foresight.confirm()  # which says whether it is a fault of what was foreseen
                raise
            foresight.confirm()
        return made

    def setup(self, builder: Builder, take: Callable[[], FinestRows]) -> tuple[Callable[[], PerChunk], HierarchySetup]:
        """A in float64, made when it is called for, and the hierarchy's set-up, which has yet to begin."""
        coarsening, method = self._coarsening(builder.problem), self._method(builder.problem)
        if builder.problem.lattice:
            exact, first = _of_grid(builder, take)
        else:
            exact, first = _of_matrix(builder)
        if coarsening == "aggregation":
            first = replace(first, size=_node(builder.problem))
        on_gpu = builder.engine.kernels == "cuda"
        coarse_rows = COARSE_ROWS[on_gpu] if self.coarse_rows is None else int(self.coarse_rows)
        gathered_rows = GATHERED_ROWS[on_gpu] if self.gathered_rows is None else int(self.gathered_rows)
        options = HierarchyOptions(
            method=method,
            smoother=self.smoother or SMOOTHER[coarsening],
            coarse_rows=coarse_rows,
            gathered_rows=max(gathered_rows, coarse_rows),
        )
        return exact, HierarchySetup(builder.engine, first, options, builder.dtype, builder.reuse)

    def _coarsening(self, problem: Problem) -> str:
        return self.coarsening or ("aggregation" if problem.asymmetry or _has_nodes(problem) else "pmis")

    def _method(self, problem: Problem) -> Method:
        coarsening, size = self._coarsening(problem), _node(problem)
        theta = THETA[coarsening] if self.theta is None else float(self.theta)
        if coarsening == "pmis":
            full = self.theta is None and _row_length(problem) > FULL_ROWS
            return CoarsePoints(
                theta=FULL_ROWS_THETA if full else theta,
                max_elements=int(self.max_elements),
                aggressive_levels=AGGRESSIVE if self.aggressive_levels is None else int(self.aggressive_levels),
            )
        if self.theta is None and _flows(problem):
            theta = FLOW_THETA
        vectors = (problem.near_vectors if isinstance(problem, MatrixProblem) else 0) or size
        if self.theta is None and (size > 1 or vectors > 1):
            theta = 0.0
        usual = 0.0 if problem.asymmetry else OVER
        omega = usual if self.omega is None else float(self.omega)
        return Aggregation(theta=theta, omega=omega, size=size, vectors=vectors)

    def on(self, site: Site) -> MultigridCycle:
        """The cycle."""
        levels, engine = site.levels, site.engine
        if engine.width > 1:
            levels = [level.batched(engine.width) for level in levels]
        unsmoothed = not site.symmetric and self.coarsening in (None, "aggregation") and not self.omega
        cycle = self.cycle or ("W" if unsmoothed else "V")
        return MultigridCycle(levels, int(self.sweeps or 1 + bool(site.parts)), visits=1 + (cycle == "W"))

    def forecast(self, part: Part) -> Forecast:
        """Levels of the usual complexity; what they are depends on the matrix."""
        a, value, coarsening = part.stored(), part.value, self._coarsening(part.problem)
        thin = coarsening == "aggregation" or self.aggressive_levels != 0
        method = self._method(part.problem)
        width = AGGREGATES * method.vectors if isinstance(method, Aggregation) else self.max_elements
        coarse = (COMPLEXITY[thin] - 1.0) * a.entries * (value + I32)
        transfers = 2 * width * a.rows * (value + I32)
        vectors = value * (3 + 5 * (GRIDS[thin] - 1.0)) * a.size
        chebyshev = (self.smoother or SMOOTHER[coarsening]) == "chebyshev"
        products = 4 if chebyshev else 2
        swept = 0 if chebyshev else 2 * COMPLEXITY[thin] * a.halo_matrix  # `SweptGhosts`
        passes = products * (a.stored(value) + coarse) + transfers
        row, late, entry, alone = SETUP_ROW, SETUP_ROW, SETUP_ENTRY, len(part.partition) == 1
        if isinstance(part.problem, MatrixProblem) and coarsening == "pmis" and part.cuda and alone:
            row, late, entry = SETUP_ON_GPU
        of_row = row if a.rows < LATE else late
        setup = (of_row * a.rows + entry * a.entries) * (1 if alone else ACROSS[part.cuda])
        return Forecast(
            levels=(a,),
            exact=part.exact(a, shared=part.problem.lattice),
            vectors=int(vectors),
            shared=int(coarse + transfers + swept),
            rows=int(setup),  # of all chunks of a worker at once
            temporary=0,
            moved=int(passes + 14 * value * GRIDS[thin] * a.rows),
        )

    def iterations(self, alone: float, rtol: float) -> float:
        """Hardly depends on the matrix."""
        return TYPICAL * math.log(max(rtol, 1e-16)) / math.log(1e-8)


def _has_nodes(problem: Problem) -> bool:
    """Whether rows are unknowns of nodes, or a near-null space was given: coarse points keep neither."""
    return isinstance(problem, MatrixProblem) and (problem.block > 1 or problem.guided)


def _flows(problem: Problem) -> bool:
    """Whether rows are those of a flow on a grid, or of a stencil that is not symmetric."""
    return isinstance(problem, MatrixProblem) and problem.of_grid is not None and bool(problem.asymmetry)


def _node(problem: Problem) -> int:
    """Unknowns of a node."""
    return problem.block if isinstance(problem, MatrixProblem) else 1


def _row_length(problem: Problem) -> float:
    """Entries a row, on average; inside of a grid."""
    if not isinstance(problem, MatrixProblem):
        return len(problem.offsets)
    return problem.entries / problem.grid[0]


def _check_nodes(problem: MatrixProblem, partition: Partition) -> None:
    """Refuse chunks that cut nodes.

    Raises:
        InputError: one does.
    """
    size = problem.block
    cut = any(extent % size for extent in partition.sizes[0])
    if not cut and problem.numbers is not None:
        nodes = problem.numbers.reshape(-1, size)
        cut = bool((nodes[:, 0] % size).any() or (nodes != nodes[:, :1] + np.arange(size)).any())
    if cut:
        raise InputError(
            f"chunks cut nodes of {size} rows: give chunks= as a number or ranges of whole nodes, and in partition= "
            f"the rows of a node the same part"
        )


def _alone(builder: Builder) -> PerChunk:
    """A in float64, as it is stored above levels."""
    with builder.engine.deferring():
        exact, _ = _of_grid(builder, lambda: builder.rows) if builder.problem.lattice else _of_matrix(builder)
        return exact()


def _of_matrix(builder: Builder) -> tuple[Callable[[], PerChunk], FinestLevel]:
    """A in float64, made when it is called for, and the finest level, of a matrix."""
    blocks, layouts = builder.system.per_chunk(_as_it_came), builder.system.per_chunk(chunk_layouts)
    bounds = tuple(accumulate(builder.partition.sizes[0], initial=0))
    early = bounds[-1] < LATE * (len(bounds) - 1)
    sizes = builder.engine.per_chunk(partial(measured_chunk, wanted=early), blocks)
    senders = builder.problem.senders or [()]
    rows = rows_of_blocks(builder.engine, blocks, bounds, senders)
    measures = None if builder.problem.asymmetry else measured(builder.engine, rows)
    known = (sizes,) if measures is None else (sizes, measures.at("diagonal"))

    both = _put_off(builder, lambda: _in_both_types(builder, blocks, layouts, *known), early=early)
    return lambda: both()[0], FinestLevel(
        rows=rows,
        layout=layouts.at(0),
        chunks=lambda: both()[1],
        bounds=bounds,
        senders=senders,
        singular=builder.system.singular,
        symmetric=not builder.problem.asymmetry,
        positive=True,
        measures=measures,
    )


def _of_grid(builder: Builder, take: Callable[[], FinestRows]) -> tuple[Callable[[], PerChunk], FinestLevel]:
    """A in float64, made when it is called for, and the finest level of a grid."""
    rows = take()
    opened = _opened(builder, rows)
    if opened is None:
        return _of_lattice(builder, rows)
    factors, singular = rows.raised, rows.singular
    del rows  # weights of the whole box go before matrices are made
    return _of_opened(builder, opened, factors, singular=singular)


def _opened(builder: Builder, rows: FinestRows) -> OpenRows | None:
    """The rows of a grid as a matrix's, where cells are left out, and on CPUs; None elsewhere.

    Slices of a grid take six times as long to make on CPUs as formats of any matrix, and P and R between two colors
    likewise; products are as fast. On GPUs a symmetric star in two colors is half of what any matrix would read.
    """
    engine, where = builder.engine, (rows.chunks, rows.offsets, rows.weights)
    if rows.closed is None:
        return all_rows(engine, *where) if engine.kernels != "cuda" and is_in_slabs(rows.chunks) else None
    if can_open(engine, rows.chunks):
        bounds = open_bounds(engine, rows.closed)
        if all(first < last for first, last in pairwise(bounds)):  # each chunk has a row
            return open_rows(engine, *where, rows.closed, bounds)
    return None


def _of_lattice(builder: Builder, rows: FinestRows) -> tuple[Callable[[], PerChunk], FinestLevel]:
    """`_of_grid` of rows that are stored as a lattice's."""
    engine = builder.engine
    view = engine.lowered(builder.dtype) if builder.lowered else engine
    where: dict[str, Any] = {"partition": rows.chunks, "offsets": rows.offsets}
    layout = rows.looked_at(view).at("layout")
    store = partial(grid_matrix, depth=0, swept=False, **where)
    weights = given = rows.weights
    if rows.raised is not None:
        weights = engine.per_chunk(partial(raised_rows, offsets=rows.offsets), weights, rows.raised)

    def stored() -> tuple[PerChunk, PerChunk]:
        exact = engine.per_chunk(store, layout, given).at(0)
        if weights is not given:
            return exact, view.per_chunk(store, layout, weights).at(0)
        narrow = partial(narrowed_matrix, depth=0, swept=False)
        return exact, view.per_chunk(narrow, exact).at(0) if builder.lowered else exact

    soon = rows.partition.domain.points <= PUT_OFF
    both = _put_off(builder, stored, early=soon)
    if not soon:
        both()
    first = finest_of_grid(
        engine,
        **where,
        weights=weights,
        layout=layout,
        chunks=lambda: both()[1],
        singular=rows.singular,
    )
    return lambda: both()[0], first


def _of_opened(
    builder: Builder, opened: OpenRows, factors: PerChunk | None, *, singular: bool
) -> tuple[Callable[[], PerChunk], FinestLevel]:
    """`_of_grid` of rows as a matrix's; factors: of the levels' diagonal, None for ones."""
    engine, layouts, levels = builder.engine, opened.layouts.at("rows"), opened
    if factors is not None:
        levels = raised(engine, opened, factors)

    def stored() -> tuple[PerChunk, PerChunk]:
        if factors is None:
            exact, narrow = _in_both_types(builder, opened.blocks, layouts)
        else:
            store, view = (
                partial(chunk_matrix, wait=False),
                engine.lowered(builder.dtype) if builder.lowered else engine,
            )
            exact = engine.per_chunk(store, opened.blocks, layouts).at(0)
            narrow = view.per_chunk(store, levels.blocks, layouts).at(0)
        return engine.per_chunk(_in_box, exact, opened.layouts), narrow

    both = _put_off(builder, stored, early=opened.bounds[-1] < LATE * (len(opened.bounds) - 1))
    return lambda: both()[0], FinestLevel(
        rows=levels.rows,
        layout=layouts.at(0),
        chunks=lambda: both()[1],
        bounds=opened.bounds,
        senders=opened.senders,
        singular=singular,
        measures=measured(engine, levels.rows),
    )


def _put_off(
    builder: Builder, store: Callable[[], tuple[PerChunk, PerChunk]], *, early: bool
) -> Deferred[tuple[PerChunk, PerChunk]]:
    """The finest matrices in both types, made while others wait where `early`, else when they are called for."""
    both = Deferred(store)
    if early:
        builder.engine.defer(both)
        if builder.engine.kernels == "cuda":
            builder.engine.defer(lambda: builder.early(both()[0]))
    return both


def _in_both_types(
    builder: Builder, blocks: PerChunk, layouts: PerChunk, *known: PerChunk
) -> tuple[PerChunk, PerChunk]:
    """The `ChunkMatrix` of every chunk in float64, and in the levels' value type; those who multiply wait for them."""
    if builder.lowered:
        made = builder.engine.per_chunk(partial(chunk_matrices, dtype=builder.dtype), blocks, layouts, *known)
        return made.at(0, "exact"), made.at(0, "narrow")
    exact = builder.engine.per_chunk(partial(chunk_matrix, wait=False), blocks, layouts, *known).at(0)
    return exact, exact


def _in_box(_: Backend, __: int, matrix: ChunkMatrix, layouts: OpenLayouts) -> ChunkMatrix:
    """A chunk's matrix of rows of open cells, whose vectors come and go as blocks of the grid."""
    return replace(matrix, layout=layouts.box)


def _as_it_came(_: Backend, __: int, block: Any) -> Any:
    return block
