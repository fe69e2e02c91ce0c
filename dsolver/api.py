"""`solve`: from a problem and a right-hand side to a solution, in one call."""

from typing import Any, Unpack, cast

from dsolver.problems import Problem
from dsolver.session.arguments import client_of, prepared, problem_for
from dsolver.session.options import Arguments, Options, Setup, split_arguments
from dsolver.session.session import Session
from dsolver.session.signatures import spelled_out
from dsolver.session.solving.solves import solved
from dsolver.session.user_arrays import RightHandSides
from dsolver.solution import Solution


@spelled_out(Setup, Options)
def solve(problem: Problem | Any, b: Any, *, x0: Any = None, **arguments: Unpack[Arguments]) -> Solution:
    """Solve A x = b by a preconditioned Krylov method. To solve with one A again and again see `dsolver.Solver`.

    Args:
        problem: the system: see `dsolver.problems`; or any sparse matrix of SciPy or CuPy: see `dsolver.matrix`.
        b: right-hand side, shape ``problem.shape``, (n,) for a matrix: an array, real or complex, of NumPy, CuPy, Dask
            or xarray, or of a package that knows DLPack, such as PyTorch and JAX. Several are an array with one more
            axis, the last, (nx, ny, nz, k) or (n, k), or a list; see `dsolver.Solver.solve`.
        x0: first guess, like b; zero by default. "fmg" for what full multigrid makes of b; see `dsolver.Solver.solve`.

    Returns:
        The solution, or `Solutions` of several; x is of b's kind and shape, float64, or complex128 where A or b is
        complex. The status, judged on the true residual, tells whether it converged: not to is no exception.

    Raises:
        InputError: an argument cannot be right.
        DeviceError: "cuda" was asked for where there is none, or (`DeviceMemoryError`) the memory of a GPU or a worker
            will not suffice, or has run out.
        ClusterError: the cluster cannot be reached, or failed during the solve.
    """
    setup, options = split_arguments(**arguments)
    problem = problem_for(problem, setup, b)
    sides = RightHandSides.of(problem, b, x0, client_of(setup))
    with Session(problem, setup, prepared(problem, sides, setup)) as session:
        return cast(Solution, solved(session, sides, options))  # no type of an array tells whether it is several
