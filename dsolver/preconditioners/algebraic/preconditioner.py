"""Algebraic multigrid for any matrix with a positive diagonal, as a preconditioner."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Final, final

import numpy as np

from dsolver.distributed.forecast import Part
from dsolver.engines.base import PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import DTYPES
from dsolver.kernels.deferred import Foresight
from dsolver.krylov.methods import FOR_FLOWS
from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.algebraic.aggregation.smoothing import OVER
from dsolver.multigrid.algebraic.methods import MOST, Aggregation, CoarsePoints, IdealRestriction, Method
from dsolver.multigrid.algebraic.options import COARSE_ROWS, GATHERED_ROWS, HierarchyOptions
from dsolver.multigrid.algebraic.requirements import ONE_SIDED, check_diagonal
from dsolver.multigrid.algebraic.setup import HierarchySetup
from dsolver.multigrid.complex.cycle import ComplexCycle
from dsolver.multigrid.cycle import MultigridCycle
from dsolver.multigrid.finest_rows import FinestRows, foreseen
from dsolver.preconditioners.algebraic import defaults
from dsolver.preconditioners.algebraic.complex import built_complex
from dsolver.preconditioners.algebraic.finest import alone, of_grid, of_matrix
from dsolver.preconditioners.algebraic.memory import of_levels
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site, is_a
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem

NAMES: Final = {
    "coarsening": ("pmis", "aggregation", "air"),
    "smoother": ("jacobi", "l1-jacobi", "chebyshev"),
    "precision": DTYPES,
    "cycle": ("V", "W"),
}
"""Options by name, and the names that each takes."""
INTEGERS: Final = {
    "max_elements": (1, 64),
    "aggressive_levels": (0, 30),
    "sweeps": (1, 2),
    "coarse_rows": (1, 2000),
    "gathered_rows": (0, 10**7),
}
"""Options that are integers, and the least and the largest of each."""
TYPICAL: Final = 15  # iterations that reduce the residual by 1e-8


@final
@dataclass(frozen=True, kw_only=True)
class Algebraic(Preconditioner):
    """One cycle of algebraic multigrid, for any matrix with a positive diagonal, of a grid or not: ``"amg"``.

    It is made for symmetric positive definite matrices. Where A is not symmetric, restriction knows which way its
    couplings lead, and methods such as GMRES are expected, on grids BiCGStab; that serves diffusion with convection.

    Set-up is shared by all chunks and runs on their devices; the levels are the same to the bit however many chunks and
    workers there are, on GPUs too. Coarse matrices are PᵀAP (docs/theory.md).

    Attributes:
        coarsening: "pmis": coarse points by a parallel maximal independent set, twice on the finest level, and
            interpolation "extended+i" over a distance of two. "aggregation": smoothed aggregation, which keeps the
            near-null space that `dsolver.matrix` was given; for elasticity, and unstructured meshes. "air": coarse
            points, nearly ideal restriction to them, and sweeps over fine points after each correction; for flows, the
            stronger the better. By default "aggregation" where nodes have several unknowns, or a near-null space was
            given; else "pmis" where A is symmetric, or transport is short; else "air" for flows on grids, and for
            matrices that are elliptic and have nine entries a row or less; "aggregation" for others, and where
            `smoother` or `omega` is given.
        theta: of "pmis", a coupling is strong if it is larger than this part of its row's largest one; by default 0.25,
            and 0.3 where rows have more than 8 entries on average, as those of finite elements have. The same of "air",
            by default 0.3. Of "aggregation", if |a_ij| > theta √(a_ii a_jj), half of it on each coarser level; by
            default 0.08, 0.15 for a flow on a grid, and 0 for nodes of several unknowns.
        max_elements: entries of a row of P by "pmis", at most: the largest are kept.
        aggressive_levels: levels, from the finest on, that "pmis" coarsens twice at once where that leaves less
            than half of the coarse points: little more than half the memory, for a few iterations more. By default 1.
        omega: of "aggregation", P is smoothed with this damping over the largest eigenvalue of D⁻¹A; 0 leaves it as it
            is. By default 4/3, and 0 where A is not symmetric: the coarse matrices of strong convection are stable so.
        smoother: "jacobi", "l1-jacobi" or "chebyshev", two steps of it. By default "jacobi" for "pmis", with the
            diagonal a_ii / 0.85 or 1.05 Σ_j |a_ij| / 2, whichever is more, and "chebyshev" for "aggregation".
            "l1-jacobi" has the diagonal (a_ii + Σ_j |a_ij|) / 2, with which sweeps converge for any such A. "air" has
            its own: after each correction two sweeps of Jacobi over fine points and one over coarse ones.
        sweeps: of Jacobi on the finest level, before and after; 1 or 2. By default 1, and 2 where A is complex and a
            real cycle serves both parts.
        cycle: "V", or "W": the two largest coarse levels are visited twice. By default "V", and "W" where A is not
            symmetric and P is not smoothed, for then coarse corrections are too small.
        coarse_rows: a level with as few rows is solved by its inverse. By default 300, and 1500 where that is made on
            GPUs.
        precision: value type of the levels, "float64" or "float32", which moves half the bytes; by default what
            `precond_dtype` says.
        gathered_rows: a coarse level with as few rows lives whole on every worker: exchanges would take longer than
            to do the work everywhere. By default 25,000, and 1,000,000 on GPUs. It changes no bit of the levels.

    Raises:
        InputError: one of them makes no sense.
    """

    can: ClassVar[Capabilities] = Capabilities(
        batched=True, lowered=True, multilevel=True, guesses=True, diagonal=True, fallback=60
    )
    kernel_kind: ClassVar[str] = "matrices"
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
        for name, known in NAMES.items():
            if (value := getattr(self, name)) not in (None, *known):
                raise InputError(f"{name} must be {' or '.join(map(repr, known))}, not {value!r}")
        for name, most in (("theta", 1), ("omega", 2)):
            value = getattr(self, name)
            if not (value is None or (is_a(value, Real) and 0.0 <= value < most)):
                raise InputError(f"{name} must be a number from 0 to below {most}, not {value!r}")
        for name, (least, most) in INTEGERS.items():
            value = getattr(self, name)
            usual = value is None and name != "max_elements"
            if not usual and not (is_a(value, Integral) and least <= value <= most):
                raise InputError(f"{name} must be an integer from {least} to {most}, not {value!r}")

    def usual_method(self, problem: Problem) -> str | None:
        """BiCGStab for a flow on a grid.

        It took 0.7 times the processor time of GMRES on average, 1.3 at most, where M is as good as here, and 8 vectors
        in place of 38; its M may have float32 levels.
        """
        return FOR_FLOWS if defaults.flows(problem) else None

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse matrices that it is not made for, and chunks that cut nodes."""
        if self.coarsening == "air" and not problem.asymmetry:
            raise InputError("coarsening='air' is for matrices that are not symmetric: leave it out")
        if self.coarsening == "air" and self.smoother is not None:
            raise InputError("smoother must be left out with coarsening='air', which has its own")
        if not isinstance(problem, MatrixProblem):
            return
        check_diagonal(problem.negative)
        if not problem.asymmetry and not problem.mirrored:
            raise InputError(ONE_SIDED)
        if self._coarsening(problem) == "aggregation":
            _check_nodes(problem, partition)

    def build(self, builder: Builder) -> Built:
        """All levels; A is the finest one, or one more in float64."""
        return self.build_from(builder, lambda: builder.open_rows)

    def build_from(self, builder: Builder, take: Callable[[], FinestRows]) -> Built:
        """All levels; the rows of a grid are taken from their maker."""
        return foreseen(lambda: self._built(builder, take))

    def matrix(self, builder: Builder, levels: Sequence[Any]) -> PerChunk:
        """A alone."""
        return foreseen(lambda: alone(builder))

    def _built(self, builder: Builder, take: Callable[[], FinestRows]) -> Built:
        engine, rows = builder.engine, [take()] if builder.problem.lattice else []
        # Of several chunks one alone may be refused, and could not ask the others whether something wrong was foreseen:
        # they ask while devices look for the first coarse points. Until then all are refused together.
        together = engine.coupled and self._coarsening(builder.problem) == "pmis"
        foresees = rows and not builder.reuse and (together or not engine.coupled)
        foreseeing = rows[0].foreseeing(engine, "algebraic", builder.dtype) if foresees else None
        with foreseeing or nullcontext(Foresight()) as foresight, engine.deferring():
            # What is put off asks after all others, so questions have one order whenever it is done.
            if self._is_complex(builder):
                return built_complex(builder, self.setup)
            exact, setup = self.setup(builder, rows.pop, foresight if together else None)
            while setup.descend():
                pass
            made = exact(), setup.levels
            foresight.confirm()
        return made

    def _is_complex(self, builder: Builder) -> bool:
        """Whether coarse matrices are products of a complex A itself, and not of the real matrix that stands for it."""
        problem = builder.problem
        if builder.real or not isinstance(problem, MatrixProblem) or problem.quadrant is None:
            return False
        return self._coarsening(problem) == "pmis" and self.smoother in (None, "jacobi") and self.cycle in (None, "V")

    def setup(
        self, builder: Builder, take: Callable[[], FinestRows], foresight: Foresight | None = None
    ) -> tuple[Callable[[], PerChunk], HierarchySetup]:
        """A in float64, made when it is called for, and the hierarchy's set-up, which has yet to begin."""
        coarsening, method = self._coarsening(builder.problem), self._method(builder.problem)
        if builder.problem.lattice:
            exact, first = of_grid(builder, take)
        else:
            exact, first = of_matrix(builder)
        if coarsening == "aggregation":
            first = replace(first, size=defaults.node_of(builder.problem))
        on_gpu = builder.engine.kernels == "cuda"
        coarse_rows = COARSE_ROWS[on_gpu] if self.coarse_rows is None else int(self.coarse_rows)
        gathered_rows = GATHERED_ROWS[on_gpu] if self.gathered_rows is None else int(self.gathered_rows)
        options = HierarchyOptions(
            method=method,
            smoother=self.smoother or defaults.SMOOTHER[coarsening],
            coarse_rows=coarse_rows,
            gathered_rows=max(gathered_rows, coarse_rows),
        )
        return exact, HierarchySetup(builder.engine, first, options, builder.dtype, builder.reuse, foresight)

    def _coarsening(self, problem: Problem) -> str:
        if self.coarsening is not None:
            return self.coarsening
        if defaults.has_nodes(problem):
            return "aggregation"
        if not problem.asymmetry or defaults.is_diffusive(problem):
            return "pmis"
        ideal = self.smoother is None and self.omega is None and defaults.suits_ideal_restriction(problem)
        return "air" if ideal else "aggregation"

    def _method(self, problem: Problem) -> Method:
        coarsening, size = self._coarsening(problem), defaults.node_of(problem)
        theta = defaults.THETA[coarsening] if self.theta is None else float(self.theta)
        if coarsening == "pmis":
            full = self.theta is None and defaults.row_length(problem) > defaults.FULL_ROWS
            return CoarsePoints(
                theta=defaults.FULL_ROWS_THETA if full else theta,
                max_elements=int(self.max_elements),
                aggressive_levels=defaults.AGGRESSIVE
                if self.aggressive_levels is None
                else int(self.aggressive_levels),
            )
        if coarsening == "air":
            return IdealRestriction(theta=theta)
        if self.theta is None and defaults.flows(problem):
            theta = defaults.FLOW_THETA
        vectors = (problem.near_vectors if isinstance(problem, MatrixProblem) else 0) or size
        if self.theta is None and (size > 1 or vectors > 1):
            theta = 0.0
        usual = 0.0 if problem.asymmetry else OVER
        omega = usual if self.omega is None else float(self.omega)
        return Aggregation(theta=theta, omega=omega, size=size, vectors=vectors)

    def on(self, site: Site) -> MultigridCycle | ComplexCycle:
        """The cycle."""
        levels, engine = site.levels, site.engine
        if isinstance(engine, ComplexEngine):
            parts = levels[0].complex_part.parts or site.parts
            return ComplexCycle(
                engine, levels, list(zip(parts, site.part_senders, strict=True)), sweeps=int(self.sweeps or 1)
            )
        if engine.width > 1:
            levels = [level.batched(engine.width) for level in levels]
        unsmoothed = not site.symmetric and levels[0].aggregated and not self.omega
        cycle = self.cycle or ("W" if unsmoothed else "V")
        return MultigridCycle.of(levels, int(self.sweeps or 1 + bool(site.parts)), visits=1 + (cycle == "W"))

    def forecast(self, part: Part) -> Forecast:
        """Levels of the usual complexity; what they are depends on the matrix."""
        coarsening, method = self._coarsening(part.problem), self._method(part.problem)
        return of_levels(part, method, chebyshev=(self.smoother or defaults.SMOOTHER[coarsening]) == "chebyshev")

    def iterations(self, alone: float, rtol: float) -> float:
        """Hardly depends on the matrix."""
        return TYPICAL * math.log(max(rtol, 1e-16)) / math.log(1e-8)


def _check_nodes(problem: MatrixProblem, partition: Partition) -> None:
    """Refuse chunks that cut nodes; raises InputError."""
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
