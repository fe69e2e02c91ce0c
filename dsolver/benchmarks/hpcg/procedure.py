"""The phases of the benchmark, in the rules' order, and the options of a run."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import fmean, pvariance
from typing import final

from dsolver import problems
from dsolver.benchmarks.hpcg import counts
from dsolver.benchmarks.hpcg.preconditioner import Hpcg
from dsolver.benchmarks.hpcg.program import Benchmark, scaled_diagonal
from dsolver.benchmarks.hpcg.result import (
    CG_LIMIT,
    CG_TOLERANCE,
    ITERATIONS_LIMIT,
    CgTest,
    Checks,
    Gflops,
    HpcgResult,
    IterationsTest,
    SymmetryTest,
    VarianceTest,
)
from dsolver.benchmarks.hpcg.watched_runs import Progress, Running, WatchedRuns
from dsolver.cluster import versions
from dsolver.cluster.runtime import Runtime
from dsolver.cost.room import check_memory
from dsolver.cost.traffic import description
from dsolver.errors import InputError
from dsolver.grid.box import Triple
from dsolver.grid.coloring import BEST_CLASSES, Order
from dsolver.monitor.watch import Sink, Watch, open_page
from dsolver.preconditioners import Identity, Preconditioner
from dsolver.program.spec import SolveSpec

COLOR8 = Order(BEST_CLASSES)  # the order of the smoother where none is asked for: eight colors


@final
@dataclass(frozen=True, kw_only=True)
class HpcgOptions:
    """Options of a run. InputError: a value cannot be right."""

    grid: Triple = (104, 104, 104)
    chunks: Triple | None = None
    order: Order = COLOR8
    seconds: float = 10.0  # how long the timed sets should take together; at least one set is run
    iterations: int | None = None  # run exactly so many iterations and nothing else; None for the whole procedure
    precond_dtype: str = "float64"  # the value type of multigrid in the wanted order. With "float32" no run is valid.

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0.0):
            raise InputError(f"the time for the sets must be a number of seconds, 0 or more, not {self.seconds}")
        if self.iterations is not None and self.iterations < 1:
            raise InputError(f"{self.iterations} iterations: ask for at least 1")
        SolveSpec.plan(problems.hpcg(self.grid), self.chunks or (1, 1, 1), self.order, Hpcg())


ASPECT = 0.125  # the smallest ratio of a chunk's extents that the rules allow
ENDS = {True: "valid", False: "invalid", None: "done"}  # ends of a run for those who watch, by whether it is valid
SLACK = 1.0 + 1e-6  # factor of the reference's residual at which the optimized CG may stop


def run(
    runtime: Runtime, options: HpcgOptions, progress: Progress | None = None, spans: Sink | None = None
) -> HpcgResult:
    """Run the benchmark.

    Args:
        progress: told how far it is.
        spans: where the spans of the measured iterations go; see `dsolver.solve`.

    Raises:
        InputError: the grid and the chunks break a rule of the benchmark. Nothing was started.
        DeviceMemoryError: the memory of CPUs will not suffice. Nothing was started.
    """
    chunks = options.chunks or runtime.chunks_for(options.grid, Hpcg().divisor)
    watch = Watch(runtime.client, spans)
    bench = _Bench(runtime, options, chunks, progress or _silent, watch)
    if runtime.device == "cpu":  # where memory runs out without a word; a GPU is filled to the last byte on purpose
        check_memory(bench.wanted, runtime)
    open_page(runtime.client)
    with watch:
        watch.events.start(what="hpcg", problem="27-point", **description(runtime, bench.wanted))
        result = bench.fixed(options.iterations) if options.iterations is not None else bench.full()
        watch.end(ENDS[result.valid], result.iterations, result.scaled_residual)
    watch.events.flush()
    return result


class _Bench:
    """One run: what every phase needs, and the seconds that phases took."""

    def __init__(
        self, runtime: Runtime, options: HpcgOptions, chunks: Triple, progress: Progress, watch: Watch
    ) -> None:
        self._runtime, self._options, self._chunks, self._progress = runtime, options, chunks, progress
        self._watch = watch
        self.wanted = self._plan(options.order)
        self._seconds: dict[str, float | None] = {}
        self._runs = WatchedRuns(self._progress, watch)
        self._began = time.perf_counter()

    # -- procedures --------------------------------------------------------------------------------------------------

    def fixed(self, iterations: int) -> HpcgResult:
        """Exactly so many iterations in the wanted order."""
        self._warm_up()
        with self._open(self.wanted, "setup") as program:
            self._runs.cg(program, "first iteration", 1)  # an engine may record it, which is not to be timed
            self._runs.show(program)
            with self._clock("sets"):
                residuals = self._runs.cg(program, "iterations", iterations)
            self._measure(program)
        flops = counts.of_sets(self._options.grid, iterations).total
        gflops = Gflops(raw=counts.raw_gflops(flops, self._took("sets")))
        self._seconds["optimize"] = None
        return self._result(residuals, gflops, Checks())

    def full(self) -> HpcgResult:
        """All phases."""
        self._check_aspect()
        self._warm_up("natural")
        tolerance = self._reference()
        with self._clock("test_cg"):
            cg = CgTest(plain=self._test_one(Identity()), preconditioned=self._test_one(Hpcg()))
        with self._open(self.wanted, "setup_optimized") as program:
            with self._clock("test_symmetry"):
                symmetry = SymmetryTest(**dict(zip(("spmv", "mg"), program.call(Benchmark.departures), strict=True)))
            program.call(Benchmark.set_rhs)  # the symmetry test has used b
            iterations = self._optimized(program, tolerance)
            count = max(counts.REFERENCE_ITERATIONS, iterations.needed or ITERATIONS_LIMIT)
            sets = self._sets(program, count)
            self._measure(program)
            with self._clock("operations"):
                flops = asdict(counts.per_call(self._options.grid))
                speeds = {name: self._runs.speed(program, name, count) for name, count in flops.items()}
        last = [residuals[-1] for residuals in sets]
        tests = Checks(
            cg=cg,
            symmetry=symmetry,
            iterations=iterations,
            variance=VarianceTest(sets=len(sets), mean=fmean(last), variance=pvariance(last)),
        )
        return self._result(sets[-1], self._rate(count, len(sets), speeds), tests)

    # -- phases ------------------------------------------------------------------------------------------------------

    def _warm_up(self, *orders: str) -> None:
        """Load and compile the kernels on a tiny system with as many chunks, so that no phase pays for it.

        `orders`: those that are used beside the wanted one, on long chunks: set-up has kernels of its own for more
        colors than a byte can count, and these have 274 in natural order.
        """
        wanted = [(self._options.order, (16, 16, 16)), *((Order.parse(order), (8, 8, 64)) for order in orders)]
        with self._clock("warm_up"):
            for number, (order, extents) in enumerate(wanted):
                self._progress("load kernels", number, len(wanted))
                nx, ny, nz = (count * extent for count, extent in zip(self._chunks, extents, strict=True))
                tiny = self._plan(order, grid=(nx, ny, nz))
                with self._runtime.launch(Benchmark, tiny, tiny.partition) as program:
                    program.call(Benchmark.set_rhs)
                    program.call(Benchmark.start)
                    program.call(Benchmark.advance, 1)

    def _reference(self) -> float:
        """Phase 1: the residual of 50 iterations in natural order."""
        natural = replace(self._plan(Order.parse("natural")), precond_dtype="float64")
        with self._open(natural, "setup") as program:
            if self._runtime.device == "cpu" or self._runtime.engine == "graph":  # else the phase is over at once
                self._runs.show(program)
            with self._clock("reference"):
                return self._runs.cg(program, "reference CG", counts.REFERENCE_ITERATIONS)[-1]

    def _measure(self, program: Running) -> None:
        """Measure some iterations, apart from the timed sets."""
        with self._clock("measured"):
            self._runs.measure(program)

    def _test_one(self, m: Preconditioner) -> int | None:
        """Phase 3 with or without the preconditioner."""
        diagonal = partial(scaled_diagonal, self.wanted.partition)
        with self._open(replace(self.wanted, preconditioner=m, diagonal=diagonal)) as program:
            return _first_at_most(self._runs.cg(program, "TestCG", CG_LIMIT, CG_TOLERANCE), CG_TOLERANCE)

    def _optimized(self, program: Running, tolerance: float) -> IterationsTest:
        """Phase 5: how many iterations the wanted order needs."""
        self._runs.show(program)
        with self._clock("optimized"):
            residuals = self._runs.cg(program, "optimized CG", ITERATIONS_LIMIT, tolerance * SLACK)
        return IterationsTest(tolerance=tolerance, needed=_first_at_most(residuals, tolerance * SLACK))

    def _sets(self, program: Running, count: int) -> list[list[float]]:
        """Phase 6: the residuals of each timed set. What is measured between them is in the time of none."""
        sets, seconds, residuals = int(self._options.seconds / self._took("optimized")) + 1, 0.0, []
        for i in range(sets):
            self._runs.show(program)
            began = time.perf_counter()
            residuals.append(self._runs.cg(program, f"set {i + 1} of {sets}", count))
            seconds += time.perf_counter() - began
        self._seconds["sets"] = seconds
        return residuals

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _plan(self, order: Order, grid: Triple | None = None) -> SolveSpec:
        """The system in some order, or a smaller one."""
        problem = problems.hpcg(grid or self._options.grid)
        return SolveSpec.plan(problem, self._chunks, order, Hpcg(), precond_dtype=self._options.precond_dtype)

    @contextmanager
    def _open(self, spec: SolveSpec, name: str | None = None) -> Iterator[Running]:
        """The program with its right-hand side set; the seconds until then are kept under a name."""
        self._progress("set-up", 0, 1)
        self._runs.forget()
        began = time.perf_counter()
        with self._runtime.launch(Benchmark, spec, spec.partition) as program:
            program.call(Benchmark.set_rhs)
            if name:
                self._seconds[name] = time.perf_counter() - began
            yield program

    @contextmanager
    def _clock(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._seconds[phase] = time.perf_counter() - began

    def _took(self, phase: str) -> float:
        seconds = self._seconds[phase]
        assert seconds is not None
        return seconds

    def _check_aspect(self) -> None:
        for chunk in self.wanted.partition:
            shape = chunk.box.shape
            if min(shape) < ASPECT * max(shape):
                raise InputError(
                    f"chunks of {' x '.join(map(str, shape))} points break the benchmark's rule that the shortest "
                    f"side is at least {ASPECT} of the longest: choose other chunks, or --iterations to run without a "
                    f"rating"
                )

    def _rate(self, count: int, sets: int, speeds: dict[str, float]) -> Gflops:
        """Speeds, and the split of set-up time.

        There is no plain matrix that the optimization starts from: a chunk is built in its final form at once. The
        plain set-up is what building in natural order takes; and since coloring, reordering and slices cannot be told
        from the rest of the set-up in the wanted order, all of that counts as optimizing. It can only lower the rating.
        """
        setup = self._took("setup")
        optimize = self._seconds["optimize"] = self._took("setup_optimized")
        seconds, grid = self._took("sets"), self._options.grid
        return Gflops(
            raw=counts.raw_gflops(counts.of_sets(grid, count, sets).total, seconds),
            rating=counts.rating(grid, count, sets, seconds, setup, optimize),
            **speeds,
        )

    def _result(self, residuals: list[float], gflops: Gflops, tests: Checks) -> HpcgResult:
        self._seconds["total"] = time.perf_counter() - self._began
        return HpcgResult(
            grid=self._options.grid,
            chunks=self._chunks,
            engine=self._runtime.engine,
            kernels=self._runtime.kernels,
            order=str(self._options.order),
            device=self._runtime.device,
            iterations=len(residuals) - 1,
            residuals=residuals,
            gflops=gflops,
            seconds=self._seconds,
            tests=tests,
            versions=versions.installed(),
            precond_dtype=self._options.precond_dtype,
            exposure=self._watch.exposure,
            spans=self._watch.spans,
        )


def _silent(_phase: str, _done: int, _most: int) -> None:
    """Progress that is not shown."""


def _first_at_most(residuals: list[float], tolerance: float) -> int | None:
    return next((k for k, residual in enumerate(residuals) if residual <= tolerance), None)
