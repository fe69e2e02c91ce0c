"""The solve program: right-hand sides, solves and solutions of a matrix that is set up.

A program is made on an engine and told what to do by commands, its methods. On the `resident` engine every rank makes
its own instance and runs the same commands at the same time; each returns plain numbers that are the same on every
rank. So arguments and results are small and picklable, and blocks of data go in and out by themselves.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, cast

from dsolver.distributed.nullspace import Inconsistency
from dsolver.engines.base import Engine, Field
from dsolver.engines.running_program import Blocks
from dsolver.krylov.control.control import Control
from dsolver.krylov.method import Guesser, KrylovMethod
from dsolver.program.batches.batch import Batch
from dsolver.program.loop import Loop, Slice
from dsolver.program.prepared import PreparedProgram
from dsolver.program.spec import SolveSpec
from dsolver.program.terms import Begun, Terms
from dsolver.status import Status

Guess = Literal["zero", "fmg", "x"]  # first guess: zero, what full multigrid makes of b, or the x that was loaded
FINAL: Final = (Status.CONVERGED, Status.MAX_ITERATIONS)  # ends after which no other preconditioner is tried


@dataclass(frozen=True, kw_only=True)
class Started:
    """Findings about a right-hand side, and the first time slice of its solve and of those beside it."""

    begun: Begun  # what was found before the iterations
    slices: tuple[Slice, ...] = ()
    seconds: float = 0.0  # that the slice took, by the clock of the first rank


class Solve(PreparedProgram):
    """A Krylov method on one matrix, set up once and started as often as wanted."""

    what: ClassVar[str] = "solve"
    """Name of its work, as of a `start` of `dsolver.monitor.events`."""

    def __init__(self, engine: Engine, spec: SolveSpec) -> None:
        self._loop: Loop | None = None
        self._begun: dict[int, Begun] = {}
        super().__init__(engine, spec)

    def update(self, spec: SolveSpec, reuse: bool = False, keep: bool = False) -> None:
        """Take another matrix, as of `PreparedProgram`; solves that have begun are forgotten."""
        self._loop = None
        super().update(spec, reuse, keep)

    def _begin(self, spec: SolveSpec) -> None:
        self._begun = {}
        super()._begin(spec)

    def _take_moved(self) -> None:
        if self._loop is not None:
            self._loop.take(self.columns)

    # -- solving -------------------------------------------------------------------------------------------------------

    def load_and_solve(
        self, b: Blocks, guess: Guess, column: int, width: int, lift: int, terms: Terms, seconds: float, *, host: bool
    ) -> tuple[Started, Blocks | None]:
        """`begin` with the last column, and run a first time slice of all of them, in one call.

        Returns what was found, and with a single column that is solved already `solution`, in the same call, too. With
        numbers that are not finite nothing is run: the right-hand side will be refused.

        Args:
            blocks, guess, column, width, lift: as of `begin`.
            seconds: of iterations, as of `Loop.run`.
            host: NumPy arrays are wanted of the solution.
        """
        begun = self.begin(b, guess, column, width, lift)
        if not (math.isfinite(begun.b_norm) and math.isfinite(begun.x_norm)):
            return Started(begun=begun), None
        if host and width == 1:
            self.vectors.expect_on_host()
        began = time.perf_counter()
        controls = [terms.control(self.spec, self._begun[each], self.columns.pace) for each in range(width)]
        slices = self.solve(controls, seconds)
        x = self.solution(host=host) if width == 1 and slices[0].status in FINAL else None
        return Started(begun=begun, slices=tuple(slices), seconds=time.perf_counter() - began), x

    def solve(self, controls: Sequence[Control], seconds: float) -> list[Slice]:
        """Begin solves with the b and x that are set, a control for each column, and run a time slice of `Loop.run`."""
        self._loop = Loop(self.columns, controls)
        self._loop.begin()
        return self._loop.run(seconds)

    def go_on(self, stop: bool, seconds: float, measured: bool = False) -> list[Slice]:
        """Go on with solves that have paused, or whose time was over."""
        assert self._loop is not None
        return self._loop.run(seconds, measured=measured, stop=stop)

    def resume(self, again: tuple[Sequence[int], int | None], seconds: float, measured: bool = False) -> list[Slice]:
        """Go on with solves that have ended, as with another M; again: columns, and their patience (see `Control`)."""
        assert self._loop is not None
        columns, patience = again
        self._loop.resume(columns, self.spec.traits, patience)
        return self._loop.run(seconds, measured=measured)

    # -- data ----------------------------------------------------------------------------------------------------------

    def set_b(self, blocks: Blocks, column: int = 0, width: int = 1, lift: int = 0) -> Inconsistency:
        """Set b of a column, or the source that it is made from; what no x can reach is taken from it.

        `lift`: exponent of two by which the blocks were multiplied, and what is added to them will be.
        """
        b, self.system.lift = self._column(column, width).b, lift
        self.vectors.load(blocks, self.layout, b)
        return self.prepared.sides.assemble(b)

    def set_x(self, blocks: Blocks, column: int = 0, width: int = 1) -> None:
        """Set x of a column."""
        x = self._column(column, width).x
        self.vectors.load(blocks, self.layout, x)
        self.prepared.sides.clear(x)

    def begin(self, blocks: Blocks, guess: Guess, column: int = 0, width: int = 1, lift: int = 0) -> Begun:
        """Set b and the first guess of a column, and look at them. Where b is zero, x becomes so.

        `guess`: "x" for the x that is there. `width`: number of columns that are solved together. `lift`: of `set_b`.
        """
        excess = self.set_b(blocks, column, width, lift)
        if guess != "x":
            self.guess(guess, column)
        method = self.columns.each[column].method
        known = self.prepared.sides.set_known(method.b, method.x)
        at_zero = guess == "zero" and not known
        b_norm, x_norm = self.columns.each[column].norms(alone=width == 1, at_zero=at_zero)
        if b_norm == 0.0:
            self.guess("zero", column)
        skipped = 0.0 if self.reused() == "kept" else self.prepared.skipped
        self._begun[column] = Begun(excess=excess, b_norm=b_norm, x_norm=x_norm, chosen=self.chosen(), skipped=skipped)
        return self._begun[column]

    def guess(self, guess: Guess, column: int = 0) -> None:
        """Set x of a column: "zero", or "fmg" for what full multigrid makes of b, where M is multigrid."""
        method = self.columns.each[column].method
        if guess == "zero" or not self.chosen().can.guesses:
            self.vectors.fill(self.layout, 0.0, method.x)
        else:
            cast(Guesser, self.preconditioner).guess(method.b, method.x)

    def solution(self, column: int = 0, *, host: bool = False) -> Blocks:
        """x of a column as blocks by chunk number; where it is fixed only up to a constant, the one with mean zero.

        A solve that goes on afterwards does so with the bits that it had.

        `host`: NumPy arrays are wanted, not the device's.
        """
        x = self.prepared.sides.centered(self.columns.each[column].method.iterate())
        filled = self.system.filled(x)
        return self.unloaded(x, host=host) if filled is None else self._given(self.engine.fetch(filled), host=host)

    def right_hand_side(self) -> Blocks:
        """b of the only column as blocks by chunk number."""
        return self.vectors.unload(self.method.b, self.layout)

    def fill(self, name: Literal["b", "x"], value: float) -> None:
        """Set every row of b or x of the only column to a value."""
        self.vectors.fill(self.layout, value, self.method.b if name == "b" else self.method.x)

    def b_from_x(self) -> None:
        """b = A x in the only column."""
        self.operator.multiply(self.method.x, self.method.b)

    def unloaded(self, x: Field, *, host: bool) -> Blocks:
        """A vector as blocks by chunk number; host: NumPy arrays are wanted."""
        return self._given(self.vectors.unload(x, self.layout), host=host)

    def _given(self, blocks: Blocks, *, host: bool) -> Blocks:
        """Blocks by chunk number, as NumPy arrays where these are wanted."""
        return self.engine.on_host(blocks) if host else blocks

    def _column(self, column: int, width: int) -> KrylovMethod:
        """A column of the batch of so many, which is made if it is not there, for another b or x."""
        if width not in self._widths:
            if self._widths.narrow():
                self._loop = None
                self.engine.forget()  # recordings keep what they run on
            made = Batch(self.vectors, self.layout, self.spec, width)
            self._set_up(made)
            self._widths.add(made)
        self._widths.choose(width)
        method = self.columns.each[column].method
        method.forget()
        return method
