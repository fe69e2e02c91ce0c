"""What a user can choose: how a system is set up and how one solve goes. What an argument means stands here alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, final

from dsolver.checkpoint import Checkpoint, checkpoint_of
from dsolver.errors import InputError
from dsolver.iteration import Callback, Progress, Tolerances
from dsolver.monitor.watch import Sink, check_sink
from dsolver.ordering import Order
from dsolver.partition import Triple
from dsolver.preconditioners import Recipe, check_dtype, recipe_of
from dsolver.runtime import DeviceName, EngineName, KernelsName

if TYPE_CHECKING:
    import distributed

MAXITER: Final = 1000

PrecondDtype = Literal["float64", "float32"]
Store = Checkpoint | str | os.PathLike[str]
"""A checkpoint as an argument gives it: its folder will do."""


class SetupArguments(TypedDict, total=False):
    """The keyword arguments that `Setup` describes."""

    client: distributed.Client | None
    engine: EngineName
    device: DeviceName
    kernels: KernelsName
    order: str
    M: Any
    precond_dtype: PrecondDtype


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


@final
@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a system is set up.

    Attributes:
        client: a Dask cluster's client; by default everything runs in this process, and Dask arrays are brought here,
            whatever client is open.
        engine: "resident" (the default), "graph" (every operation a Dask task) or "reference" (serial).
        device: "cuda", "cpu", or "auto" for "cuda" where every worker has a GPU.
        kernels: "auto", or "numpy" for the slow text-book kernels.
        order: of the smoother of M="hpcg": "color8", "natural", or eight parity classes such as "7 5 2 6 1 4 3 0".
        M: the preconditioner: "mg" (multigrid, the default), "hpcg" (the HPCG benchmark's V-cycle), "jacobi",
            "chebyshev", None; an object of `dsolver.preconditioners` for other options; or your own, in this process
            only: a function z = M(r) of whole arrays of the grid's shape, in b's kind of array, or an object of SciPy's
            kind (`LinearOperator`, sparse matrix) of shape (n, n) for vectors in the order of ``b.ravel()``. It must be
            linear, symmetric and positive definite.
        precond_dtype: the value type in which multigrid is stored and applied. With "float32" it moves half the bytes;
            the system itself and its residual stay in float64, and so does what can be reached. Should the true
            residual stall, the solve goes on with "float64", and warns.

    Raises:
        InputError: there is no such order or value type. Devices and the cluster are looked at when they are needed.
    """

    client: distributed.Client | None = None
    engine: EngineName = "auto"
    device: DeviceName = "auto"
    kernels: KernelsName = "auto"
    order: str = "color8"
    M: Any = "mg"
    precond_dtype: PrecondDtype = "float64"

    def __post_init__(self) -> None:
        Order.parse(self.order)
        check_dtype(None, self.precond_dtype)

    def recipe(self, grid: Triple) -> Recipe:
        """The recipe of M on a grid.

        Raises:
            InputError: M is no preconditioner, or none that can be made in `precond_dtype`.
        """
        recipe = recipe_of(self.M, grid)
        check_dtype(recipe, self.precond_dtype)
        return recipe


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """How one solve goes.

    Attributes:
        rtol: finished when ‖b - A x‖₂ <= max(rtol ‖b‖₂, atol).
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
        check_sink(self.spans)
        for name, function in (("callback", self.callback), ("progress", self.progress)):
            if function is not None and not callable(function):
                raise InputError(f"{name} must be a function of a State, not {function!r}")
            if isinstance(function, type):  # its call would make an object, if it can be made of a State
                kind = function.__name__
                raise InputError(f"{name} is the class {kind}: pass an object of it, {kind}()")
        for name in ("checkpoint", "resume"):  # one of its own for each solve that names a folder, refused here
            object.__setattr__(self, name, checkpoint_of(getattr(self, name)))
        self.tolerances()

    def tolerances(self) -> Tolerances:
        """When to stop."""
        return Tolerances(rtol=self.rtol, atol=self.atol, maxiter=MAXITER if self.maxiter is None else self.maxiter)


def parted(**arguments: Unpack[Arguments]) -> tuple[Setup, Options]:
    """The arguments of a set-up and those of its only solve."""
    of_setup = {field.name for field in fields(Setup)}
    given: dict[str, Any] = {**arguments}
    setup = {name: given.pop(name) for name in of_setup & given.keys()}
    return Setup(**setup), Options(**given)
