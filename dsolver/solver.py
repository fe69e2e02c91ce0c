"""`Solver`: sets a system up once, on whatever devices there are, and solves it as often as wanted."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, Self, final, overload
from weakref import WeakSet

import numpy as np

from dsolver.checkpoint import Checkpoint, checkpoint_of
from dsolver.conductor import conducted
from dsolver.containers import Container, container_of, stacked
from dsolver.devices import free_memory_of
from dsolver.engines.job import Job
from dsolver.engines.shortage import let_go
from dsolver.errors import ClusterError, DeviceMemoryError, InconsistentWarning, InputError
from dsolver.estimation import Estimate, planned
from dsolver.fetching import fetched
from dsolver.iteration import PATIENCE, Callback, Drive, Progress, Tolerances
from dsolver.kernels import DTYPES
from dsolver.levels import Hierarchy
from dsolver.monitor.watch import Sink, Watch, check_sink
from dsolver.ordering import Order
from dsolver.partition import Partition
from dsolver.preconditioners import Function, Identity, Multigrid, Recipe, recipe_of
from dsolver.problems import Problem, changed
from dsolver.programs import Solve, SolveSpec
from dsolver.recovery import ATTEMPTS, Keeper, without_the_lost
from dsolver.runtime import DeviceName, EngineName, KernelsName, Runtime, connect
from dsolver.solution import Solution, Status

if TYPE_CHECKING:
    from distributed import Client

MAXITER: Final = 1000
AT_ONCE: Final = 8
"""Right-hand sides that are solved together at most: with more, vectors are nearly all that an iteration moves."""
ALONE: Final = ("callback", "progress", "spans", "checkpoint", "resume")
"""Options that look into one solve."""
COLUMN_VECTORS: Final = 10
"""Vectors of the finest level that a right-hand side of several takes: 6 of conjugate gradients, the rest of M."""
ROUNDED_UP: Final = 1.05
"""A vector's length over its rows, at most, for chunks whose size matters."""
SPARE: Final = 0.9
"""Part of the free memory that may be taken."""
CONSISTENT: Final = 1e-10
"""How large n·b / (‖n‖ ‖b‖) may be without a word where A n = 0: far above rounding, far below a forgotten flux."""
DOUBTFUL: Final = (Status.STAGNATED, Status.INDEFINITE, Status.NOT_FINITE, Status.DIVERGED)
"""Ends of a solve for which a preconditioner in float32 may be the reason."""


FMG: Final = "fmg"
"""The x0 that stands for a guess of full multigrid."""
Guess = Container | str | None
"""Where a solve begins: values, `FMG`, or zero."""

PrecondDtype = Literal["float64", "float32"]


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """What one solve is told beside b and x0; see `Solver.solve`."""

    rtol: float = 1e-8
    atol: float = 0.0
    maxiter: int | None = None
    callback: Callback | None = None
    progress: Progress | None = None
    spans: Sink | None = None
    checkpoint: Checkpoint | None = None
    resume: Checkpoint | None = None

    def __post_init__(self) -> None:
        check_sink(self.spans)
        for name, function in (("callback", self.callback), ("progress", self.progress)):
            if function is not None and not callable(function):
                raise InputError(f"{name} must be a function of a State, not {function!r}")
        self.tolerances()

    def tolerances(self) -> Tolerances:
        """When to stop."""
        return Tolerances(rtol=self.rtol, atol=self.atol, maxiter=MAXITER if self.maxiter is None else self.maxiter)


