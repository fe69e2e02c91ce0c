"""Planning of a solve: the cut, the method and the value types of a system, where they were not asked for."""

from dataclasses import dataclass, replace
from typing import Any, Self

from dsolver.errors import InputError, in_a_line
from dsolver.grid.coloring import Order
from dsolver.grid.cut import chunks_for
from dsolver.kernels import DTYPES
from dsolver.matrices.chunks.plan import Cutter
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Preconditioner
from dsolver.preconditioners.registry import AUTO, value_type
from dsolver.problems import Problem
from dsolver.program.spec import SolveSpec, bases


def check_value_type(dtype: Any, precond_dtype: str, problem: Problem | None = None) -> None:
    """Refuse (InputError) a value type of the whole system that is none, or not for M's own or for this system."""
    if dtype not in DTYPES:
        raise InputError(f"dtype must be 'float64' or 'float32', not {in_a_line(dtype)}")
    if dtype == "float32" and precond_dtype == "float64":
        raise InputError("dtype='float32' is the value type of M, too: leave precond_dtype= out")
    if dtype != "float64" and problem is not None and (problem.complex or problem.operator is not None):
        what = "is complex" if problem.complex else "is a function"
        raise InputError(f"A {what}, and dtype={dtype!r} is for real matrices and grids: leave it out")


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """Choices about a solve that were made by its user, and M."""

    m: Preconditioner
    free: bool = False  # whether another one may take its place: it was chosen by its system
    method: str | None = None
    restart: int | None = None  # vectors of a basis; None for as many as it takes
    order: Order | str = "color8"
    dtype: str = "float64"  # the value type of the system
    precond_dtype: str = AUTO  # that of M, or "auto"

    def cut(self, problem: Problem, chunks: int, *, cuda: bool, by: Cutter | None = None) -> Problem:
        """The problem with its fields, a matrix cut into so many chunks if it is not yet; by: as of `MatrixProblem`."""
        problem = self.m.with_fields(problem)
        if isinstance(problem, MatrixProblem):
            return problem.planned(chunks, cuda=cuda, cut=by)
        return problem.planned(chunks, cuda=cuda)

    def plan(self, problem: Problem, workers: int, *, cuda: bool, by: Cutter | None = None) -> "Plan":
        """The plan for a system on workers, with a chunk for each by default.

        `by`: cuts matrices; see `MatrixProblem.planned`. InputError: as of `SolveSpec.plan`, or the grid has no cut for
        M.
        """
        problem, m = self.cut(problem, workers, cuda=cuda, by=by), self.m
        chunks = problem.chunks or chunks_for(problem.grid, workers, m.divisor, slabs=m.slabs)
        spec = SolveSpec.plan(problem, chunks, self.order, m, self.method, self.restart, dtype=self.dtype)
        return Plan(wishes=self, given=problem, spec=self.narrowed(spec, cuda=cuda))

    def narrowed(self, spec: SolveSpec, *, cuda: bool) -> SolveSpec:
        """A specification with the value type of M beside that of the system."""
        if self.dtype != "float64":  # M's, too
            return spec
        return replace(spec, precond_dtype=value_type(self.precond_dtype, spec.preconditioner, spec.method, cuda=cuda))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A system that is planned, with the `wishes` that the plan follows."""

    wishes: Wishes
    given: Problem  # the problem, cut, with its arrays, should the levels have to be made again
    spec: SolveSpec

    def changed(self, *, cuda: bool, **changes: Any) -> Self:
        """The plan for the same system by other wishes about M, its value type and the method."""
        wishes = replace(self.wishes, **changes)
        m, method = wishes.m.informed(self.given), wishes.method or self.spec.method
        sizes: dict[str, Any] = {**bases(self.given, method, wishes.restart or m.basis)}
        spec = replace(self.spec, preconditioner=m, method=method, **sizes)
        return replace(self, wishes=wishes, spec=wishes.narrowed(spec, cuda=cuda))

    def with_problem(self, given: Problem, problem: Problem) -> Self:
        """The plan for the same matrix of another problem; problem: for programs, without arrays."""
        return replace(self, given=given, spec=replace(self.spec, problem=problem))
