"""Options of users: how a system is set up and how one solve goes. The meaning of an argument stands here alone.

Functions that take them show them in their signatures and docstrings: see `spelled_out`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

import numpy as np

from dsolver.cluster.runtime import DeviceName, EngineName, KernelsName
from dsolver.errors import InputError, check_tolerance, in_a_line
from dsolver.grid.coloring import Order
from dsolver.krylov.methods import MethodName, check_method
from dsolver.monitor.state import Callback, Progress
from dsolver.monitor.watch import Sink, check_sink
from dsolver.preconditioners.registry import AUTO, PreconditionerLike, check_dtype, chosen_for
from dsolver.problems import Problem
from dsolver.problems.problem import check_problem
from dsolver.program.plan import Wishes, check_value_type
from dsolver.program.spec import method_for
from dsolver.program.terms import limit_of
from dsolver.session.checkpoints.checkpoint import Checkpoint, checkpoint_of

if TYPE_CHECKING:
    import distributed

MAXITER: Final = 1000

PrecondDtype = Literal["auto", "float64", "float32"]
ValueType = Literal["float64", "float32"]
Store = Checkpoint | str | os.PathLike[str]  # a checkpoint as an argument gives it: its folder will do


class SetupArguments(TypedDict, total=False):
    """The keyword arguments that `Setup` describes."""

    client: distributed.Client | Literal[False] | None
    engine: EngineName
    device: DeviceName
    kernels: KernelsName
    order: str
    M: PreconditionerLike
    M_from: Any
    precond_dtype: PrecondDtype
    dtype: ValueType
    method: MethodName | None
    restart: int | None


class SolveArguments(TypedDict, total=False):
    """The keyword arguments that `Options` describes."""

    rtol: float
    atol: float
    maxiter: int | None
    callback: Callback | None
    progress: Progress | None
    spans: Sink | None
    checkpoint: Store | None
    resume: Store | None


class Arguments(SetupArguments, SolveArguments, total=False):
    """Both: a system is set up, and solved once."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Options of a set-up.

    Attributes:
        client: a Dask cluster's client; by default the one that is open, as Dask takes it for arrays, outside of tasks;
            where there is none, and with False, everything runs in this process, and Dask arrays are brought here.
        engine: "resident" (the default), "graph" (every operation a Dask task) or "reference" (serial).
        device: "cuda", "cpu", or "auto" for "cuda" where every worker has a GPU.
        kernels: "auto", or "numpy" for the slow text-book kernels.
        order: of the smoother of M="hpcg": "color8", "natural", a coloring's name such as "jpl", or eight parity
            classes such as "7 5 2 6 1 4 3 0".
        M: the preconditioner: "auto" (what suits the system, the default), "mg" (multigrid on the grid), "amg"
            (algebraic multigrid, for grids and matrices), "hpcg" (the HPCG benchmark's V-cycle), "jacobi",
            "chebyshev", "direct" (factors of the whole matrix, which one owner has), None, for general matrices also
            "l1-jacobi", "block-jacobi", "symgs", "ic0" and "ilu0", for systems of `dsolver.block`
            "block-triangular", "block-diagonal", "schur" and "lsc", for complex A = Aᵀ "presb"; an object of
            `dsolver.preconditioners` for other options; or your own: a function z = M(r) of whole arrays of b's shape,
            in b's kind of array, or an object of SciPy's or CuPy's kind (`LinearOperator`, sparse matrix) of shape
            (n, n) for vectors in the order of ``b.ravel()``; on a cluster that is named with client= these are called
            on one worker, with arrays of NumPy. Or `dsolver.by_chunk`, a function of each chunk of a grid, called where
            that lies. It must be linear, and symmetric and positive definite where A has to be symmetric.
        M_from: a matrix near an A that is a function or a `LinearOperator`, from whose rows M is made; see
            `dsolver.operator`.
        precond_dtype: the value type in which multigrid, and sweeps, factors and blocks of a general matrix, are stored
            and applied. With "float32" they move half the bytes; the system itself and its residual stay in float64,
            and so does what can be reached. Should the solve stall for that, it goes on with "float64", warns, and
            says so in `Solution.notes`. "auto", the default, is "float32" for "mg" and "amg" on GPUs, without a
            warning, except for method="gmres"; else "float64".
        dtype: the value type of the whole system, "float64" or "float32". With "float32" A, M and vectors take half the
            memory and x is float32; dot products are added up in float64. What rounding leaves of b - A x is then about
            1e-7 ‖A‖ ‖x‖, so an rtol below 1e-7, as the default is, becomes 1e-5, and `Solution.notes` say so. For real
            systems.
        method: for symmetric matrices "cg" (conjugate gradients, the default), "fcg" (flexible ones, for an M that
            changes) or "minres" (indefinite matrices); for complex A = Aᵀ "cocg"; for any matrix "gmres" (the default
            where A is not symmetric), "fgmres" (for any M, too) or "bicgstab". docs/theory.md tells what each needs.
        restart: vectors of the basis of "gmres" and "fgmres", after which they begin a new one. They stay in memory. By
            default 30 in the first one, and twice as many in the next where residuals hardly fall, up to 240 and 256
            MiB.

    Raises:
        InputError: there is no such order, value type or method. Devices and the cluster are looked at when they are
            needed.
    """

    client: distributed.Client | Literal[False] | None = None
    engine: EngineName = "auto"
    device: DeviceName = "auto"
    kernels: KernelsName = "auto"
    order: str = "color8"
    M: PreconditionerLike = "auto"
    M_from: Any = None
    precond_dtype: PrecondDtype = AUTO
    dtype: ValueType = "float64"
    method: MethodName | None = None
    restart: int | None = None

    def __post_init__(self) -> None:
        if self.method is not None:
            check_method(self.method)
        most: object = self.restart
        if most is not None and not (isinstance(most, Integral) and int(most) >= 1):
            raise InputError(f"restart must be an integer >= 1, not {in_a_line(most)}")
        for name in ("dtype", "precond_dtype"):
            given: Any = getattr(self, name)
            if isinstance(given, (type, np.dtype)):  # NumPy's, in place of its name
                object.__setattr__(self, name, np.dtype(given).name)
        check_value_type(self.dtype, self.precond_dtype)
        Order.parse(self.order)
        check_dtype(None, self.precond_dtype)

    @property
    def free(self) -> bool:
        """Whether M is not asked for."""
        return isinstance(self.M, str) and self.M == AUTO

    def wishes(self, problem: Problem, device: str) -> Wishes:
        """Wishes about a system, with the preconditioner that M stands for.

        Args:
            device: where it is solved, "cpu" or "cuda"; what "auto" stands for depends on it, and nothing else.

        Raises:
            InputError: it is no system, or one that method, dtype or M are not for; or M is no preconditioner, or none
                that can be made in `precond_dtype`.
        """
        check_problem(problem)
        method_for(problem, self.method)
        check_value_type(self.dtype, self.precond_dtype, problem)
        m = chosen_for(self.M, problem, self.method, device, self.precond_dtype)
        check_dtype(None if self.free else m, self.precond_dtype)  # Jacobi, which "auto" may take, stores nothing
        return Wishes(
            m=m,
            free=self.free,
            method=self.method,
            restart=self.restart,
            order=self.order,
            dtype=self.dtype,
            precond_dtype=m.precision or self.precond_dtype,
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of one solve.

    Attributes:
        rtol: finished when ‖b - A x‖₂ <= max(rtol ‖b‖₂, atol), unless large rows alone make it so, as of a penalty.
        atol: the same limit as an absolute number, in the units of b.
        maxiter: iterations at most; 1000 by default.
        callback: called with a `State` after each iteration; the solve stops when it returns True or raises
            StopIteration. Iterations then run one by one, which costs speed on small systems.
        progress: called with the newest `State` about twice a second; the solve takes no notice of it.
        spans: where measured spans go: a file of JSON lines, or a function that is called with those of each measured
            iteration; see `dsolver.monitor.spans`. The last iteration of each superstep is measured, about one in half
            a second; without this, only in solves longer than that.
        checkpoint: a folder, or a `dsolver.Checkpoint`, where the iterate is saved now and then. On a cluster a solve
            that loses a worker goes on by itself, from there or from an iterate in this process's memory, on the
            workers that are left or come back.
        resume: such a folder to take the first guess from, whatever workers wrote it; x0 where nothing was saved, as
            `Solution.notes` tells then.

    Raises:
        InputError: one of them cannot be right.
    """

    rtol: float = 1e-8
    atol: float = 0.0
    maxiter: int | None = None
    callback: Callback | None = None
    progress: Progress | None = None
    spans: Sink | None = None
    checkpoint: Store | None = None
    resume: Store | None = None

    def __post_init__(self) -> None:
        for name in ("rtol", "atol"):
            check_tolerance(name, getattr(self, name))
        most: Any = self.maxiter
        if most is not None and not (isinstance(most, Integral) and int(most) >= 0):
            raise InputError(f"maxiter must be an integer >= 0, not {in_a_line(most)}")
        if self.spans is not None:
            check_sink(self.spans)
        for name, function in (("callback", self.callback), ("progress", self.progress)):
            if function is not None and not callable(function):
                raise InputError(f"{name} must be a function of a State, not {in_a_line(function)}")
            if isinstance(function, type):  # its call would make an object, if it can be made of a State
                kind = function.__name__
                raise InputError(f"{name} is the class {kind}: pass an object of it, {kind}()")
        for name in ("checkpoint", "resume"):  # one of its own for each solve that names a folder, refused here
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checkpoint_of(getattr(self, name)))

    @property
    def iterations(self) -> int:
        """Iterations at most."""
        return MAXITER if self.maxiter is None else self.maxiter

    def limit(self, b_norm: float) -> float:
        """The residual at which a solve is finished."""
        return limit_of(self.rtol, self.atol, b_norm)


def split_arguments(**arguments: Unpack[Arguments]) -> tuple[Setup, Options]:
    """The arguments of a set-up and those of its only solve."""
    of_setup = {field.name for field in fields(Setup)}
    given: dict[str, Any] = {**arguments}
    setup = {name: given.pop(name) for name in of_setup & given.keys()}
    return Setup(**setup), Options(**given)
