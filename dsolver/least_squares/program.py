"""The program for least squares, from set-up to solution: commands as of `dsolver.program.solve`."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

from dsolver.distributed.matrix import Matrix
from dsolver.distributed.nullspace import dots
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.engines.running_program import Blocks
from dsolver.kernels.contract import JACOBI, WAXPBY
from dsolver.krylov.control.supersteps import OVERSHOOT, SUPERSTEP_ITERATIONS, SUPERSTEP_SECONDS
from dsolver.least_squares import chunks
from dsolver.least_squares.cgls import ConjugateGradientLeastSquares
from dsolver.least_squares.lsmr import LeastSquaresMinimalResidual
from dsolver.least_squares.method import LeastSquaresMethod

Senders = tuple[tuple[int, ...], ...]
LEAST_SQUARES: Final[Mapping[str, Callable[..., LeastSquaresMethod]]] = {
    "lsmr": LeastSquaresMinimalResidual,
    "cgls": ConjugateGradientLeastSquares,
}
"""Methods for least squares by name."""
LIMIT: Final = 7  # SciPy's number of a solve that has made all iterations that it may


@dataclass(frozen=True, kw_only=True)
class LeastSquaresSpec:
    """Specification of a program for least squares."""

    method: str
    damp: float
    scaled: bool  # whether columns of A are divided by their norms
    columns: int
    row_senders: Senders  # the chunks whose columns of A each chunk's rows read
    column_senders: Senders  # the chunks whose rows of A each chunk's columns read


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Limits at which iterations end, as of `dsolver.lsmr`."""

    atol: float
    btol: float
    conlim: float
    maxiter: int

    @property
    def ctol(self) -> float:
        """The reciprocal of `conlim`, or 0."""
        return 1.0 / self.conlim if self.conlim > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Norms after an iteration, as the method knows them."""

    residual: float  # ‖b - A x‖; of LSMR with the damped part
    normal: float  # ‖Aᵀ(b - A x) - damp² x‖
    matrix: float
    condition: float
    x: float


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Progress in a time slice: norms after each iteration, and SciPy's number of the reason to end, or None."""

    norms: tuple[Norms, ...]
    stop: int | None