@final
class Solutions(Sequence[Solution]):
    """The solutions for several right-hand sides, in their order.

    Attributes:
        x: the solutions as one array of shape (m, nx, ny, nz), when the right-hand sides were one; else a list.
    """

    def __init__(self, solutions: Sequence[Solution], x: Any) -> None:
        self._solutions = tuple(solutions)
        self.x = x

    def __len__(self) -> int:
        return len(self._solutions)

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Solution, ...]: ...
    def __getitem__(self, index: int | slice) -> Solution | tuple[Solution, ...]:
        return self._solutions[index]

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached for every right-hand side."""
        return all(solution.converged for solution in self)

    def __repr__(self) -> str:
        good = sum(solution.converged for solution in self)
        return f"<Solutions: {good} of {len(self)} converged, {sum(s.iterations for s in self)} iterations>"


@final
@dataclass(frozen=True, kw_only=True)
class _Load:
    """A right-hand side that a program has.

    Attributes:
        right: it.
        guess: where the solve begins.
        inconsistency: the length of what no x can reach over that of b.
        b_norm: the length of the rest.
    """

    right: Container
    guess: Guess
    inconsistency: float
    b_norm: float


@final
class Solver:
    """A system that is set up, ready for any number of right-hand sides. Close it, or use it in a ``with`` statement.

    Matrices, vectors, connections and recorded kernels stay on the devices between two solves. On a cluster of GPUs an
    open Solver keeps its workers: other solves there wait until it is closed.

    Args:
        problem: the system; see `dsolver.problems`.
        client: a Dask cluster's client; by default everything runs in this process.
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
        InputError: an argument cannot be right. Nothing was started.
        DeviceError: "cuda" was asked for where there is none, or (`DeviceMemoryError`) a GPU's memory will not suffice.
        ClusterError: the cluster cannot be reached, or its GPUs are held by a Solver that this thread has left open.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        client: Client | None = None,
        engine: EngineName = "auto",
        device: DeviceName = "auto",
        kernels: KernelsName = "auto",
        order: str = "color8",
        M: Any = "mg",
        precond_dtype: PrecondDtype = "float64",
    ) -> None:
        began = time.perf_counter()
        self._job: Job | None = None
        _check_problem(problem)
        self._recipe = recipe_of(M, problem.grid)
        self._order = Order.parse(order)
        self._precond_dtype: str = check_precond(self._recipe, precond_dtype)
        self._runtime = connect(client, engine=engine, device=device, kernels=kernels)
        if self._runtime.client is not None and not self._recipe.everywhere:
            raise InputError(
                "M is a function, which is called in this process and not on a cluster: drop client=, or use a "
                "preconditioner of dsolver's, such as M='mg'"
            )
        self._spec = self._planned(problem)
        self._given = problem  # with its arrays, should the levels have to be made again
        self._check_memory(self._spec)
        self._held = self._claimed()
        self._lock = threading.Lock()
        self._solving: Container | None = None
        self._losses = 0
        self._launch()
        self._setup: float = time.perf_counter() - began

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The system that is set up."""
        return self._spec.hierarchy.problem

    @property
    def _partition(self) -> Partition:
        return self._spec.hierarchy.partitions[0]

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.problem.grid))
        state = "closed" if self._job is None else f"on {self._runtime.describe(len(self._partition), self._job.link)}"
        return f"<Solver {self.problem.name} {shape}, {state}>"

    # -- use -----------------------------------------------------------------------------------------------------------

    @overload
    def solve(
        self,
        b: list[Any] | tuple[Any, ...],
        *,
        x0: Any = ...,
        rtol: float = ...,
        atol: float = ...,
        maxiter: int | None = ...,
        callback: Callback | None = ...,
        progress: Progress | None = ...,
        spans: Sink | None = ...,
        checkpoint: Any = ...,
        resume: Any = ...,
    ) -> Solutions: ...
    @overload
    def solve(
        self,
        b: Any,
        *,
        x0: Any = ...,
        rtol: float = ...,
        atol: float = ...,
        maxiter: int | None = ...,
        callback: Callback | None = ...,
        progress: Progress | None = ...,
        spans: Sink | None = ...,
        checkpoint: Any = ...,
        resume: Any = ...,
    ) -> Solution: ...
    def solve(
        self,
        b: Any,
        *,
        x0: Any = None,
        rtol: float = 1e-8,
        atol: float = 0.0,
        maxiter: int | None = None,
        callback: Callback | None = None,
        progress: Progress | None = None,
        spans: Sink | None = None,
        checkpoint: Any = None,
        resume: Any = None,
    ) -> Solution | Solutions:
        """Solve A x = b by preconditioned conjugate gradients.

        Args:
            b: right-hand side, shape ``problem.grid``, real: a NumPy, CuPy, Dask or xarray array. Several of them are a
                list of such, or one array of shape (m, nx, ny, nz). Up to `AT_ONCE` at a time are solved together, so
                that the matrix is read once for all of them; each has the iterations and the bits that it would have
                alone, and its timings are those of all. With M "hpcg", "chebyshev" or a function, the graph engine,
                precond_dtype="float32" or one of the arguments from callback to resume they are solved one after the
                other; `Solution.notes` then says why.
            x0: first guess, like b; zero by default. "fmg" for what full multigrid makes of b, where M is "mg": it
                takes about as long as an iteration and saves one or two.
            rtol: finished when ‖b - A x‖₂ <= max(rtol ‖b‖₂, atol).
            atol: the same limit as an absolute number, in the units of b.
            maxiter: iterations at most; 1000 by default.
            callback: called with a `State` after each iteration; the solve stops when it returns True. Iterations then
                run one by one, which costs speed on small systems.
            progress: called with the newest `State` about twice a second; the solve takes no notice of it.
            spans: where measured spans go: a file of JSON lines, or a function that is called with those of each
                measured iteration; see `dsolver.monitor.spans`. The last iteration of each superstep is measured, about
                one in half a second; without this, only in solves longer than that.
            checkpoint: a folder, or a `dsolver.Checkpoint`, where the iterate is saved now and then. On a cluster a
                solve that loses a worker goes on by itself, from there or from an iterate in this process's memory, on
                the workers that are left or come back.
            resume: such a folder to take the first guess from, whatever workers wrote it; x0 where nothing was saved.

        Returns:
            The solution, or `Solutions` of several. Its status, judged on the true residual, tells whether it
            converged: not to is no exception.

        Raises:
            InputError: an argument cannot be right, or this Solver is closed or solving already.
            ClusterError: the cluster failed during the solve.
        """
        options = Options(
            rtol=rtol,
            atol=atol,
            maxiter=maxiter,
            callback=callback,
            progress=progress,
            spans=spans,
            checkpoint=checkpoint_of(checkpoint),
            resume=checkpoint_of(resume),
        )
        if not _several(b):
            self._check(b, x0)
            return self.run(b, x0, options)
        pairs = list(zip(b, _guesses(x0, b), strict=True))
        for values, guess in pairs:
            self._check(values, guess)
        solutions = self._run_several(pairs, options)
        x = [solution.x for solution in solutions]
        return Solutions(solutions, x if isinstance(b, list | tuple) else stacked(x, b))

    def _check(self, b: Any, x0: Any) -> None:
        check_guess(self._recipe, x0)
        check_shapes(self.problem, b, x0)

    def iterate(self) -> Any:
        """The newest iterate of the solve that is running, like its b: for callbacks.

        Raises:
            InputError: none is running.
        """
        if self._solving is None:
            raise InputError("no solve is running: call this in a callback")
        return self._x_like(self._solving)

    def update(self, problem: Problem | None = None, *, kappa: Any = None, sigma: Any = None) -> None:
        """Set up another matrix of the same structure in place of this one.

        Ranks, connections and compiled kernels are kept, and the memory of the old matrix is used again; the levels are
        made anew.

        Args:
            problem: with the same grid, chunks and offsets; by default the one that is set up.
            kappa: other coefficients of a diffusion problem; see `dsolver.problems.diffusion`.
            sigma: likewise.

        Raises:
            InputError: the structure differs, a coefficient cannot be right, or this Solver is closed or solving.
            DeviceMemoryError: a GPU's memory will not suffice; the old matrix stays.
            ClusterError: the cluster failed.
        """
        began = time.perf_counter()
        problem = self._given if problem is None else problem
        _check_problem(problem)
        if kappa is not None or sigma is not None:
            problem = changed(problem, kappa=kappa, sigma=sigma)
        old = self.problem
        for name in ("grid", "chunks", "offsets", "periodic"):
            if getattr(problem, name) != getattr(old, name):
                raise InputError(f"the new problem has other {name}: open another Solver for it")
        with self._in_use():
            spec = self._planned(problem)
            self._check_memory(spec, self._spec)
            self._opened().call("update", spec)
            self._columns = 0
            self._load_coefficients(problem)
            self._spec, self._given = spec, problem
            self._fresh, self._setup = True, time.perf_counter() - began

    def close(self) -> None:
        """End it and give back what it holds. Solutions stay. To close twice does nothing."""
        job, self._job = self._job, None
        _OPEN.discard(self)
        if job is not None:
            job.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- steps of a solve ----------------------------------------------------------------------------------------------

    def run(self, b: Any, x0: Any, options: Options) -> Solution:
        """Solve for one right-hand side that `check_shapes` has seen; see `solve`."""
        with self._in_use():
            keeper = Keeper(
                self.problem.grid, options.checkpoint, options.resume, cluster=self._runtime.client is not None
            )
            self._losses = 0
            while True:
                try:
                    return self._solved(b, keeper.guess(x0), options, keeper)
                except ClusterError as error:
                    self._begin_anew(error)

    def _run_several(self, pairs: Sequence[tuple[Any, Any]], options: Options) -> list[Solution]:
        """Solve for several right-hand sides that `_check` has seen: as many at once as there is room for, or none."""
        reason = self._why_not_together(options)
        at_once = 1 if reason else min(len(pairs), self._room(), AT_ONCE)
        if at_once < 2:
            solutions = [self.run(values, guess, options) for values, guess in pairs]
            if len(pairs) < 2:
                return solutions
            reason = reason or "memory is short"
            note = f"solved one after the other: {reason}"
            return [replace(solution, notes=(*solution.notes, note)) for solution in solutions]
        groups = -(-len(pairs) // at_once)
        cuts = [len(pairs) * i // groups for i in range(groups + 1)]
        parts = [pairs[first:last] for first, last in pairwise(cuts)]
        return [solution for part in parts for solution in self._run_together(part, options)]

    def _why_not_together(self, options: Options) -> str:
        """Why several right-hand sides cannot be solved at once; empty if they can."""
        if self._runtime.engine == "graph":
            return "engine='graph' has no kernels for several vectors"
        if not self._recipe.batchable:
            return f"M={self._recipe} has no kernels for several vectors"
        if self._spec.lowered:
            return f"precond_dtype={self._spec.precond_dtype!r} has no kernels for several vectors"
        asked = [name for name in ALONE if getattr(options, name) is not None]
        return f"{asked[0]}= looks into one solve" if asked else ""

    def _room(self) -> int:
        """How many right-hand sides can be solved at once, for the memory that is left and the reach of row numbers."""
        points = max(chunk.box.points for chunk in self._partition)
        reach = int(2**31 / (ROUNDED_UP * points))
        if self._runtime.device != "cuda":
            return reach
        free = min(free_memory_of(self._runtime.client, self._runtime.workers))
        return min(reach, max(self._columns, int(free * SPARE / (8 * COLUMN_VECTORS * ROUNDED_UP * points))))

    def _run_together(self, pairs: Sequence[tuple[Any, Any]], options: Options) -> list[Solution]:
        """Solve for several right-hand sides at once."""
        if len(pairs) == 1:
            return [self.run(*pairs[0], options)]
        with self._in_use():
            self._losses = 0
            while True:
                try:
                    return self._solved_together(pairs, options)
                except ClusterError as error:
                    self._begin_anew(error)

    def _solved_together(self, pairs: Sequence[tuple[Any, Any]], options: Options) -> list[Solution]:
        began, setup = time.perf_counter(), self._setup
        job = self._opened()
        job.call("widen", len(pairs))
        self._columns = len(pairs)
        loads = []
        for number, (b, x0) in enumerate(pairs):
            loads.append(self._loaded(b, x0))
            job.call("take", number)
        loaded = time.perf_counter()
        drives = [Drive(job, options.tolerances(), load.b_norm, patience=self._patience) for load in loads]
        watch = Watch(self._runtime.client, None)
        watch.feed.start(what="solve", problem=self.problem.name, **self._runtime.about(self._spec))
        with watch:
            found = conducted(job, drives)
            slowest = max(drives, key=lambda drive: len(drive.residuals))
            watch.end(_of_all(found), len(slowest.residuals) - 1, slowest.true_residual)
        solved = time.perf_counter()
        solutions = []
        for number, (load, drive, status) in enumerate(zip(loads, drives, found, strict=True)):
            job.call("give", number)
            status = for_all_of_b(status, load.inconsistency, load.b_norm, options)
            times = {"setup": setup, "load": loaded - began, "solve": solved - loaded}
            solutions.append(self._solution(load, drive, status, times, began))
        return solutions

    def _launch(self) -> None:
        """Start the program; when a worker is lost meanwhile, on those that are left."""
        try:
            self._columns = 0  # for how many right-hand sides at once the program holds room
            self._job = self._runtime.launch(Solve, self._spec, self._partition, self.problem.offsets)
            self._load_coefficients(self._given)
            self._fresh = True
        except ClusterError as error:
            self._begin_anew(error)
        except BaseException:
            self.close()
            raise

    def _begin_anew(self, error: ClusterError) -> None:
        """Start the program again on the workers that are left, or raise the error where that cannot help."""
        self.close()
        self._losses += 1
        if self._losses > ATTEMPTS:
            raise error
        self._runtime = without_the_lost(self._runtime, error)
        let_go(error)
        self._held = self._claimed()
        self._launch()

    def _solved(self, b: Any, x0: Any, options: Options, keeper: Keeper) -> Solution:
        began, setup = time.perf_counter(), self._setup
        load, job, client = self._loaded(b, x0), self._opened(), self._runtime.client
        loaded = time.perf_counter()
        watch = Watch(client, options.spans)
        watch.feed.start(what="solve", problem=self.problem.name, **self._runtime.about(self._spec))
        progress = keeper.watching(job, self._runtime, self._partition, load.b_norm, options.progress)
        drive = Drive(job, options.tolerances(), load.b_norm, options.callback, progress, self._patience, watch)
        self._solving = load.right
        try:
            with watch:
                status = drive.run()
                notes: tuple[str, ...] = ()
                if self._spec.lowered and status in DOUBTFUL:
                    notes = (self._fall_back(drive, load.guess, status),)
                    status = drive.resume()
                status = for_all_of_b(status, load.inconsistency, load.b_norm, options)
                watch.end(str(status), len(drive.residuals) - 1, drive.true_residual)
        finally:
            self._solving = None
        times = {"setup": setup, "load": loaded - began, "solve": time.perf_counter() - loaded}
        return replace(
            self._solution(load, drive, status, times, began), spans=watch.spans, exposure=watch.exposure, notes=notes
        )

    @property
    def _patience(self) -> int:
        """A value takes this many iterations to cross the grid, and until it has the residual may stay as it is."""
        return max(PATIENCE, sum(self.problem.grid))

    def _loaded(self, b: Any, x0: Any) -> _Load:
        """Bring a right-hand side and a first guess to the program."""
        job, client = self._opened(), self._runtime.client
        right = container_of("b", b, self._partition, client)
        guess: Guess = x0 if x0 is None or isinstance(x0, str) else container_of("x0", x0, self._partition, client)
        if isinstance(self._recipe, Function):
            self._recipe.host = right.host
        job.load("b", right.blocks())
        inconsistency = 0.0 if self.problem.singular is False else float(job.call("inconsistency"))
        _warn_inconsistent(inconsistency)
        if guess is not None or not self._fresh:
            _begin_at(job, guess)
        self._fresh, self._setup = False, 0.0
        b_norm, x_norm = job.call("norms")
        _check_norms(b_norm, x_norm)
        if b_norm == 0.0:
            if self.problem.rule is None and not self.problem.singular and not right.is_zero():
                raise InputError("b is not zero, but so small that its norm is zero: scale it, and x in return")
            job.call("fill", "x", 0.0)
        return _Load(right=right, guess=guess, inconsistency=inconsistency, b_norm=b_norm)

    def _solution(self, load: _Load, drive: Drive, status: Status, times: dict[str, float], began: float) -> Solution:
        """What a drive has made of what was loaded; x is fetched."""
        job = self._opened()
        return Solution(
            x=self._x_like(load.right),
            status=status,
            iterations=len(drive.residuals) - 1,
            residuals=tuple(drive.residuals),
            true_residual=drive.true_residual,
            b_norm=load.b_norm,
            timings={**times, "total": times["setup"] + time.perf_counter() - began},
            engine=self._runtime.describe(len(self._partition), job.link),
        )

    def _x_like(self, right: Container) -> Any:
        """x, in the kind of array that a right-hand side came in."""
        blocks = self._opened().unload("x", host=right.host)
        return right.like(fetched(self._runtime.client, blocks, self._runtime.workers) if right.here else blocks)

    def _load_coefficients(self, problem: Problem) -> None:
        """Bring the arrays that the matrix is made from to their owners, and have it made."""
        job = self._opened()
        for name, values in problem.coefficients.items():
            job.load(name, container_of(name, values, self._partition, self._runtime.client).blocks())
        if problem.coefficients:
            job.call("set_up")

    def _fall_back(self, drive: Drive, guess: Guess, status: Status) -> str:
        """Change to a preconditioner in float64, for this solve and those to come; says so, and returns that."""
        note = (
            f"with precond_dtype={self._spec.precond_dtype!r} the solve ended as {status} after "
            f"{len(drive.residuals) - 1} iterations, ‖b - Ax‖ = {drive.true_residual:.2e}: it goes on with 'float64'"
        )
        warnings.warn(note, RuntimeWarning, stacklevel=5)
        self._precond_dtype = "float64"
        self._spec = replace(self._spec, precond_dtype="float64")
        job = self._opened()
        job.call("precondition", self._spec)
        self._load_coefficients(self._given)
        if not drive.true_residual <= drive.residuals[0]:  # x is no better than what it began with, or NaN
            _begin_at(job, guess)
        return note

    def _planned(self, problem: Problem) -> SolveSpec:
        levels = self._recipe.levels
        chunks = problem.chunks or self._runtime.chunks_for(problem.grid, 2 ** (levels - 1))
        hierarchy = Hierarchy.plan(problem, chunks, self._order, levels)
        return SolveSpec(hierarchy=hierarchy, preconditioner=self._recipe, precond_dtype=self._precond_dtype)

    def _check_memory(self, spec: SolveSpec, old: SolveSpec | None = None) -> None:
        """Refuse what no GPU could hold before anything is started, or given up of the old system whose place it takes.

        What an old system that needed as much has been given is not asked for again.
        """
        runtime = self._runtime
        if runtime.device != "cuda":
            return
        held = None if old is None else self._planned_memory(old)
        if held is not None and self._planned_memory(spec).bytes <= held.bytes:
            return
        shortage: str | None = None
        for reclaim in (False, True):  # before it is refused, all that nothing uses any more is given back
            free = free_memory_of(runtime.client, runtime.workers, reclaim=reclaim)
            if held is not None:
                free = tuple(left + worker.resident for left, worker in zip(free, held.workers, strict=False))
            shortage = self._planned_memory(spec, free).shortage
            if shortage is None:
                return
        raise DeviceMemoryError(shortage)

    def _planned_memory(self, spec: SolveSpec, free: tuple[int, ...] = ()) -> Estimate:
        return planned(
            spec.hierarchy,
            self._recipe,
            self._runtime.workers,
            device="cuda",
            available=free,
            precond_dtype=spec.precond_dtype,
        )

    def _opened(self) -> Job:
        if self._job is None:
            raise InputError("this Solver is closed: open a new one")
        return self._job

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._opened()
        if not self._lock.acquire(blocking=False):
            raise InputError("this Solver is solving already: open another one for a solve beside it")
        try:
            yield
        finally:
            self._lock.release()

    def _claimed(self) -> tuple[int, frozenset[str]]:
        """This thread and the workers whose GPUs are taken, unless this thread holds some of them already."""
        runtime: Runtime = self._runtime
        taken = runtime.client is not None and runtime.engine == "resident" and runtime.device == "cuda"
        mine = threading.get_ident(), frozenset(runtime.workers if taken else ())
        for other in list(_OPEN):
            thread, workers = other._held
            if thread == mine[0] and workers & mine[1]:
                raise ClusterError(
                    f"{other} holds the GPUs of this cluster and was opened by this thread, which would wait for ever: "
                    f"close it first, or use it for this solve too"
                )
        if taken:
            _OPEN.add(self)
        return mine


_OPEN: WeakSet[Solver] = WeakSet()
"""Those that hold GPUs of a cluster."""


def check_shapes(problem: Problem, b: Any, x0: Any) -> None:
    """Refuse what can be refused before anything is connected; values of Dask arrays are looked at once computed."""
    whole = Partition(problem.grid)
    for name, values in (("b", b), ("x0", None if isinstance(x0, str) else x0)):  # a name is `check_guess`'s
        if values is not None or name == "b":
            container = container_of(name, values, whole, None)
            if problem.rule is None or not problem.rule.masked:  # at masked cells there may be anything
                container.check()


def check_guess(recipe: Recipe, x0: Any) -> None:
    """Refuse a name of a first guess that is none, or that this preconditioner cannot make."""
    if not isinstance(x0, str):
        return
    if x0 != FMG:
        raise InputError(f"x0 must be an array like b or {FMG!r}, for a guess of full multigrid, not {x0!r}")
    if not isinstance(recipe, Multigrid):
        raise InputError(f"x0={FMG!r} is a guess of full multigrid, which needs M='mg', not {recipe}")


def check_precond(recipe: Recipe, dtype: Any) -> str:
    """The value type of a preconditioner.

    Raises:
        InputError: there is no such type, or this preconditioner cannot be made in it.
    """
    if dtype not in DTYPES:
        raise InputError(f"precond_dtype must be {' or '.join(map(repr, DTYPES))}, not {dtype!r}")
    if dtype != "float64" and not (recipe.lowerable or isinstance(recipe, Identity)):
        raise InputError(f"precond_dtype={dtype!r} is for multigrid: {recipe} works in float64 alone")
    return str(dtype)


def _begin_at(job: Job, guess: Guess) -> None:
    """x = the first guess."""
    if guess is None:
        job.call("fill", "x", 0.0)
    elif isinstance(guess, str):
        job.call("guess")
    else:
        job.load("x", guess.blocks())


def _check_problem(problem: Any) -> None:
    if not isinstance(problem, Problem):
        raise InputError(
            f"problem must come from dsolver.problems, as dsolver.problems.hpcg(grid) does, not {problem!r}"
        )


def for_all_of_b(status: Status, inconsistency: float, b_norm: float, options: Options) -> Status:
    """How a solve has ended for the b that was given, of which a part may be out of A's reach.

    Args:
        status: for the rest of b.
        inconsistency: the length of that part over that of b.
        b_norm: the length of the rest.
        options: the tolerance.
    """
    if inconsistency <= CONSISTENT:
        return status
    rest = math.sqrt(max(0.0, 1.0 - inconsistency * inconsistency))
    if rest <= CONSISTENT:  # what is left of b is rounding, and so is what became of it
        return Status.INCOMPATIBLE_RHS
    whole = b_norm / rest
    missed = inconsistency * whole > max(options.rtol * whole, options.atol)
    return Status.INCOMPATIBLE_RHS if status.converged and missed else status


def _warn_inconsistent(inconsistency: float) -> None:
    """Tell that there was no solution for the b that was given."""
    if inconsistency > CONSISTENT:
        warnings.warn(
            f"the right-hand side has no solution: constants solve A x = 0, and the sum of b should be zero but is "
            f"{inconsistency:.1e} of ‖1‖ ‖b‖. A constant was subtracted from the source. Check that it and the fluxes "
            f"through the boundary balance",
            InconsistentWarning,
            stacklevel=5,
        )


def _check_norms(b_norm: float, x_norm: float) -> None:
    for name, norm in (("b", b_norm), ("x0", x_norm)):
        if not np.isfinite(norm):
            raise InputError(f"{name} has values that are NaN or infinite, or so large that its norm is")


def _of_all(statuses: Sequence[Status]) -> str:
    """Of several: the first that did not converge."""
    return str(next((status for status in statuses if not status.converged), Status.CONVERGED))


def _several(b: Any) -> bool:
    """Whether b is several right-hand sides."""
    if isinstance(b, list | tuple):
        return bool(b) and all(hasattr(values, "shape") for values in b)
    return getattr(b, "ndim", 3) == 4


def _guesses(x0: Any, b: Any) -> list[Any]:
    if x0 is None or isinstance(x0, str):
        return [x0] * len(b)
    if not _several(x0) or len(x0) != len(b):
        raise InputError(f"x0 must be {len(b)} guesses like b, a list or an array with one more dimension in front")
    return list(x0)


def prepared(problem: Any, b: Any, x0: Any, m: Any, order: str, precond_dtype: Any = "float64") -> Recipe:
    """Look at all that needs no device and no cluster."""
    _check_problem(problem)
    recipe = recipe_of(m, problem.grid)
    check_precond(recipe, precond_dtype)
    check_guess(recipe, x0)
    Order.parse(order)
    check_shapes(problem, b, x0)
    return recipe
