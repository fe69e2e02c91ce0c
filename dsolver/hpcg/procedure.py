"""The phases of the benchmark, in the rules' order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import final

from dsolver import problems, versions
from dsolver.engines.job import Job
from dsolver.errors import InputError
from dsolver.hpcg import counts
from dsolver.hpcg.program import PER_STEP, Benchmark
from dsolver.hpcg.result import (
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
from dsolver.levels import HPCG_LEVELS, Hierarchy
from dsolver.monitor.watch import Sink, Watch
from dsolver.ordering import BEST_CLASSES, Order
from dsolver.partition import Triple
from dsolver.preconditioners import Identity
from dsolver.programs import SolveSpec
from dsolver.runtime import Runtime

COLOR8 = Order(BEST_CLASSES)
DIVISOR = 2 ** (HPCG_LEVELS - 1)
ASPECT = 0.125
"""The smallest ratio of a chunk's extents that the rules allow."""
SUPERSTEP = 0.5
"""Seconds of work between two looks at the residual."""
LOOP = 0.25
"""Seconds that an operation's own timed loop should take."""
MOST_STEPS = 5000
FROZEN = 1e-150
"""Scaled residual below which iterations change nothing any more: the square of a smaller one would not be a number."""
ENDS = {True: "valid", False: "invalid", None: "done"}
"""How a run has ended, by whether it is valid, for those who watch."""
SLACK = 1.0 + 1e-6
"""How much above the reference's residual the optimized CG may stop."""

SAMPLES = 5
"""Iterations that are measured, after the timed sets and in none of them."""
AHEAD = 8
"""Iterations of a run whose last one is measured, so that the device finds its work waiting."""

Progress = Callable[[str, int, int], None]
"""Called as progress(phase, iterations done, iterations at most)."""


@final
@dataclass(frozen=True, kw_only=True)
class HpcgOptions:
    """What to run.

    Attributes:
        grid: global points along x, y, z.
        chunks: how many chunks along x, y, z, or None for one a worker.
        order: of the smoother.
        seconds: how long the timed sets should take together; at least one set is run.
        iterations: run exactly so many iterations and nothing else; None for the whole procedure.
        precond_dtype: the value type of multigrid in the wanted order. With "float32" no run is valid.

    Raises:
        InputError: a value cannot be right.
    """

    grid: Triple = (104, 104, 104)
    chunks: Triple | None = None
    order: Order = COLOR8
    seconds: float = 10.0
    iterations: int | None = None
    precond_dtype: str = "float64"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0.0):
            raise InputError(f"the time for the sets must be a number of seconds, 0 or more, not {self.seconds}")
        if self.iterations is not None and self.iterations < 1:
            raise InputError(f"{self.iterations} iterations: ask for at least 1")
        Hierarchy.plan(problems.hpcg(self.grid), self.chunks or (1, 1, 1), self.order)


def run(
    runtime: Runtime,
    options: HpcgOptions,
    progress: Progress | None = None,
    spans: Sink | None = None,
) -> HpcgResult:
    """Run the benchmark.

    Args:
        runtime: where; see `dsolver.runtime.connect`.
        options: what.
        progress: told how far it is.
        spans: where the spans of the measured iterations go; see `dsolver.solve`.

    Raises:
        InputError: the grid and the chunks break a rule of the benchmark. Nothing was started.
    """
    chunks = options.chunks or runtime.chunks_for(options.grid, DIVISOR)
    watch = Watch(runtime.client, spans)
    bench = _Bench(runtime, options, chunks, progress or _silent, watch)
    with watch:
        watch.feed.start(what="hpcg", problem="27-point", **runtime.about(bench.wanted))
        result = bench.fixed(options.iterations) if options.iterations is not None else bench.full()
        watch.end(ENDS[result.valid], result.iterations, result.scaled_residual)
    return result


