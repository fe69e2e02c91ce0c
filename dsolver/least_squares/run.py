"""Solves of least squares with one matrix, on workers of which any may be lost."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from dsolver.cluster.crew import ATTEMPTS
from dsolver.cluster.gpu_claims import claim, release
from dsolver.cluster.losses import on_workers_left
from dsolver.cluster.runtime import Runtime
from dsolver.cost.traffic import place
from dsolver.dask_types import Client
from dsolver.discretize.lifting import OutOfRangeError, exponent_for, lowered, times
from dsolver.engines.dask.blocks import gather_blocks
from dsolver.engines.out_of_memory import clear_frames
from dsolver.engines.running_program import RunningProgram
from dsolver.errors import ClusterError, InputError
from dsolver.least_squares.matrix import CutRectangular
from dsolver.least_squares.options import LeastSquaresOptions, Tolerances
from dsolver.least_squares.program import Ends, LeastSquares, LeastSquaresSpec, Norms, Piece
from dsolver.least_squares.solution import LeastSquaresSolution
from dsolver.monitor.events import SolveEvents
from dsolver.monitor.watch import Watch, open_page
from dsolver.session.user_arrays import alike, vector_of
from dsolver.status import Status

ENDS: Final = {
    0: Status.CONVERGED,
    1: Status.CONVERGED,
    2: Status.CONVERGED,
    3: Status.ILL_CONDITIONED,
    4: Status.CONVERGED,
    5: Status.CONVERGED,
    6: Status.ILL_CONDITIONED,
    7: Status.MAX_ITERATIONS,
    8: Status.NOT_FINITE,
}
"""Status by SciPy's number of a reason."""
AT_MOST: Final = (
    'The tolerances were not reached: raise maxiter, loosen atol and btol, use scale="columns" where columns have '
    "different norms, or damp=. x is the best iterate: pass it as x0 to go on."
)

ZERO: Final = "x is zero: nothing better was found"


def _in_units(found: LeastSquaresSolution, of_a: int, of_b: int, *, here: bool) -> LeastSquaresSolution:
    """A solution for A and b that were multiplied by powers of two, for those given. InputError: x has no numbers."""
    if of_a == of_b == 0:
        return found
    return replace(
        found,
        x=lowered(found.x, of_a - of_b, here=here),
        residuals=tuple(times(norm, -of_b) for norm in found.residuals),
        normal_residuals=tuple(times(norm, -of_a - of_b) for norm in found.normal_residuals),
        true_residual=times(found.true_residual, -of_b),
        true_normal_residual=times(found.true_normal_residual, -of_a - of_b),
        b_norm=times(found.b_norm, -of_b),
        matrix_norm=times(found.matrix_norm, -of_a),
        x_norm=times(found.x_norm, of_a - of_b),
    )


class _Column:
    """A right-hand side and its first guess, or None, in chunks."""

    def __init__(self, cut: CutRectangular, b: Any, x0: Any, client: Client | None) -> None:
        self.b, self.back = vector_of("b", b, cut.row_partition, client)
        self.b.check()
        self.x0 = None if x0 is None else vector_of("x0", x0, cut.column_partition, client)[0]
        if self.x0 is not None:
            self.x0.check()
        self.x = alike("x", b, cut.column_partition, client)


