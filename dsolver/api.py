"""`solve` and `cg`: from a problem and a right-hand side to a solution, in one call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Unpack

from dsolver.admission import prepared
from dsolver.errors import InputError
from dsolver.iteration import State
from dsolver.options import Arguments, Options, Setup, parted
from dsolver.problems import Problem
from dsolver.runtime import DeviceName, EngineName
from dsolver.session import Session
from dsolver.signatures import spelled_out
from dsolver.solution import Solution, Status
from dsolver.solving import solved

if TYPE_CHECKING:
    from distributed import Client

BREAKDOWNS: Final = {Status.INDEFINITE: -1, Status.DIVERGED: -2, Status.NOT_FINITE: -3}
"""What `cg` returns as info when the method broke down."""


@spelled_out(Setup, Options)
def solve(problem: Problem, b: Any, *, x0: Any = None, **arguments: Unpack[Arguments]) -> Solution:
    """Solve A x = b by conjugate gradients, preconditioned by multigrid. For several b on one A see `dsolver.Solver`.

    Args:
        problem: the system; see `dsolver.problems`.
        b: right-hand side, shape ``problem.grid``, real: a NumPy, CuPy, Dask or xarray array.
        x0: first guess, like b; zero by default. "fmg" for what full multigrid makes of b; see `dsolver.Solver.solve`.

    Returns:
        The solution. Its status, judged on the true residual, tells whether it converged: not to is no exception.

    Raises:
        InputError: an argument cannot be right. Nothing was started.
        DeviceError: "cuda" was asked for where there is none.
        ClusterError: the cluster cannot be reached, or failed during the solve.
    """
    setup, options = parted(**arguments)
    with Session(problem, prepared(problem, b, x0, setup)) as session:
        return solved(session, b, x0, options)


@spelled_out()
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], Any] | None = None,
    client: Client | None = None,
    engine: EngineName = "auto",
    device: DeviceName = "auto",
) -> tuple[Any, int]:
    """Conjugate gradients with the arguments and results of `scipy.sparse.linalg.cg`.

    Args:
        A: a `dsolver.Problem`. SciPy's matrices and operators are not supported.
        b: right-hand side: a NumPy, CuPy, Dask or xarray array of shape ``A.grid``, or such an array raveled, (n,).
        x0: first guess, like b; zero by default, and "fmg" as in `dsolver.solve`.
        rtol: finished when ‖b - A x‖₂ <= max(rtol ‖b‖₂, atol).
        atol: the same limit as an absolute number, in the units of b.
        maxiter: iterations at most; 10 n by default.
        M: the preconditioner, as in `dsolver.Solver`; as in SciPy, none by default. "mg" is what you want.
        callback: called as callback(xk) with each iterate, which is brought to b's kind of array for it. To stop, it
            raises StopIteration.
        client: a Dask cluster's client; by default everything runs in this process.
        engine: as in `dsolver.solve`.
        device: as in `dsolver.solve`.

    Returns:
        x, shaped like b, and info: 0 where the true residual is within the tolerance; > 0, the number of iterations
        made, where it is not; < 0 where the method broke down: -1 A or M is not positive definite, -2 the residual
        grew without bound, -3 NaN or infinity appeared.

    Raises:
        InputError: an argument cannot be right. Nothing was started.
        DeviceError: "cuda" was asked for where there is none.
        ClusterError: the cluster cannot be reached, or failed during the solve.
    """
    if not isinstance(A, Problem):
        raise InputError(
            f"A is {_called(A)}, but must be a problem on a grid: make one with dsolver.problems, for example "
            f"dsolver.problems.poisson7(grid). General sparse matrices and operators are not supported"
        )
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of an iterate, not {callback!r}")
    size = math.prod(A.grid)
    raveled = getattr(b, "shape", None) == (size,) and hasattr(b, "reshape")
    if raveled:
        b, x0 = b.reshape(A.grid), x0.reshape(A.grid) if getattr(x0, "shape", None) == (size,) else x0

    def tell(_: State) -> None:
        assert callback is not None
        x = session.iterate()
        callback(x.reshape(size) if raveled else x)

    options = Options(
        rtol=rtol,
        atol=atol,
        maxiter=10 * size if maxiter is None else maxiter,
        callback=None if callback is None else tell,
    )
    setup = prepared(A, b, x0, Setup(client=client, engine=engine, device=device, M=M))
    with Session(A, setup) as session:
        solution = solved(session, b, x0, options)
    info = 0 if solution.converged else BREAKDOWNS.get(solution.status, max(1, solution.iterations))
    return (solution.x.reshape(size) if raveled else solution.x), info


def _called(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
