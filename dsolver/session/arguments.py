"""A system, right-hand sides and first guesses as users give them: checked before any device or cluster is needed.

A sparse matrix may stand for a system.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal

from dsolver.cluster import default_client
from dsolver.cluster.devices import Gpu, find_gpu
from dsolver.cluster.rows.grid_rows import matrix_of
from dsolver.cluster.runtime import Runtime, connect
from dsolver.errors import InputError, in_a_line
from dsolver.foreign_arrays import without_package
from dsolver.grid.partition import Partition
from dsolver.matrices.composed.operators import operator
from dsolver.matrices.matrix import is_matrix, matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Preconditioner
from dsolver.preconditioners.function import Function, FunctionByChunk
from dsolver.preconditioners.registry import check_matrix
from dsolver.problems import Problem
from dsolver.problems.coordinates import agreed, centers_of, check_agreement
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.functions import ByChunk, UserFunction
from dsolver.program.plan import Wishes
from dsolver.session.options import Setup
from dsolver.session.user_arrays import Container, RightHandSides, container_of, is_complex

FMG: Final = "fmg"  # the x0 that stands for a guess of full multigrid
FirstGuess = Container | Literal["fmg"] | None  # first guess of a solve: values, `FMG`, or zero


def problem_for(A: Any, setup: Setup, b: Any = None) -> Any:
    """`problem_of` for a set-up."""
    m, client = setup.M, client_of(setup)
    there = m is None or isinstance(m, str) or (isinstance(m, Preconditioner) and m.can.everywhere)
    where: Any = {"engine": setup.engine, "device": setup.device, "kernels": setup.kernels}
    connected = partial(connect, client, **where) if client and client_of(setup, everywhere=there) else None
    return problem_of(A, gpu=on_gpu_here(setup), near=setup.M_from, b=b, client=client, connected=connected)


def problem_of(
    A: Any,
    *,
    gpu: bool,
    near: Any = None,
    b: Any = None,
    client: Any = None,
    chunks: int | None = None,
    connected: Callable[[], Runtime] | None = None,
) -> Any:
    """A matrix or a function as a problem, and a grid with complex coefficients or a flow as a matrix.

    Anything else stays as it is.

    Args:
        gpu: whether it is solved on the GPU of this process, where a matrix, or a grid as one, is then looked at.
        near: of a function, the matrix of which M is made; None for none.
        b: whose shape A has where nothing else tells it; None for none.
        client: of the cluster where it is solved, or None.
        chunks: as of `matrix_of`.
        connected: tells which workers of the cluster begin to take a matrix while this process looks at it.

    Raises:
        InputError: A is none that can be solved with: see `dsolver.matrix` and `dsolver.operator`.
    """
    if _is_function(A):
        told = near is not None or hasattr(A, "shape") or b is None
        shape = None if told else getattr(b, "shape", None)
        return operator(A, M_from=near, shape=shape, like=without_package("b", b))
    if near is not None:
        raise InputError(
            "M_from= is for an A that is a function or a LinearOperator: for a matrix that is not to be that of M give "
            "scipy.sparse.linalg.aslinearoperator(A)"
        )
    if isinstance(A, MatrixProblem):
        return A.on_gpu() if gpu else A
    if isinstance(A, Problem) or not is_matrix(A):
        return matrix_of(A, client, chunks, gpu=gpu)
    ahead = None
    if client is not None and connected is not None:
        from dsolver.cluster.rows.sent_rows import sent_ahead  # which loads Dask

        ahead = sent_ahead(client, A, connected, chunks)
    made: Any = matrix(A, device="cuda" if gpu else "cpu")
    return made if ahead is None else replace(made, ahead=ahead)


def _is_function(A: Any) -> bool:
    """Whether it is a function, or an object of SciPy's kind that has no entries."""
    if isinstance(A, Problem | type) or is_matrix(A):
        return False
    rows = hasattr(A, "__array__") or hasattr(A, "getValuesCSR")  # of petsc4py, whose matrices can be called
    return isinstance(A, ByChunk) or hasattr(A, "matvec") or (callable(A) and not rows)