class LeastSquaresRun:
    """Solves with one matrix, one after the other. Where a worker is lost, the one that runs begins anew."""

    def __init__(
        self,
        method: str,
        cut: CutRectangular,
        pairs: Sequence[tuple[Any, Any]],
        tolerances: Tolerances,
        options: LeastSquaresOptions,
        runtime: Runtime,
        began: float,
        of_a: int,
    ) -> None:
        self._cut, self._runtime, self._began, self._of_a = cut, runtime, began, of_a
        (rows, columns) = cut.row_partition.grid[0], cut.column_partition.grid[0]
        most = min(rows, columns) if tolerances.maxiter is None else int(tolerances.maxiter)
        self._ends = Ends(atol=tolerances.atol, btol=tolerances.btol, conlim=tolerances.conlim, maxiter=most)
        row_senders, column_senders = cut.senders
        self._spec = LeastSquaresSpec(
            method=method,
            damp=float(tolerances.damp),
            scaled=options.scale is not None,
            columns=columns,
            row_senders=row_senders,
            column_senders=column_senders,
        )
        self._pairs = pairs
        self._columns = [self._column(number, 0) for number in range(len(pairs))]  # each looked at before the first
        self._found: list[LeastSquaresSolution] = []

    def _column(self, number: int, of_b: int) -> _Column:
        """A right-hand side, and its guess, multiplied by a power of two."""
        b, x0 = self._pairs[number]
        guess = None if x0 is None else times(x0, of_b - self._of_a)
        return _Column(self._cut, times(b, of_b), guess, self._runtime.client)

    def solutions(self) -> list[LeastSquaresSolution]:
        """The solutions, on the workers that are left where some are lost."""
        open_page(self._runtime.client)
        for attempt in range(ATTEMPTS + 1):
            if self._runtime.client is not None:
                claim(self, self._runtime)
            try:
                return self._attempt()
            except ClusterError as error:
                if attempt == ATTEMPTS:
                    raise
                self._runtime = on_workers_left(self._runtime, error)
                clear_frames(error)
            finally:
                release(self)
        raise AssertionError

    def _attempt(self) -> list[LeastSquaresSolution]:
        """Set up, and solve for what is left; all solutions."""
        with self._runtime.launch(LeastSquares, self._spec, self._cut.column_partition) as program:
            host = self._runtime.client is not None or self._runtime.device != "cuda"
            for name, blocks in self._cut.blocks(host=host).items():
                program.bring(name, blocks, LeastSquares.load, name)
            program.call(LeastSquares.set_up)
            setup = time.perf_counter() - self._began
            while (number := len(self._found)) < len(self._columns):
                self._found.append(self._watched(program, number, setup))
                self._began, setup = time.perf_counter(), 0.0
            return self._found

    def _watched(self, program: RunningProgram[LeastSquares], number: int, setup: float) -> LeastSquaresSolution:
        """The solution for one right-hand side, of which those who watch are told; in a unit of b that has its norm."""
        client, cut = self._runtime.client, self._cut
        events, rows = SolveEvents(client), cut.row_partition.grid[0]
        about = place(self._runtime, cut.column_partition)
        events.start(what="least squares", problem=f"{rows} equations", **about)
        given, of_b = self._columns[number], 0
        with Watch(client, None, events) as watch:
            try:
                found = self._solved(program, given, setup, watch)
            except OutOfRangeError as error:
                of_b = error.exponent
                given = self._column(number, of_b)
                found = self._solved(program, given, setup, watch)
            found = _in_units(found, self._of_a, of_b, here=given.x.here)
            watch.end(str(found.status), found.iterations, found.true_residual)
        events.flush()
        return found

    def _solved(
        self, program: RunningProgram[LeastSquares], given: _Column, setup: float, watch: Watch
    ) -> LeastSquaresSolution:
        """The solution for one right-hand side."""
        if given.x0 is not None:
            program.bring("x0", given.x0.blocks(), LeastSquares.set_x)
        b_norm, first = program.load("b", given.b.blocks(), LeastSquares.begin, self._ends, given.x0 is not None)
        self._check(given, b_norm, first)
        norms, stop = self._followed(program, b_norm, first, watch)
        notes: tuple[str, ...] = ()
        true = program.call(LeastSquares.true_norms)
        if not true[0] <= b_norm and not (self._spec.damp and given.x0 is not None):
            true, notes = program.call(LeastSquares.take_zero), (ZERO,)
        take = program.fetch if given.x.here else program.unload
        found: Any = take(LeastSquares.solution, host=given.x.host)
        if given.x.here:
            found = gather_blocks(self._runtime.client, found, self._runtime.workers)
        ended = time.perf_counter() - self._began
        status = ENDS[stop]
        chunks = len(self._cut.column_partition)
        return LeastSquaresSolution(
            x=given.back(given.x.like(found).reshape(self._cut.column_partition.grid[0])),
            status=status,
            istop=stop,
            advice=AT_MOST if status is Status.MAX_ITERATIONS else status.advice,
            iterations=len(norms) - 1,
            residuals=tuple(norm.residual for norm in norms),
            normal_residuals=tuple(norm.normal for norm in norms),
            true_residual=true[0],
            true_normal_residual=true[1],
            b_norm=b_norm,
            matrix_norm=norms[-1].matrix,
            condition=norms[-1].condition,
            x_norm=true[2],
            timings={"setup": setup, "solve": ended - setup, "total": ended},
            engine=self._runtime.describe(chunks, program.link),
            notes=notes,
        )

    def _check(self, column: _Column, b_norm: float, first: Norms) -> None:
        """Refuse values that are not finite, and norms that are out of range."""
        lost = "b is so small, or so large, that its norm has lost its digits"
        if not (math.isfinite(b_norm) and math.isfinite(first.residual)):
            for given in (column.b, column.x0):
                if given is not None:
                    given.examine()
            if math.isinf(b_norm):
                raise OutOfRangeError(lost, exponent_for(b_norm))
            raise InputError("b or x0 has values that are NaN, infinite or too large")
        if b_norm == 0.0 and not column.b.is_zero():
            raise OutOfRangeError(lost, exponent_for(b_norm))
        if b_norm and (exponent := exponent_for(b_norm)):
            raise OutOfRangeError(lost, exponent)

    def _followed(
        self, program: RunningProgram[LeastSquares], b_norm: float, first: Norms, watch: Watch
    ) -> tuple[list[Norms], int]:
        """Norms of all iterations, and the reason of the end."""
        norms = [first]
        if b_norm == 0.0:
            program.call(LeastSquares.take_zero)
        if first.normal == 0.0 or b_norm == 0.0:
            return norms, 0
        if self._ends.maxiter == 0:
            return norms, 7
        stop: int | None = None
        while stop is None:
            measured = watch.measures
            piece: Piece = program.call(LeastSquares.go_on, 0.0 if measured else program.stride, measured)
            norms += piece.norms
            stop = piece.stop
            watch.advance(len(norms) - 1, norms[-1].residual, None, self._ends.maxiter, self._spec.method.upper())
            if measured:
                watch.record(program.spans(), len(norms) - 1)
        return norms, stop
