"""The preconditioner that suits a system, where none was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, final

from dsolver.distributed.forecast import Part
from dsolver.engines.base import PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.krylov.method import ApproximateInverse
from dsolver.krylov.methods import FOR_INDEFINITE, METHODS
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.properties import is_upwind
from dsolver.multigrid.algebraic.lattice.choice import JUMPS, LEFT_OUT, follows_couplings
from dsolver.multigrid.finest_rows import FinestRows, finest
from dsolver.multigrid.geometric.matrix_statistics import dominates, jumping
from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.base import Built, Forecast, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.preconditioners.direct.choice import cost_little, suit_at_once
from dsolver.preconditioners.multigrid import Multigrid
from dsolver.preconditioners.relaxation.jacobi import Jacobi
from dsolver.problems import Problem

MANY: Final = 30_000
"""Rows of a matrix from which on "amg" is taken: below, a few dozen iterations more cost less than its set-up."""

DEFINITE: Final = ("cg", "fcg")  # methods for positive definite matrices

DOMINATED: Final = 0.975
"""Part of the diagonal that couplings of each row of a grid are at most, where Jacobi serves: D⁻¹A then has its
eigenvalues between 1 - `DOMINATED` and 1 + `DOMINATED`, by Gershgorin's circles, and conjugate gradients reach 1e-8
within ½ √(1.975 / 0.025) ln(2e8) = 85 iterations whatever the coefficients, 50 where they begin at the last time step.
An iteration of "mg" takes as long as 6 of these on a CPU, 8 to 10 of them are needed, and a set-up takes as long as 100
(`bench/updates.py --steps`)."""

FIELDS: Final = 2  # velocity and pressure


@final
@dataclass(frozen=True, kw_only=True)
class Auto(Preconditioner):
    """Multigrid for a grid, lattice or algebraic, or Jacobi, whichever suits its coefficients: ``"auto"``.

    The owners look at the rows. Where their diagonal dominates, as in short time steps, `Jacobi` is taken. Where
    couplings jump or turn from place to place, or lines of cells end at masked ones, no coarser lattice serves well,
    and `Algebraic` is taken; else `Multigrid`. The choice is the same for any number of chunks and workers
    (`matrix_statistics.dominates`, `dsolver.multigrid.algebraic.lattice.choice.follows_couplings`).

    Attributes:
        jacobi: whether Jacobi may be taken. For eigenvalues it serves nothing: what σ adds to A changes no eigenvector.
    """

    can: ClassVar = Multigrid.can
    kernel_kind: ClassVar[str] = Multigrid.kernel_kind
    jacobi: bool = True

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse a matrix without a grid, for which `usual_preconditioner` chooses."""
        if not problem.lattice:
            raise InputError(f"Auto() is for grids, and {problem.name} is none: use M='auto'")

    def build(self, builder: Builder) -> Built:
        """All levels of the kind that is chosen; none where that is Jacobi."""
        left_out = builder.left_out
        rows = [builder.open_rows if left_out >= LEFT_OUT else builder.rows]
        opened = rows[0].cells is not None
        if self.jacobi and dominates(builder.engine, rows[0].offsets, rows[0].weights, DOMINATED):
            if opened:
                rows = [builder.rows]
            return finest(builder.engine, rows.pop(), stored=True), ()
        if left_out < LEFT_OUT:
            rows = [_with_jumps(builder, rows.pop())]
        follows = _algebraic(builder, rows[0], left_out)
        if rows[0].masked and follows != opened:  # others are wanted
            rows.clear()

        def take() -> FinestRows:
            if rows:
                return rows.pop()
            made = builder.open_rows if follows else builder.rows
            return made if made.cells is not None else _with_jumps(builder, made)

        if follows:
            return Algebraic().build_from(builder, take)
        return Multigrid().build_from(builder, lambda: replace(take(), lattice=True))

    def matrix(self, builder: Builder, levels: Sequence[Any]) -> PerChunk | None:
        """A alone, as what was chosen stores it."""
        return self.chosen(levels).matrix(builder, levels)

    def chosen(self, levels: Sequence[Any]) -> Preconditioner:
        """The preconditioner that was chosen."""
        if not levels:
            return Jacobi()
        return Algebraic() if levels[0].algebraic else Multigrid()

    def on(self, site: Site) -> ApproximateInverse | None:
        """M of the preconditioner that was chosen."""
        return self.chosen(site.levels).on(site)

    def forecast(self, part: Part) -> Forecast:
        """Bytes of `Multigrid`: coefficients are not looked at. `Algebraic` has its own."""
        return Multigrid().forecast(part)

    def iterations(self, alone: float, rtol: float) -> float:
        """Iterations of `Multigrid`."""
        return Multigrid().iterations(alone, rtol)


