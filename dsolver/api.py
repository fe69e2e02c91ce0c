"""`solve`: from a problem and a right-hand side to a solution."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from dsolver.containers import container_of
from dsolver.errors import InputError
from dsolver.iteration import PATIENCE, Callback, Drive, Progress, Tolerances
from dsolver.levels import HPCG_LEVELS, Hierarchy
from dsolver.ordering import Order
from dsolver.partition import Partition
from dsolver.problems import Problem
from dsolver.programs import Solve, SolveSpec
from dsolver.runtime import DeviceName, EngineName, KernelsName, connect
from dsolver.solution import Solution

if TYPE_CHECKING:
    from distributed import Client

MAXITER: Final = 1000


def solve(
    problem: Problem,
    b: Any,
    *,
    client: Client | None = None,
    engine: EngineName = "auto",
    device: DeviceName = "auto",
    kernels: KernelsName = "auto",
    order: str = "color8",
    rtol: float = 1e-8,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Literal["mg", "none"] | None = "mg",  # SciPy's name for it
    x0: Any = None,
    callback: Callback | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Solve A x = b by conjugate gradients, preconditioned by multigrid.

    Args:
        problem: the system; see `dsolver.problems`.
        b: right-hand side, shape ``problem.grid``, real: a NumPy array, a CuPy array or a Dask array.
        client: a Dask cluster's client; by default everything runs in this process.
        engine: "resident" (the default), "graph" (every operation a Dask task) or "reference" (serial).
        device: "cuda", "cpu", or "auto" for "cuda" where every worker has a GPU.
        kernels: "auto", or "numpy" for the slow text-book kernels.
        order: of the smoother: "color8", "natural", or eight parity classes such as "7 5 2 6 1 4 3 0".
        rtol: finished when ‖b - A x‖₂ <= max(rtol ‖b‖₂, atol).
        atol: the same limit as an absolute number, in the units of b.
        maxiter: iterations at most; 1000 by default.
        M: the preconditioner: "mg" for one multigrid V-cycle, None for none.
        x0: first guess, like b; zero by default.
        callback: called with a `State` after each iteration; the solve stops when it returns True. Iterations then run
            one by one, which costs speed on small systems.
        progress: called with the newest `State` about twice a second; the solve takes no notice of it.

    Returns:
        The solution. Its status, judged on the true residual, tells whether it converged: not to is no exception.

    Raises:
        InputError: an argument cannot be right. Nothing was started.
        DeviceError: "cuda" was asked for where there is none.
        ClusterError: the cluster cannot be reached, or failed during the solve.
    """
    began = time.perf_counter()
    _check_kinds(problem, callback, progress)
    tolerances = Tolerances(rtol=rtol, atol=atol, maxiter=MAXITER if maxiter is None else maxiter)
    if M not in ("mg", "none", None):
        raise InputError(f"unknown preconditioner M={M!r}: use 'mg' or None")
    preconditioned = M == "mg"
    levels = HPCG_LEVELS if preconditioned else 1
    chosen_order = Order.parse(order)
    _check_shapes(problem, b, x0)
    runtime = connect(client, engine=engine, device=device, kernels=kernels)
    chunks = problem.chunks or runtime.chunks_for(problem.grid, 2 ** (levels - 1))
    hierarchy = Hierarchy.plan(problem, chunks, chosen_order, levels)
    partition = hierarchy.partitions[0]
    right = container_of("b", b, partition, runtime.client)
    guess = None if x0 is None else container_of("x0", x0, partition, runtime.client)

    spec = SolveSpec(hierarchy=hierarchy, preconditioned=preconditioned)
    with runtime.launch(Solve, spec, partition, problem.offsets) as job:
        ready = time.perf_counter()
        job.load("b", right.blocks())
        if guess is not None:
            job.load("x", guess.blocks())
        b_norm, x_norm = job.call("norms")
        _check_norms(b_norm, x_norm)
        if b_norm == 0.0:
            if not right.is_zero():
                raise InputError("b is not zero, but so small that its norm is zero: scale it, and x in return")
            job.call("fill", "x", 0.0)
        loaded = time.perf_counter()
        # A value takes this many iterations to cross the grid, and until it has the residual may stay as it is.
        patience = max(PATIENCE, sum(problem.grid))
        drive = Drive(job, tolerances, b_norm, callback, progress, patience)
        status = drive.run()
        solved = time.perf_counter()
        x = right.like(job.unload("x", host=right.host))
    return Solution(
        x=x,
        status=status,
        iterations=len(drive.residuals) - 1,
        residuals=tuple(drive.residuals),
        true_residual=drive.true_residual,
        b_norm=b_norm,
        timings={
            "setup": ready - began,
            "load": loaded - ready,
            "solve": solved - loaded,
            "total": time.perf_counter() - began,
        },
        engine=runtime.describe(len(partition)),
    )


def _check_kinds(problem: Any, callback: Any, progress: Any) -> None:
    """Refuse what would fail far from here, as an attribute that is missing or a call in the middle of a solve."""
    if not isinstance(problem, Problem):
        raise InputError(
            f"problem must come from dsolver.problems, as dsolver.problems.hpcg(grid) does, not {problem!r}"
        )
    for name, function in (("callback", callback), ("progress", progress)):
        if function is not None and not callable(function):
            raise InputError(f"{name} must be a function of a State, not {function!r}")


def _check_shapes(problem: Problem, b: Any, x0: Any) -> None:
    """Refuse what can be refused before anything is connected; values of Dask arrays are looked at once computed."""
    whole = Partition(problem.grid)
    for name, values in (("b", b), ("x0", x0)):
        if values is not None or name == "b":
            container_of(name, values, whole, None).check()


def _check_norms(b_norm: float, x_norm: float) -> None:
    for name, norm in (("b", b_norm), ("x0", x_norm)):
        if not np.isfinite(norm):
            raise InputError(f"{name} has values that are NaN or infinite, or so large that its norm is")
