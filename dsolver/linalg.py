"""Krylov methods with the arguments and results of `scipy.sparse.linalg`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

from dsolver.cluster.runtime import DeviceName, EngineName
from dsolver.errors import InputError, in_a_line
from dsolver.krylov.methods import MethodName
from dsolver.monitor.state import State
from dsolver.problems import Problem
from dsolver.problems.problem import no_matrix
from dsolver.session.arguments import client_of, prepared, problem_for
from dsolver.session.options import Options, Setup
from dsolver.session.session import Session
from dsolver.session.signatures import refusing, spelled_out
from dsolver.session.solving.solves import solved
from dsolver.session.user_arrays import RightHandSides
from dsolver.session.vectors import iterate
from dsolver.solution import Solution
from dsolver.status import Status

if TYPE_CHECKING:
    from distributed import Client

BREAKDOWNS: Final = {Status.INDEFINITE: -1, Status.DIVERGED: -2, Status.NOT_FINITE: -3, Status.BREAKDOWN: -4}
"""Values of info where a method broke down."""
SCIPYS_RESTART: Final = 20
CALLBACKS: Final = ("x", "pr_norm", "legacy")  # arguments of GMRES that say what its callback gets


class LinalgArguments(TypedDict, total=False):
    """The keyword arguments that `Linalg` describes."""

    rtol: float
    atol: float
    maxiter: int | None
    M: Any
    M_from: Any
    callback: Callable[[Any], Any] | None
    client: Client | Literal[False] | None
    engine: EngineName
    device: DeviceName


@dataclass(frozen=True, kw_only=True)
class Linalg:
    """Arguments that the methods share, and the errors that they raise.

    Attributes:
        rtol: finished when ‖b - A x‖₂ <= max(rtol ‖b‖₂, atol), whatever M is.
        atol: the same limit as an absolute number, in the units of b.
        maxiter: iterations at most, bases of `gmres` and `fgmres`; 10 n by default.
        M: the preconditioner, as in `dsolver.Solver`; as in SciPy, none by default. "auto" takes what suits the system.
        M_from: a matrix near an A that is a function, from which M is made; see `dsolver.operator`.
        callback: called as callback(xk) with each iterate, which is brought to b's kind of array for it. To stop, it
            raises StopIteration.
        client: as in `dsolver.solve`.
        engine: as in `dsolver.solve`.
        device: as in `dsolver.solve`.

    Raises:
        InputError: an argument cannot be right.
        DeviceError: "cuda" was asked for where there is none, or (`DeviceMemoryError`) the memory of a GPU or a worker
            will not suffice, or has run out.
        ClusterError: the cluster cannot be reached, or failed during the solve.
    """

    rtol: float = 1e-5
    atol: float = 0.0
    maxiter: int | None = None
    M: Any = None
    M_from: Any = None
    callback: Callable[[Any], Any] | None = None
    client: Client | Literal[False] | None = None
    engine: EngineName = "auto"
    device: DeviceName = "auto"


@spelled_out(Linalg)
def cg(A: Any, b: Any, x0: Any = None, **arguments: Unpack[LinalgArguments]) -> tuple[Any, int]:
    """Conjugate gradients with the arguments and results of `scipy.sparse.linalg.cg`.

    x has the least (x - A⁻¹b)ᴴ A (x - A⁻¹b) in the space of r, M r, M A M r ... (Hestenes and Stiefel 1952).

    Args:
        A: a `dsolver.Problem`, or a symmetric or Hermitian sparse matrix of SciPy or CuPy; see `dsolver.matrix`.
        b: right-hand side, real or complex: an array of NumPy, CuPy, Dask or xarray; for a matrix (n,) or
            (n, 1), for a problem of its ``shape`` or raveled, (n,). Several have one more axis, the last, as (n, k).
        x0: first guess, like b; zero by default, and "fmg" as in `dsolver.solve`.

    Returns:
        x, float64 or complex128, shaped like b and of its kind, (n,) where b is (n, 1); and info: 0 where the true
        residual is within the tolerance; > 0, the number of iterations made, where it is not; < 0 where the method
        broke down: -1 A or M is not positive definite, -2 the residual grew without bound, -3 NaN or infinity appeared,
        -4 it had to divide by zero. Of several, info is that of the worst.
    """
    return _solved("cg", A, b, x0, Linalg(**arguments))


@spelled_out(Linalg)
def fcg(A: Any, b: Any, x0: Any = None, **arguments: Unpack[LinalgArguments]) -> tuple[Any, int]:
    """Flexible conjugate gradients, for a preconditioner that changes from step to step.

    Directions are made orthogonal by β = z·(r - r_old) / (z·r)_old (Polak and Ribière; Notay 2000).

    Args:
        A: a `dsolver.Problem`, or a symmetric sparse matrix of SciPy or CuPy; see `dsolver.matrix`.
        b: right-hand side, as of `dsolver.cg`.
        x0: first guess, as of `dsolver.cg`.

    Returns:
        x and info, as of `dsolver.cg`.
    """
    return _solved("fcg", A, b, x0, Linalg(**arguments))


@spelled_out(Linalg)
def cocg(A: Any, b: Any, x0: Any = None, **arguments: Unpack[LinalgArguments]) -> tuple[Any, int]:
    """COCG, conjugate orthogonal conjugate gradients, for complex matrices with A = Aᵀ.

    Conjugate gradients with xᵀy in place of xᴴy (van der Vorst and Melissen 1990).

    Args:
        A: a complex symmetric sparse matrix of SciPy or CuPy; see `dsolver.matrix`.
        b: right-hand side, as of `dsolver.cg`.
        x0: first guess, as of `dsolver.cg`.

    Returns:
        x and info, as of `dsolver.cg`.
    """
    return _solved("cocg", A, b, x0, Linalg(**arguments))


@spelled_out(Linalg)
def bicgstab(A: Any, b: Any, x0: Any = None, **arguments: Unpack[LinalgArguments]) -> tuple[Any, int]:
    """BiCGStab with the arguments and results of `scipy.sparse.linalg.bicgstab`.

    r is a product of two polynomials in A M times the first one: that of biconjugate gradients, and factors 1 - ω A M
    each of which makes ‖r‖ least (van der Vorst 1992).

    Args:
        A: any sparse matrix of SciPy or CuPy, see `dsolver.matrix`; or a `dsolver.Problem`.
        b: right-hand side, as of `dsolver.cg`.
        x0: first guess, as of `dsolver.cg`.

    Returns:
        x and info, as of `dsolver.cg`.
    """
    return _solved("bicgstab", A, b, x0, Linalg(**arguments))


@refusing(shift="give A - shift I as A")
@spelled_out(Linalg)
def minres(A: Any, b: Any, x0: Any = None, **arguments: Unpack[LinalgArguments]) -> tuple[Any, int]:
    """MINRES, for symmetric matrices that may be indefinite, in the place of `scipy.sparse.linalg.minres`.

    M must be positive definite, A need not be. x has the least rᴴM r in the space of conjugate gradients (Paige and
    Saunders 1975).

    Args:
        A: a symmetric sparse matrix of SciPy or CuPy, see `dsolver.matrix`; or a `dsolver.Problem`.
        b: right-hand side, as of `dsolver.cg`.
        x0: first guess, as of `dsolver.cg`.

    Returns:
        x and info, as of `dsolver.cg`.
    """
    return _solved("minres", A, b, x0, Linalg(**arguments))


@spelled_out(Linalg)
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    restart: int | None = None,
    callback_type: str = "x",
    **arguments: Unpack[LinalgArguments],
) -> tuple[Any, int]:
    """GMRES with the arguments and results of `scipy.sparse.linalg.gmres`.

    x has the least ‖b - A x‖ in a space of `restart` vectors (Saad and Schultz 1986). M is on the right, so the
    residual is that of A x = b.

    Args:
        A: any sparse matrix of SciPy or CuPy, see `dsolver.matrix`; or a `dsolver.Problem`.
        b: right-hand side, as of `dsolver.cg`.
        x0: first guess, as of `dsolver.cg`.
        restart: vectors of a basis; 20 by default, as in SciPy.
        callback_type: what the callback gets, after every iteration: "x", the iterate, or "pr_norm", ‖b - A x‖ / ‖b‖,
            for which nothing is brought here. SciPy's usual "legacy" is "pr_norm" with a maxiter that counts
            iterations.

    Returns:
        x and info, as of `dsolver.cg`; info counts iterations.
    """
    if callback_type not in CALLBACKS:
        raise InputError(f"callback_type must be one of {CALLBACKS}, not {in_a_line(callback_type)}")
    given, restart = Linalg(**arguments), SCIPYS_RESTART if restart is None else restart
    return _solved("gmres", A, b, x0, given, restart, callback_type)


@spelled_out(Linalg)
def fgmres(
    A: Any, b: Any, x0: Any = None, *, restart: int | None = None, **arguments: Unpack[LinalgArguments]
) -> tuple[Any, int]:
    """Flexible GMRES, for a preconditioner that changes from step to step; else as `dsolver.gmres` (Saad 1993).

    Args:
        A: any sparse matrix of SciPy or CuPy, see `dsolver.matrix`; or a `dsolver.Problem`.
        b: right-hand side, as of `dsolver.cg`.
        x0: first guess, as of `dsolver.cg`.
        restart: as of `dsolver.gmres`.

    Returns:
        x and info, as of `dsolver.gmres`.
    """
    return _solved("fgmres", A, b, x0, Linalg(**arguments), SCIPYS_RESTART if restart is None else restart)


def _solved(
    method: MethodName, A: Any, b: Any, x0: Any, given: Linalg, restart: int | None = None, told: str = "x"
) -> tuple[Any, int]:
    """x and info of a method; maxiter counts bases where restart says how long these are, and SciPy's so counts."""
    where: Any = {"client": given.client, "engine": given.engine, "device": given.device}
    setup = Setup(**where, M=given.M, M_from=given.M_from, method=method)
    callback, A = given.callback, problem_for(A, setup, b)
    if not isinstance(A, Problem):
        raise InputError(
            f"A must be a sparse matrix of SciPy or CuPy, or a problem of dsolver.problems, for example "
            f"dsolver.problems.poisson7(grid), not {no_matrix(A)}"
        )
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of an iterate, not {in_a_line(callback)}")
    size = math.prod(A.grid)
    raveled = _is_raveled(A, b)
    if raveled:
        b, x0 = (each.reshape((*A.shape, *each.shape[1:])) if _is_raveled(A, each) else each for each in (b, x0))

    def tell(state: State) -> None:
        assert callback is not None
        if told != "x":
            callback(state.relative_residual)
            return
        x = iterate(session)
        callback(x.reshape(size) if raveled else x)

    if restart is not None:
        setup = replace(setup, restart=restart)
    most = 10 * size if given.maxiter is None else given.maxiter
    options = Options(
        rtol=given.rtol,
        atol=given.atol,
        maxiter=most if restart is None or told == "legacy" else most * min(restart, size),
        callback=None if callback is None else tell,
    )
    sides = RightHandSides.of(A, b, x0, client_of(setup))
    with Session(A, setup, prepared(A, sides, setup)) as session:
        found = solved(session, sides, options)
    infos = [_info(found)] if isinstance(found, Solution) else [_info(one) for one in found]
    x = found.x.reshape((size, *b.shape[len(A.shape) :])) if raveled else found.x
    return x, min(infos) if min(infos) < 0 else max(infos)


def _is_raveled(A: Problem, values: Any) -> bool:
    """Whether it is a vector (n,) of a grid, or several, (n, k)."""
    shape, size = getattr(values, "shape", None), math.prod(A.grid)
    if A.flat or not shape or not hasattr(values, "reshape") or shape == A.shape:
        return False
    return shape[0] == size and len(shape) in (1, 2) and len(A.shape) > 1


def _info(solution: Solution) -> int:
    """SciPy's info of a solution."""
    return 0 if solution.converged else BREAKDOWNS.get(solution.status, max(1, solution.iterations))
