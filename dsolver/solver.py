"""`Solver`: sets a system up once, on whatever devices there are, and solves it as often as wanted."""

from __future__ import annotations

from typing import Any, NoReturn, Self, Unpack, final, overload

from dsolver.admission import check_guess, check_shapes
from dsolver.containers import stacked
from dsolver.errors import InputError
from dsolver.options import Options, Setup, SetupArguments, SolveArguments
from dsolver.problems import Problem
from dsolver.problems.cells import changed
from dsolver.problems.problem import check_problem
from dsolver.session import Session
from dsolver.several import are_several, pairs_of, solved_all
from dsolver.signatures import spelled_out
from dsolver.solution import Solution, Solutions
from dsolver.solving import solved


@final
@spelled_out(Setup)
class Solver:
    """A system that is set up, ready for any number of right-hand sides. Close it, or use it in a ``with`` statement.

    Matrices, vectors, connections and recorded kernels stay on the devices between two solves. On a cluster of GPUs an
    open Solver keeps its workers: other solves there wait until it is closed.

    Args:
        problem: the system; see `dsolver.problems`.

    Raises:
        InputError: an argument cannot be right. Nothing was started.
        DeviceError: "cuda" was asked for where there is none, or (`DeviceMemoryError`) a GPU's memory will not suffice.
        ClusterError: the cluster cannot be reached, or its GPUs are held by a Solver that this thread has left open.
    """

    def __init__(self, problem: Problem, **arguments: Unpack[SetupArguments]) -> None:
        self._session = Session(problem, Setup(**arguments))

    @property
    def problem(self) -> Problem:
        """The system that is set up."""
        return self._session.given

    @property
    def closed_regions(self) -> int:
        """How many regions have a constant of their own that no boundary and no σ fixes; the whole grid may be one.

        Raises:
            InputError: this Solver is closed, or solving.
        """
        return self._session.closed_regions

    def __repr__(self) -> str:
        return repr(self._session)

    @overload
    def solve(
        self, b: list[Any] | tuple[Any, ...], *, x0: Any = ..., **arguments: Unpack[SolveArguments]
    ) -> Solutions: ...
    @overload
    def solve(self, b: Any, *, x0: Any = ..., **arguments: Unpack[SolveArguments]) -> Solution: ...
    @spelled_out(Options)
    def solve(self, b: Any, *, x0: Any = None, **arguments: Unpack[SolveArguments]) -> Solution | Solutions:
        """Solve A x = b by preconditioned conjugate gradients.

        Args:
            b: right-hand side, shape ``problem.grid``, real: a NumPy, CuPy, Dask or xarray array. Several of them are a
                list of such, or one array of shape (m, nx, ny, nz). Up to `dsolver.batch.AT_ONCE` at a time are
                solved together, so that the matrix is read once for all of them; each has the iterations and the bits
                that it would have alone, and its timings are those of all. With a function for M, the graph engine or
                one of the arguments from callback to resume they are solved one after the other; `Solution.notes`
                then says why.
            x0: first guess, like b; zero by default. "fmg" for what full multigrid makes of b, where M is "mg": it
                takes about as long as an iteration and saves one or two.

        Returns:
            The solution, or `Solutions` of several. Its status, judged on the true residual, tells whether it
            converged: not to is no exception.

        Raises:
            InputError: an argument cannot be right, or this Solver is closed or solving already.
            ClusterError: the cluster failed during the solve.
        """
        options = Options(**arguments)
        if not are_several(b):
            self._check(b, x0)
            return solved(self._session, b, x0, options)
        pairs = pairs_of(b, x0, self.problem.grid)
        for values, guess in pairs:
            self._check(values, guess)
        solutions = solved_all(self._session, pairs, options)
        x = [solution.x for solution in solutions]
        return Solutions(solutions, x if isinstance(b, list | tuple) else stacked(x, b))

    def iterate(self) -> Any:
        """The newest iterate of the solve that is running, like its b: for callbacks.

        Raises:
            InputError: none is running.
        """
        return self._session.iterate()

    def update(self, problem: Problem | None = None, *, kappa: Any = None, sigma: Any = None) -> None:
        """Set up another matrix of the same structure in place of this one.

        Ranks, connections and compiled kernels are kept, and the memory of the old matrix is used again; the levels are
        made anew.

        Args:
            problem: with the same grid, chunks and offsets; by default the one that is set up.
            kappa: other coefficients of a diffusion problem; see `dsolver.problems.diffusion`.
            sigma: likewise.

        Raises:
            InputError: the structure differs, a coefficient cannot be right, or this Solver is closed or solving; the
                old matrix stays.
            DeviceMemoryError: a GPU's memory will not suffice; the old matrix stays.
            ClusterError: the cluster failed.
        """
        problem = self._session.given if problem is None else problem
        check_problem(problem)
        if kappa is not None or sigma is not None:
            problem = changed(problem, kappa=kappa, sigma=sigma)
        for name in ("grid", "chunks", "offsets", "periodic"):
            if getattr(problem, name) != getattr(self.problem, name):
                raise InputError(f"the new problem has other {name}: open another Solver for it")
        self._session.update(problem)

    def close(self) -> None:
        """End it and give back what it holds. Solutions stay. To close twice does nothing.

        In a callback it has an effect when the solve has ended.
        """
        self._session.close()

    def __reduce__(self) -> NoReturn:
        raise InputError("a Solver is neither copied nor pickled, for devices hold its matrix: make one of its problem")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, b: Any, x0: Any) -> None:
        check_guess(self._session.recipe, x0)
        check_shapes(self.problem, b, x0)
