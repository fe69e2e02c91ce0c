"""x = A⁻¹ r in this process or on a cluster, with the newest set-up kept for the gradient and for the next solve."""

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from dsolver.autodiff.systems import ParametricSystem, has_other_transpose, in_double
from dsolver.cluster import default_client
from dsolver.errors import InconsistentWarning, NotConvergedError
from dsolver.kernels.formats.layout import Array
from dsolver.problems import Problem
from dsolver.session.options import SetupArguments, SolveArguments
from dsolver.solution import Solution
from dsolver.solver import Solver
from dsolver.status import Status
from dsolver.units import counted


class Setups:
    """The newest set-up of this process, and that of its transpose where this differs.

    A gradient needs the set-up of its solve, and the next step of a descent one for the same grid. Here it stays, until
    another system is solved with or `release` is called. Set-ups on clusters are not kept: one that is open holds its
    workers.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._system: ParametricSystem | None = None
        self._arguments: SetupArguments = {}
        self._arrays: Sequence[Array] = ()
        self._solvers: dict[bool, Solver] = {}

    def release(self) -> None:
        """Give back what the newest set-up holds."""
        with self._lock:
            for solver in self._solvers.values():
                solver.close()
            self._solvers.clear()
            self._system, self._arrays = None, ()

    @contextmanager
    def solver(
        self, system: ParametricSystem, values: Sequence[Array], arguments: SetupArguments, *, transposed: bool
    ) -> Iterator[Solver]:
        """A `Solver` with values for a system's parameters, its caller's alone meanwhile. InputError: a bad value."""
        client = arguments.get("client")
        if default_client.meant(client) is not None:
            with Solver(system.problem(values, transposed=transposed), **arguments) as solver:
                yield solver
            return
        with self._lock:
            if not self._fits(system, arguments):
                self.release()
            forward = self._forward(system, values, arguments)
            if transposed and any(_kind(forward.problem)[:2]) and True not in self._solvers:
                self._solvers[True] = Solver(system.problem(values, transposed=True), **arguments)
            yield self._solvers.get(transposed, forward)

    def _fits(self, system: ParametricSystem, arguments: SetupArguments) -> bool:
        """Whether the newest set-up is of the same structure, made with the same arguments."""
        given: dict[str, Any] = {**arguments}
        same = self._arguments.keys() == given.keys() and all(
            mine is given[name] or (isinstance(mine, str | float) and mine == given[name])
            for name, mine in self._arguments.items()
        )
        return same and self._system is not None and self._system.like(system)

    def _forward(self, system: ParametricSystem, values: Sequence[Array], arguments: SetupArguments) -> Solver:
        """The set-up of A itself with these values: as it is, with its matrix changed, or made anew."""
        arrays = [*values, *system.arrays]
        if False in self._solvers and _same(self._arrays, arrays):
            return self._solvers[False]
        problem = system.problem(values, transposed=False)
        if False in self._solvers and _kind(problem) == _kind(self._solvers[False].problem):
            self._arrays = ()  # should it be refused
            self._solvers[False].update(problem, reuse=None)
            if True in self._solvers:
                self._solvers.pop(True).close()
        else:
            self.release()
            self._solvers[False] = Solver(problem, **arguments)
        self._system, self._arguments = system, arguments
        self._arrays = [values.copy() for values in arrays]  # theirs may be overwritten, by a step of a descent
        return self._solvers[False]


SETUPS: Final = Setups()


@dataclass(frozen=True, kw_only=True)
class DifferentiatedSolve:
    """The solve x = A⁻¹ r and its tolerances."""

    system: ParametricSystem
    arguments: SetupArguments
    options: SolveArguments  # "rtol" and "maxiter" of its solves

    def __call__(self, values: Sequence[Array], r: Array, *, transposed: bool, gradient: bool) -> Array:
        """x, of r's shape, in float64 or complex128.

        Args:
            gradient: whether r is a gradient, of which the part that no x can reach is zero by definition.

        Raises:
            InputError: an argument cannot be right.
            NotConvergedError: the tolerance was not reached.
        """
        b = self.system.source(in_double(r))
        with (
            SETUPS.solver(self.system, values, self.arguments, transposed=transposed) as solver,
            warnings.catch_warnings(),
        ):
            solver._session.rent.end()  # factors after some solves would give other bits to the same gradient
            if gradient:
                warnings.simplefilter("ignore", InconsistentWarning)
            found: Any = solver.solve(b, **self.options)
        for solution in [found] if isinstance(found, Solution) else found:
            if solution.status not in (Status.CONVERGED, Status.INCOMPATIBLE_RHS):
                raise NotConvergedError(
                    f"the {'gradient of the ' if gradient else ''}solve ended as {solution.status} after "
                    f"{counted(solution.iterations, 'iteration')} with ‖b - Ax‖/‖b‖ = "
                    f"{solution.relative_residual:.2e}, and gradients would be wrong: {solution.advice}"
                )
        return found.x.reshape(r.shape)


def _kind(problem: Problem) -> tuple[bool, bool, bool]:
    """Whether A is unsymmetric, whether it is Hermitian, and so no Aᵀ of its own either, and whether it is complex."""
    return has_other_transpose(problem), problem.hermitian, problem.complex


def _same(old: Sequence[Array], new: Sequence[Array]) -> bool:
    """Whether all values are the same, NaN never."""
    return len(old) == len(new) and all(
        a.shape == b.shape and type(a) is type(b) and bool((a == b).all()) for a, b in zip(old, new, strict=True)
    )