class LeastSquares:
    """A method for least squares on one matrix.

    First "rows" are loaded, and where there are several chunks "columns"; then it is set up, b is loaded, and it goes
    on to the end.
    """

    def __init__(self, engine: Engine, spec: LeastSquaresSpec) -> None:
        self._engine, self._spec = engine, spec
        self._blocks: dict[str, PerChunk] = {}
        self._done, self._stop, self._pace = 0, 0, 0.0

    def load(self, blocks: Blocks, name: str) -> None:
        """Take the `RowBlock` of each own chunk: rows of A, or as "columns" those of its transpose."""
        self._blocks[name] = self._engine.place(blocks)

    def set_up(self) -> None:
        """Store both matrices and make the vectors; the loaded rows are given back."""
        engine, spec = self._engine, self._spec
        rows = self._blocks.pop("rows")
        columns = self._blocks.pop("columns", None)
        if columns is None:
            rows = engine.per_chunk(chunks.placed, rows)
            columns = engine.per_chunk(partial(chunks.transposed_block, columns=spec.columns), rows)
        loaded = rows, columns
        self._rows, self._columns = (engine.per_chunk(chunks.rows_layout, blocks) for blocks in loaded)
        self._forward, self._backward = (
            Matrix(engine, engine.per_chunk(chunks.rectangular_chunk, blocks, written, read), senders)
            for blocks, written, read, senders in (
                (loaded[0], self._rows, self._columns, spec.row_senders),
                (loaded[1], self._columns, self._rows, spec.column_senders),
            )
        )
        layouts = self._columns, self._rows
        self._scale = engine.per_chunk(chunks.row_norms, loaded[1], *layouts) if spec.scaled else None
        operators: tuple[Any, Any] = (self._forward, self._backward)
        if self._scale is not None:
            operators = (
                chunks.ScaledMatrix(engine, self._forward, self._scale, self._columns, columns=True),
                chunks.ScaledMatrix(engine, self._backward, self._scale, self._columns, columns=False),
            )
        self.method = LEAST_SQUARES[spec.method](engine, self._rows, self._columns, *operators, spec.damp)

    def set_x(self, blocks: Blocks) -> None:
        """Set the first guess."""
        engine, x = self._engine, self.method.x
        engine.load(blocks, self._columns, x)
        if self._scale is not None:
            engine.run(JACOBI, engine.per_chunk(chunks.reciprocal, self._scale), x, 1.0, self._room)
            engine.copy(self._room, x)

    def begin(self, blocks: Blocks, ends: Ends, guessed: bool) -> tuple[float, Norms]:
        """Set b and begin; ‖b‖, and the norms at the first guess, which is zero where none was set."""
        self._engine.load(blocks, self._rows, self.method.b)
        if not guessed:
            self._engine.fill(self._columns, 0.0, self.method.x)
        self._ends = ends
        bb, rr, ss = self.method.begin(ends.atol, ends.btol, ends.ctol)
        self._done, self._stop, self._pace = 0, 0, 0.0
        norms = Norms(residual=math.sqrt(rr), normal=math.sqrt(ss), matrix=0.0, condition=1.0, x=0.0)
        return math.sqrt(bb), norms

    def go_on(self, seconds: float, measured: bool = False) -> Piece:
        """Iterations until the solve has ended or the time is over; at least one superstep."""
        found: list[Norms] = []
        while True:
            began, steps = time.perf_counter(), self._steps()
            samples = self.method.advance(steps, measured=measured and not found)
            took = self._engine.broadcast(time.perf_counter() - began)
            self._pace = took / steps
            self._done += steps
            stop = 0
            for reason, rr, ss, aa, condition, xx in samples:
                residual, normal, matrix, x = (
                    math.sqrt(square) if square >= 0.0 else math.nan for square in (rr, ss, aa, xx)
                )
                found.append(Norms(residual=residual, normal=normal, matrix=matrix, condition=condition, x=x))
                if stop := int(reason):
                    break
            if not stop and self._done >= self._ends.maxiter:
                stop = LIMIT
            seconds -= took
            if stop or seconds <= 0.0:
                return Piece(norms=tuple(found), stop=stop or None)

    def _steps(self) -> int:
        """Iterations of the next superstep: few beside those that were made, since their end cannot be foreseen."""
        most = max(1, min(self._done // OVERSHOOT, SUPERSTEP_ITERATIONS, self._ends.maxiter - self._done))
        return most if self._pace == 0.0 else max(1, min(most, int(SUPERSTEP_SECONDS / self._pace)))

    def true_norms(self) -> tuple[float, float, float]:
        """‖b - A x‖, ‖Aᵀ(b - A x) - damp² x‖ and ‖x‖, computed anew of A as it is; the solve has ended then."""
        engine, method, damp, x = self._engine, self.method, self._spec.damp, self._unscaled()
        self._forward.multiply(x, method.r)
        engine.run(WAXPBY, 1.0, method.b, -1.0, method.r, method.r)
        self._backward.multiply(method.r, method.s)
        if damp:
            engine.run(WAXPBY, 1.0, method.s, -damp * damp, method.damped(), method.s)
        squares = dots(engine, engine.partial_sums(), *((v, v) for v in (method.r, method.s, x)))
        norm, normal, size = map(math.sqrt, squares)
        return norm, normal, size

    def take_zero(self) -> tuple[float, float, float]:
        """x = 0, and its norms as of `true_norms`."""
        self._engine.fill(self._columns, 0.0, self.method.x)
        return self.true_norms()

    def solution(self, *, host: bool = False) -> Blocks:
        """x as blocks by chunk number; host: NumPy arrays are wanted."""
        blocks = self._engine.unload(self._unscaled(), self._columns)
        return self._engine.on_host(blocks) if host else blocks

    def _unscaled(self) -> Field:
        if self._scale is None:
            return self.method.x
        self._engine.run(JACOBI, self._scale, self.method.x, 1.0, self._room)
        return self._room

    @cached_property
    def _room(self) -> Field:
        return self._engine.field(self._columns)
