"""Runs of CG, and of single operations, on a program, for those who watch."""

import math
import time
from collections.abc import Callable

from dsolver.benchmarks.hpcg import counts
from dsolver.benchmarks.hpcg.program import PER_STEP, Benchmark
from dsolver.benchmarks.hpcg.result import ITERATIONS_LIMIT
from dsolver.engines.running_program import RunningProgram
from dsolver.monitor.watch import Watch

SUPERSTEP = 0.5  # seconds of work between two looks at the residual
LOOP = 0.25  # seconds that an operation's own timed loop should take
MOST_STEPS = 5000
FROZEN = 1e-150
"""Scaled residual below which iterations change nothing any more: the square of a smaller one would not be a number."""
SAMPLES = 5  # iterations that are measured, after the timed sets and in none of them
SHOWN = 2.0
"""Seconds at least between two iterations that are measured for those who watch, outside of all that is timed."""
AHEAD = 8  # iterations of a run whose last one is measured, so that the device finds its work waiting

Running = RunningProgram[Benchmark]
Progress = Callable[[str, int, int], None]  # called as progress(phase, iterations done, iterations at most)


class WatchedRuns:
    """Runs of CG, and of single operations, on a program, for those who watch."""

    def __init__(self, progress: Progress, watch: Watch) -> None:
        self._progress, self._watch = progress, watch
        self._pace = 0.0  # seconds an iteration, as last seen
        self._shown_at = -math.inf

    def forget(self) -> None:
        """Know nothing of an iteration's time, as before the first one on another program."""
        self._pace = 0.0

    def cg(self, program: Running, phase: str, most: int, tolerance: float | None = None) -> list[float]:
        """‖r_k‖/‖r_0‖ of CG from x = 0 for k = 0 .. most, or less if a tolerance is given and reached.

        Runs in supersteps of about `SUPERSTEP` seconds. Steps launched past the tolerance stop to change anything only
        well below it, so that rounding cannot freeze the residual just above.
        """
        first = program.call(Benchmark.start, max(FROZEN, (tolerance or 0.0) / 2))
        residuals = [1.0]
        while len(residuals) <= most and not (tolerance is not None and residuals[-1] <= tolerance):
            missing = min(most + 1 - len(residuals), _missing(residuals, tolerance))
            self._progress(phase, len(residuals) - 1, len(residuals) - 1 + missing)
            steps = min(self._superstep(), missing)
            began = time.perf_counter()
            residuals += [norm / first for norm in program.call(Benchmark.advance, steps)]
            self._pace = (time.perf_counter() - began) / steps
            self._watch.advance(len(residuals) - 1, residuals[-1], tolerance, most, phase)
        return residuals

    def show(self, program: Running) -> None:
        """Measure an iteration for those who watch, unless one was measured just now; it is not for the result."""
        if time.monotonic() - self._shown_at < SHOWN:
            return
        program.call(Benchmark.start, FROZEN)
        steps = min(AHEAD, self._superstep())
        program.call(Benchmark.advance, steps)  # which may record it
        program.call(Benchmark.advance, steps, True)
        self._watch.show(program.spans(), 2 * steps)
        self._shown_at = time.monotonic()

    def measure(self, program: Running) -> None:
        """Measure some iterations: what ran when, and how much communication that leaves exposed."""
        program.call(Benchmark.start, FROZEN)
        done = steps = min(AHEAD, self._superstep())
        program.call(Benchmark.advance, steps)
        for sample in range(SAMPLES):
            self._progress("measured iterations", sample, SAMPLES)
            program.call(Benchmark.advance, steps, True)
            done += steps
            self._watch.record(program.spans(), done)

    def speed(self, program: Running, name: str, flops: int) -> float:
        """GF/s of one operation in a loop of its own; one step finds out how long the loop should be."""
        self._progress(f"time {name}", 0, 1)
        program.call(Benchmark.repeat, name, 1)  # an engine may record it, which is not to be timed
        steps = max(1, min(MOST_STEPS, int(LOOP / _seconds(program, name, 1))))
        return counts.raw_gflops(flops * PER_STEP[name] * steps, _seconds(program, name, steps))

    def _superstep(self) -> int:
        return max(1, int(SUPERSTEP / self._pace)) if self._pace else 1


def _seconds(program: Running, operation: str, steps: int) -> float:
    began = time.perf_counter()
    program.call(Benchmark.repeat, operation, steps)
    return time.perf_counter() - began


def _missing(residuals: list[float], tolerance: float | None) -> int:
    """Iterations still missing to a tolerance, as the convergence so far promises; many if it promises nothing."""
    done, last = len(residuals) - 1, residuals[-1]
    if tolerance is None or not (0.0 < tolerance < 1.0 and 0.0 < last < 1.0):
        return ITERATIONS_LIMIT
    return max(1, math.ceil(done * math.log(tolerance) / math.log(last)) - done)