def _algebraic(builder: Builder, rows: FinestRows, left_out: float) -> bool:
    if rows.constant:
        return False
    return follows_couplings(
        builder.engine, rows.chunks, rows.offsets, rows.weights, left_out=left_out, jumps=rows.jumping
    )


def _with_jumps(builder: Builder, rows: FinestRows) -> FinestRows:
    """The rows with how much their couplings jump, on which the choice depends: multigrid asks again."""
    if rows.constant or builder.engine.kernels not in JUMPS:
        return rows
    return replace(rows, jumping=jumping(builder.engine, rows.offsets, rows.weights, float))


def _for_blocks(problem: MatrixProblem, method: str | None) -> str:
    """`usual_preconditioner` of a system of blocks."""
    if method is None and cost_little(problem):
        return "direct"
    if method and METHODS[method].symmetric:
        return "block-diagonal"
    return "lsc" if _is_oseen(problem) else "block-triangular"


def _is_oseen(problem: MatrixProblem) -> bool:
    """Whether a system has two fields, the first with upwind convection, the second without a block of its own.

    For flows of finite elements, whose first block has couplings of both signs, the commutator is no better than a
    block triangle.
    """
    if len(problem.fields) != FIELDS or not problem.asymmetry:
        return False
    whole, first = problem.to_scipy(), problem.fields[0]
    return not whole[first:, first:].count_nonzero() and is_upwind(whole[:first, :first])


def _has_multipliers(problem: Problem, method: str | None) -> bool:
    """Whether a matrix has multipliers, factors are not cheap, and a residual tells something of all rows."""
    if not isinstance(problem, MatrixProblem) or not (problem.multipliers and problem.split) or problem.uneven:
        return False
    return not cost_little(problem) if method is None else method == FOR_INDEFINITE


def usual_preconditioner(problem: Problem, method: str | None = None, device: str = "cpu") -> str | None:
    """Name of the preconditioner for a system and a method (None: the usual one) where none was asked for, or None."""
    if problem.operator is not None and problem.operator.alone:
        return None
    if problem.lattice:
        return "auto"
    if _has_multipliers(problem, method):
        return "block-diagonal"
    if isinstance(problem, MatrixProblem) and problem.fields and problem.matrix is not None and not problem.elliptic:
        return _for_blocks(problem, method)
    if suit_at_once(problem, method, device):
        return "direct"
    if problem.hollow:
        return None
    matrix = problem if isinstance(problem, MatrixProblem) else None
    if problem.asymmetry:
        hubs = matrix is not None and matrix.hubs
        return "amg" if problem.elliptic and not problem.indefinite and not hubs else "jacobi"
    stands_in = problem.complex and not problem.hermitian  # for A there is a matrix with a positive diagonal
    if stands_in or (method in (None, *DEFINITE) and not (method is None and problem.indefinite)):
        if matrix is not None and (matrix.hubs or matrix.dominated):
            return "jacobi"
        return "amg" if coarsens(problem) and problem.grid[0] >= MANY else "chebyshev"
    definite = method not in METHODS or METHODS[method].symmetric
    return None if definite and problem.indefinite else "jacobi"


def coarsens(problem: Problem) -> bool:
    """Whether algebraic multigrid is known to serve a symmetric matrix: of elliptic rows, or by its near-null space."""
    if isinstance(problem, MatrixProblem) and problem.guided:
        return problem.mirrored and not problem.negative
    return problem.elliptic