def client_of(setup: Setup, *, everywhere: bool = True) -> Any:
    """The client of the cluster on which a system is set up; None for this process.

    `everywhere`: whether M can be on a cluster; if not, or if the engine is that of this process, no open client is
    taken.
    """
    if everywhere and setup.engine != "reference":
        return default_client.meant(setup.client)
    return setup.client or None


def check_sendable(m: Preconditioner, problem: Problem) -> None:
    """Refuse functions for M and A that cannot be pickled, and so not sent to workers; raises InputError."""
    kinds = Function | FunctionByChunk
    functions = [("A", problem.operator), *(("M", each) for each in (m, *getattr(m, "parts", ())))]
    for name, function in functions:
        if not isinstance(function, kinds | UserFunction):
            continue
        try:
            import_module("cloudpickle").dumps(function.function)  # as Dask does, which brings it
        except Exception as error:
            raise InputError(
                f"{name} cannot be sent to workers ({error}): leave that out of it, or make it there; or solve in this "
                f"process, with client=False"
            ) from error


def on_gpu_here(setup: Setup) -> bool:
    """Whether a solve is set up on the GPU of this process, as far as can be told before it is connected."""
    here = setup.kernels == "auto" and setup.device in ("auto", "cuda") and client_of(setup) is None
    return here and isinstance(find_gpu(), Gpu)


def likely_device(setup: Setup) -> str:
    """The device of a solve, "cuda" or "cpu", as far as can be told before it is connected."""
    return "cuda" if setup.device == "cuda" or on_gpu_here(setup) else "cpu"


def prepared(problem: Any, sides: RightHandSides, setup: Setup) -> Wishes:
    """Look at all that needs no device or cluster: what the set-up says of the system. InputError: a bad argument."""
    wishes = setup.wishes(problem, likely_device(setup))
    check_matrix(wishes.m, problem)
    check_sides(wishes.m, problem, sides)
    return wishes


def check_sides(m: Preconditioner, problem: Problem, sides: RightHandSides) -> None:
    """Refuse right-hand sides and first guesses that cannot be right."""
    for b, x0 in sides.pairs:
        check_guess(m, x0)
        check_shapes(problem, b, x0)


def check_guess(preconditioner: Preconditioner, x0: Any) -> None:
    """Refuse a name of a first guess that is none, or that this preconditioner cannot make."""
    if not isinstance(x0, str):
        return
    if x0 != FMG:
        raise InputError(f"x0 must be an array like b or {FMG!r}, for a guess of full multigrid, not {in_a_line(x0)}")
    if not preconditioner.can.guesses:
        raise InputError(f"x0={FMG!r} is a guess of full multigrid, which needs M='mg', not {preconditioner.asked}")


def check_shapes(problem: Problem, b: Any, x0: Any) -> None:
    """Refuse arrays that do not fit the grid or each other; values of Dask arrays are looked at once computed."""
    # Coefficients were given the axes that the user's grid does not have.
    check_agreement(
        {**problem.coefficients, "b": b, "x0": x0},
        {**dict.fromkeys(problem.coefficients, 3), **dict.fromkeys(("b", "x0"), problem.dimensions)},
    )
    whole = Partition(problem.grid)
    for name, values in (("b", b), ("x0", None if isinstance(x0, str) else x0)):  # a name is `check_guess`'s
        if values is not None or name == "b":
            given: Any = values
            parts = (given.real, given.imag) if is_complex(given) and not problem.complex else (given,)
            for part in parts:  # of a complex b of a real matrix each is a right-hand side
                container = container_of(name, part, whole, None, problem)
                if problem.all_count:
                    container.check()
    if not problem.flat:
        axes, three = range(problem.dimensions), range(3)
        named = [centers_of(name, values, three) for name, values in problem.coefficients.items()]
        found = agreed([*named, centers_of("b", b, axes), centers_of("x0", x0, axes)])
        if isinstance(problem.rule, Diffusion):
            problem.rule.cells.check(found)