@final
class _Bench:
    """One run: what every phase needs, and the seconds that phases took."""

    def __init__(
        self, runtime: Runtime, options: HpcgOptions, chunks: Triple, progress: Progress, watch: Watch
    ) -> None:
        self._runtime, self._options, self._chunks, self._progress = runtime, options, chunks, progress
        self._watch = watch
        self._wanted = self._plan(options.order)
        self._seconds: dict[str, float | None] = {}
        self._pace = 0.0  # seconds an iteration, as last seen
        self._began = time.perf_counter()

    # -- procedures --------------------------------------------------------------------------------------------------

    def fixed(self, iterations: int) -> HpcgResult:
        """Exactly so many iterations in the wanted order."""
        self._warm_up()
        with self._open(self.wanted, "setup") as job:
            self._cg(job, "first iteration", 1)  # an engine may record it, which is not to be timed
            with self._clock("sets"):
                residuals = self._cg(job, "iterations", iterations)
            self._measure(job)
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
            cg = self._test_cg()
        with self._open(self.wanted, "setup_optimized") as job:
            with self._clock("test_symmetry"):
                symmetry = SymmetryTest(**dict(zip(("spmv", "mg"), job.call("departures"), strict=True)))
            job.call("set_rhs")  # the symmetry test has used b
            iterations = self._optimized(job, tolerance)
            count = max(counts.REFERENCE_ITERATIONS, iterations.needed or ITERATIONS_LIMIT)
            sets = self._sets(job, count)
            self._measure(job)
            with self._clock("operations"):
                speeds = {name: self._speed(job, name, flops) for name, flops in self._per_call().items()}
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

        Args:
            orders: those that are used beside the wanted one, on chunks of 40³ points: set-up has kernels of its own
                for more colors than a byte can count, and 40³ have 274 in natural order.
        """
        wanted = [(self._options.order, 2 * DIVISOR), *((Order.parse(order), 5 * DIVISOR) for order in orders)]
        with self._clock("warm_up"):
            self._progress("load kernels", 0, 1)
            for order, edge in wanted:
                tiny = Hierarchy.plan(problems.hpcg(_times(self._chunks, edge)), self._chunks, order, HPCG_LEVELS)
                with self._runtime.launch(Benchmark, self._spec(tiny), tiny.partitions[0]) as job:
                    job.call("set_rhs")
                    job.call("start")
                    job.call("advance", 1)

    def _reference(self) -> float:
        """Phase 1: the residual of 50 iterations in natural order."""
        natural = SolveSpec(hierarchy=self._plan(Order.parse("natural")))
        with self._open(natural, "setup") as job, self._clock("reference"):
            return self._cg(job, "reference CG", counts.REFERENCE_ITERATIONS)[-1]

    def _test_cg(self) -> CgTest:
        """Phase 3. Without preconditioner a hierarchy of one level is all that is needed."""
        plain = Hierarchy.plan(self._wanted.problem, self._chunks, self._options.order, levels=1)
        return CgTest(
            plain=self._test_one(SolveSpec(hierarchy=plain, preconditioner=Identity(), test_diagonal=True)),
            preconditioned=self._test_one(self._spec(self._wanted, test_diagonal=True)),
        )

    def _test_one(self, spec: SolveSpec) -> int | None:
        with self._open(spec) as job:
            return _first_at_most(self._cg(job, "TestCG", CG_LIMIT, CG_TOLERANCE), CG_TOLERANCE)

    def _optimized(self, job: Job, tolerance: float) -> IterationsTest:
        """Phase 5: how many iterations the wanted order needs."""
        with self._clock("optimized"):
            residuals = self._cg(job, "optimized CG", ITERATIONS_LIMIT, tolerance * SLACK)
        return IterationsTest(tolerance=tolerance, needed=_first_at_most(residuals, tolerance * SLACK))

    def _sets(self, job: Job, count: int) -> list[list[float]]:
        """Phase 6: the residuals of each timed set."""
        sets = int(self._options.seconds / self._took("optimized")) + 1
        with self._clock("sets"):
            return [self._cg(job, f"set {i + 1} of {sets}", count) for i in range(sets)]

    def _measure(self, job: Job) -> None:
        """Measure some iterations: what ran when, and how much communication that leaves exposed."""
        with self._clock("measured"):
            job.call("start", FROZEN)
            done = steps = min(AHEAD, self._superstep())
            job.call("advance", steps)
            for sample in range(SAMPLES):
                self._progress("measured iterations", sample, SAMPLES)
                job.call("advance", steps, True)
                done += steps
                self._watch.measured(job.spans(), done)

    def _speed(self, job: Job, name: str, flops: int) -> float:
        """GF/s of one operation in a loop of its own; one step finds out how long the loop should be."""
        self._progress(f"time {name}", 0, 1)
        job.call("repeat", name, 1)  # an engine may record it, which is not to be timed
        steps = max(1, min(MOST_STEPS, int(LOOP / _seconds(job, name, 1))))
        return counts.raw_gflops(flops * PER_STEP[name] * steps, _seconds(job, name, steps))

    # -- CG ----------------------------------------------------------------------------------------------------------

    def _cg(self, job: Job, phase: str, most: int, tolerance: float | None = None) -> list[float]:
        """‖r_k‖/‖r_0‖ of CG from x = 0 for k = 0 .. most, or less if a tolerance is given and reached.

        Runs in supersteps of about `SUPERSTEP` seconds. Steps launched past the tolerance stop to change anything only
        well below it, so that rounding cannot freeze the residual just above.
        """
        first = job.call("start", max(FROZEN, (tolerance or 0.0) / 2))
        residuals = [1.0]
        while len(residuals) <= most and not (tolerance is not None and residuals[-1] <= tolerance):
            self._progress(phase, len(residuals) - 1, most)
            steps = min(most + 1 - len(residuals), self._superstep(), _missing(residuals, tolerance))
            began = time.perf_counter()
            residuals += [norm / first for norm in job.call("advance", steps)]
            self._pace = (time.perf_counter() - began) / steps
            self._watch.advanced(len(residuals) - 1, residuals[-1], tolerance, most, phase)
        return residuals

    def _superstep(self) -> int:
        return max(1, int(SUPERSTEP / self._pace)) if self._pace else 1

    # -- the rest ----------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> SolveSpec:
        """The system in the wanted order."""
        return self._spec(self._wanted)

    def _spec(self, hierarchy: Hierarchy, *, test_diagonal: bool = False) -> SolveSpec:
        """A system with the wanted preconditioner."""
        return SolveSpec(hierarchy=hierarchy, test_diagonal=test_diagonal, precond_dtype=self._options.precond_dtype)

    def _plan(self, order: Order) -> Hierarchy:
        return Hierarchy.plan(problems.hpcg(self._options.grid), self._chunks, order, HPCG_LEVELS)

    @contextmanager
    def _open(self, spec: SolveSpec, name: str | None = None) -> Iterator[Job]:
        """A job with its right-hand side set; the seconds until then are kept under a name."""
        self._progress("set-up", 0, 1)
        self._pace = 0.0
        began = time.perf_counter()
        with self._runtime.launch(Benchmark, spec, spec.hierarchy.partitions[0]) as job:
            job.call("set_rhs")
            if name:
                self._seconds[name] = time.perf_counter() - began
            yield job

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
        for chunk in self._wanted.partitions[0]:
            shape = chunk.box.shape
            if min(shape) < ASPECT * max(shape):
                raise InputError(
                    f"chunks of {' x '.join(map(str, shape))} points break the benchmark's rule that the shortest "
                    f"side is at least {ASPECT} of the longest: choose other chunks, or --iterations to run without a "
                    f"rating"
                )

    def _per_call(self) -> dict[str, int]:
        one = counts.per_call(self._options.grid)
        return {"ddot": one.ddot, "waxpby": one.waxpby, "spmv": one.spmv, "mg": one.mg}

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
    """Nobody wants to know."""


def _seconds(job: Job, operation: str, steps: int) -> float:
    began = time.perf_counter()
    job.call("repeat", operation, steps)
    return time.perf_counter() - began


def _first_at_most(residuals: list[float], tolerance: float) -> int | None:
    return next((k for k, residual in enumerate(residuals) if residual <= tolerance), None)


def _missing(residuals: list[float], tolerance: float | None) -> int:
    """Iterations still missing to a tolerance, as the convergence so far promises; many if it promises nothing."""
    done, last = len(residuals) - 1, residuals[-1]
    if tolerance is None or not (0.0 < tolerance < 1.0 and 0.0 < last < 1.0):
        return ITERATIONS_LIMIT
    return max(1, math.ceil(done * math.log(tolerance) / math.log(last)) - done)


def _times(counts_: Triple, factor: int) -> Triple:
    x, y, z = counts_
    return x * factor, y * factor, z * factor
