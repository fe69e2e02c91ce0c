"""The solve program, from set-up to solution.

A program is made on an engine and told what to do by commands, its methods. On the `resident` engine every rank makes
its own instance and runs the same commands at the same time; each returns plain numbers that are the same on every
rank. So arguments and results are small and picklable, and blocks of data go in and out by themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, cast, final

from dsolver.discretize.complex_system import ComplexSystem
from dsolver.discretize.system import System
from dsolver.distributed.matrix import Matrix
from dsolver.distributed.nullspace import Inconsistency
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.engines.running_program import Blocks
from dsolver.errors import InputError
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD, WAXPBY
from dsolver.kernels.foresight import UnforeseenError
from dsolver.kernels.formats.choice import Choice
from dsolver.krylov.control.control import Control
from dsolver.krylov.method import ApproximateInverse, Guesser, KrylovMethod
from dsolver.multigrid.level import Level
from dsolver.multigrid.reuse import KeptLevels, Outcome, Reuse, same_order
from dsolver.multigrid.summary import LevelSummary, summary_of
from dsolver.preconditioners.base import Built, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.preconditioners.chebyshev import noise
from dsolver.program.batch import Batch, Sides
from dsolver.program.loop import Loop, Slice
from dsolver.program.spec import SolveSpec
from dsolver.program.terms import Begun, Terms
from dsolver.status import Status

Guess = Literal["zero", "fmg", "x"]
"""First guess: zero, what full multigrid makes of b, or the x that was loaded."""
FIXED: Final = 1e-6
"""‖A n‖ over ‖A v‖, for a part n of a vector v, up to which A makes n zero."""
FINAL: Final = (Status.CONVERGED, Status.MAX_ITERATIONS)
"""Ends after which no other preconditioner is tried."""


@final
@dataclass(frozen=True, kw_only=True)
class Started:
    """Findings about a right-hand side, and the first time slice of its solve and of those beside it.

    Attributes:
        begun: what was found before the iterations.
        slices: of each column; none where numbers were not finite.
        seconds: that the slice took, by the clock of the first rank.
    """

    begun: Begun
    slices: tuple[Slice, ...] = ()
    seconds: float = 0.0


@final
@dataclass(frozen=True, kw_only=True)
class PreparedSystem:
    """A matrix that is set up, with its preconditioner's levels. The old one is given back before another is made.

    Attributes:
        layout: the finest level's `Layout` of every chunk.
        site: where preconditioners are made: the matrix, and the levels.
        sides: deals with right-hand sides and solutions.
        beside: matrices beside A: of an eigenvalue problem its mass matrix.
    """

    layout: PerChunk
    site: Site
    sides: Sides
    beside: tuple[PerChunk, ...]


class Solve:
    """A Krylov method on one matrix, set up once and started as often as wanted.

    Where the matrix follows from coefficients that are arrays, they are loaded first, each by its name, and then
    `set_up` is called; otherwise that has been done when the program is made or updated.
    """

    def __init__(self, engine: Engine, spec: SolveSpec) -> None:
        self._engine = engine if spec.dtype == "float64" else engine.lowered(spec.dtype)
        self._reuse: Reuse | None = None
        self._prepared: PreparedSystem | None = None
        self._widths: dict[int, Batch] = {}
        self._width = 1
        self._loop: Loop | None = None
        self._kept: KeptLevels | None = None
        self._begin(spec)

    def update(self, spec: SolveSpec, reuse: bool = False, keep: bool = False) -> None:
        """Take another matrix. What belongs to the old one is given back first; b and x are zero again.

        Args:
            spec: of the other matrix.
            reuse: whether set-up may keep what follows from the places of entries. From the first time on it leaves
                this for the next one.
            keep: whether M is to stay what it is, where that can be.
        """
        self._kept = self._to_keep(spec) if keep else None
        if reuse or self._reuse is not None:
            self._reuse = (self._reuse if reuse else None) or Reuse()
        self._engine.forget()  # recordings of kernels on the old matrix
        self._prepared, self._loop, self._widths, self._width = None, None, {}, 1
        self._begin(spec)

    def _to_keep(self, spec: SolveSpec) -> KeptLevels | None:
        """The levels, where M of another matrix may be made of them; None where it may not."""
        before, problem = self._spec, spec.problem
        alike = (spec.preconditioner, spec.lowered) == (before.preconditioner, before.lowered)
        if not alike or problem.complex or problem.asymmetry or problem.operator is not None:
            return None
        return KeptLevels.of(self.prepared.site.levels, self.layout, self.system.closed_regions)

    def precondition(self, spec: SolveSpec) -> None:
        """Take another preconditioner for the same matrix, and another method; all b and x stay.

        The old preconditioner is given back first.

        As for `update`, coefficients that are arrays are loaded again.
        """
        self._reuse = self._kept = None
        self._release()  # A is built anew, too: never two of them
        if (spec.method, spec.restart, spec.most) != (self._spec.method, self._spec.restart, self._spec.most):
            if not spec.traits.batched:
                self._widths, self._width = {1: self._widths[1]}, 1
            for columns in self._widths.values():
                columns.take_method(spec)
        self._begin(spec)

    def _release(self) -> None:
        """Give the matrix and the preconditioner back; vectors stay."""
        self._engine.forget()
        for columns in self._widths.values():
            columns.release()
        self._prepared = None

    def _begin(self, spec: SolveSpec) -> None:
        self._spec = spec
        self._begun: dict[int, Begun] = {}
        self._has_kept = False
        self._vectors = ComplexEngine(self._engine) if spec.problem.complex else self._engine
        self.system = System(self._engine, spec.problem, spec.partition)
        if not spec.problem.loaded:
            self.set_up()

    def take_values(self, spec: SolveSpec) -> None:
        """Take other values of boundary conditions and held cells, for right-hand sides that come from now on.

        Nothing is set up anew. If those of held cells are an array, that is loaded as other coefficients are, and then
        `hold` is called.
        """
        self._spec = spec
        self.system.take_values(spec.problem)
        if not self.system.awaits_values:
            self.hold()

    def hold(self) -> None:
        """As of `System`."""
        self.system.hold()

    def set_up(self) -> None:
        """Build the matrix and its levels from the coefficients.

        Raises:
            InputError: a coefficient makes no sense.
        """
        self.system.prepare()
        kept = bool(self._widths)
        if not self._made(kept=kept):
            self._made(kept=kept)
        self._kept = None  # the site has them
        self.system.settle(self.layout)
        if self._spec.problem.operator is not None:
            self._check_null_space()

    def _check_null_space(self) -> None:
        """Refuse a function for A that does not make zero what the matrix for M makes zero.

        Right-hand sides and solutions have nothing of that.

        Raises:
            InputError: it does not.
        """
        engine, method, sizes = self._vectors, self.method, []
        v, av = method.work
        engine.run(LOAD, self.layout, engine.per_chunk(partial(noise, engine.partition)), v)
        for _ in range(2):  # of a rough vector, and of its part in the null space
            method.operator.multiply(v, av)
            square = engine.scalar(0.0)
            engine.dot(av, av, engine.partial_sums(), square)
            sizes.append(math.sqrt(*engine.read(square)))
            engine.run(WAXPBY, 1.0, v, -1.0, self.prepared.sides.centered(v), v)
        if sizes[1] > FIXED * sizes[0]:
            raise InputError(
                "M_from is singular, and A is not: b and x would lose what M_from makes zero. Add something to the "
                "diagonal of M_from"
            )

    def await_levels(self) -> None:
        """Wait until the owners have made what the preconditioner keeps, or have refused it: tasks tell that late."""
        for level in self.prepared.site.levels:
            if isinstance(level, PerChunk):
                self._engine.fetch(self._engine.per_chunk(_is_made, level))

    def _made(self, *, kept: bool) -> bool:
        """Make the matrix and the levels, and the vectors unless these are kept; whether what was foreseen is so.

        If not, nothing is left of what was made.
        """
        try:
            with self._engine.confirming() as is_open:
                self._make(kept=kept)
                if is_open():  # the device is behind: recording costs nothing
                    self._widths[1].record()
        except UnforeseenError:
            pass  # what only its frames hold goes with it
        else:
            return True
        self._release()
        if not kept:
            self._widths = {}
        return False

    def _make(self, *, kept: bool) -> None:
        spec, engine = self._spec, self._engine

        def make_room(chunks: PerChunk) -> None:
            if not kept:
                self._widths = {1: Batch(self._vectors, chunks.at("layout"), spec)}

        chunks, levels = self._built(spec.builder(engine, self.system, self._reuse, make_room))
        layout: PerChunk = chunks.at("layout")
        if not self._widths:
            make_room(chunks)
        elif kept and not same_order(engine, layout, self._widths[1].layout):  # as another M stores its rows
            self._lay_out_anew(layout)
        sides: Sides = self.system
        if isinstance(self._vectors, ComplexEngine):
            sides = ComplexSystem(self.system, self._vectors, layout)
        parts, whole = self.system.parts(), spec.problem.complex
        site = Site(
            engine=engine,
            chunks=chunks,
            given=self.system.given_matrix(),
            parts=parts if whole else (),
            levels=levels,
            matrix=Matrix(engine, chunks, spec.problem.senders),
            symmetric=not spec.problem.asymmetry,
            method=self.method,
        )
        self._prepared = PreparedSystem(layout=layout, site=site, sides=sides, beside=() if whole else parts)
        for columns in self._widths.values():  # the first are those of one
            self._set_up(columns)

    def _lay_out_anew(self, layout: PerChunk) -> None:
        """Bring all b and x to the layout of another matrix."""
        self._widths = {width: columns.laid_out(layout, self._spec) for width, columns in self._widths.items()}
        if self._loop is not None:
            self._loop.take(self.columns)

    def _built(self, builder: Builder) -> Built:
        """A and the levels; what was kept for a preconditioner that has no use for it is given back."""
        self._has_kept = False
        if self._kept is not None:
            a = self._spec.preconditioner.matrix(builder, self._kept.levels)
            if a is not None and self._kept.serve(self._engine, a.at("layout"), self.system.closed_regions):
                self._has_kept = True
                return a, self._kept.levels
            self._kept = a = None  # before others are made
        reuse = builder.reuse
        if reuse is None:
            return self._spec.preconditioner.build(builder)
        reuse.outcome = "none"
        made = self._spec.preconditioner.build(builder)
        if reuse.outcome == "none":
            reuse.kept = None
        return made

    def _set_up(self, columns: Batch) -> None:
        made = self.prepared
        site = made.site if columns.width == 1 else replace(made.site, single=self.preconditioner)
        columns.set_up(made.sides, site, self._spec)

    # -- solving -------------------------------------------------------------------------------------------------------

    def load_and_solve(
        self,
        blocks: Blocks,
        guess: Guess,
        column: int,
        width: int,
        terms: Terms,
        seconds: float,
        *,
        host: bool,
    ) -> tuple[Started, Blocks | None]:
        """`begin` with the last column, and run a first time slice of all of them, in one call.

        Returns what was found, and with a single column that is solved already `solution`, in the same call, too. With
        numbers that are not finite nothing is run: the right-hand side will be refused.

        Args:
            blocks: of b, as the other arguments up to `width` as of `begin`.
            guess: as of `begin`.
            column: as of `begin`.
            width: as of `begin`.
            terms: on which solves end.
            seconds: of iterations, as of `Loop.run`.
            host: NumPy arrays are wanted of the solution.
        """
        begun = self.begin(blocks, guess, column, width)
        if not (math.isfinite(begun.b_norm) and math.isfinite(begun.x_norm)):
            return Started(begun=begun), None
        if host and width == 1:
            self._vectors.expect_on_host()
        began = time.perf_counter()
        controls = [terms.control(self._spec, self._begun[each], self.columns.pace) for each in range(width)]
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
        """Go on with solves that have ended, as after a change of the preconditioner or the method.

        again: their columns, and the patience with which they go on; see `Control`.
        """
        assert self._loop is not None
        columns, patience = again
        self._loop.resume(columns, self._spec.traits, patience)
        return self._loop.run(seconds, measured=measured)

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def prepared(self) -> PreparedSystem:
        """The matrix and its levels, which are set up."""
        assert self._prepared is not None
        return self._prepared

    @property
    def layout(self) -> PerChunk:
        """Its finest level's `Layout` of every chunk."""
        return self.prepared.layout

    @property
    def operator(self) -> Matrix:
        """A."""
        return self.prepared.site.matrix

    @property
    def columns(self) -> Batch:
        """Right-hand sides that are solved together, or were."""
        return self._widths[self._width]

    @property
    def method(self) -> KrylovMethod:
        """The method for one right-hand side."""
        return self._widths[1].method

    @property
    def preconditioner(self) -> ApproximateInverse | None:
        """M for one right-hand side."""
        return self.method.preconditioner

    def closed_regions(self) -> int:
        """Number of regions that have a constant of their own, which nothing fixes; the whole grid may be one."""
        return self.system.closed_regions

    def reused(self) -> Outcome:
        """Outcome of the set-up, where it was to use the one before."""
        if self._has_kept:
            return "kept"
        return "none" if self._reuse is None else self._reuse.outcome

    def chosen(self) -> Preconditioner:
        """The preconditioner, or what it has chosen to be."""
        return self._spec.preconditioner.chosen(self.prepared.site.levels)

    def hierarchy(self) -> tuple[LevelSummary, ...]:
        """The preconditioner's levels in numbers, finest first; empty where it is no multigrid, or the benchmark's."""
        levels = self.prepared.site.levels
        if not all(isinstance(level, Level) for level in levels):
            return ()
        values = self._spec.precond_dtype if self._spec.lowered else self._spec.dtype
        return tuple(replace(summary_of(level), values=values) for level in levels)

    def formats(self) -> Blocks:
        """In which format each chunk's rows of a general matrix are stored, and why, by chunk number."""
        return self._engine.fetch(self._engine.per_chunk(_format, self.prepared.site.chunks.at("local", "choice")))

    # -- data ----------------------------------------------------------------------------------------------------------

    def load_coefficient(self, blocks: Blocks, name: str) -> None:
        """Set a coefficient that the matrix is made from."""
        self.system.load(name, blocks)

    def set_b(self, blocks: Blocks, column: int = 0, width: int = 1) -> Inconsistency:
        """Set b of a column, or the source that it is made from; what no x can reach is taken from it."""
        b = self._column(column, width).b
        self._vectors.load(blocks, self.layout, b)
        return self.prepared.sides.assemble(b)

    def set_x(self, blocks: Blocks, column: int = 0, width: int = 1) -> None:
        """Set x of a column."""
        x = self._column(column, width).x
        self._vectors.load(blocks, self.layout, x)
        self.prepared.sides.clear(x)

    def begin(self, blocks: Blocks, guess: Guess, column: int = 0, width: int = 1) -> Begun:
        """Set b and the first guess of a column, and look at them. Where b is zero, x becomes so.

        Args:
            blocks: of b.
            guess: "x" for the x that is there.
            column: which.
            width: number of columns that are solved together.
        """
        excess = self.set_b(blocks, column, width)
        if guess != "x":
            self.guess(guess, column)
        method = self.columns.each[column].method
        known = self.prepared.sides.set_known(method.b, method.x)
        at_zero = guess == "zero" and not known
        b_norm, x_norm = self.columns.each[column].norms(alone=width == 1, at_zero=at_zero)
        if b_norm == 0.0:
            self.guess("zero", column)
        self._begun[column] = Begun(excess=excess, b_norm=b_norm, x_norm=x_norm, chosen=self.chosen())
        return self._begun[column]

    def guess(self, guess: Guess, column: int = 0) -> None:
        """Set x of a column: "zero", or "fmg" for what full multigrid makes of b, where M is multigrid."""
        method = self.columns.each[column].method
        if guess == "zero" or not self.chosen().can.guesses:
            self._vectors.fill(self.layout, 0.0, method.x)
        else:
            cast(Guesser, self.preconditioner).guess(method.b, method.x)

    def solution(self, column: int = 0, *, host: bool = False) -> Blocks:
        """x of a column as blocks by chunk number; where it is fixed only up to a constant, the one with mean zero.

        A solve that goes on afterwards does so with the bits that it had.

        Args:
            column: which.
            host: NumPy arrays are wanted, not the device's.
        """
        x = self.prepared.sides.centered(self.columns.each[column].method.iterate())
        filled = self.system.filled(x)
        return self._unloaded(x, host=host) if filled is None else self._given(self._engine.fetch(filled), host=host)

    def precondition_vector(self, blocks: Blocks) -> None:
        """x = M b in the only column, where b becomes the given vector."""
        method = self.method
        self._vectors.load(blocks, self.layout, method.b)
        self.prepared.sides.turn(method.b)
        method.precondition(method.b, method.x)

    def multiply_vector(self, blocks: Blocks) -> None:
        """b = A x in the only column, where x becomes the given vector; of the matrix that was given."""
        method = self.method
        self._vectors.load(blocks, self.layout, method.x)
        self.prepared.sides.clear(method.x)
        (method.given or method.operator).multiply(method.x, method.b)
        self.prepared.sides.turn(method.b)

    def product(self, *, host: bool = False) -> Blocks:
        """The result of `multiply_vector` as blocks by chunk number; host: NumPy arrays are wanted."""
        return self._unloaded(self.method.b, host=host)

    def residual(self, *, host: bool = False) -> Blocks:
        """b - A x of the only column, whose b and x are set, as blocks by chunk number; host: the same."""
        self.method.residual()
        self.prepared.sides.turn(self.method.r)
        return self._unloaded(self.method.r, host=host)

    def preconditioned(self, *, host: bool = False) -> Blocks:
        """The result of `precondition_vector` as blocks by chunk number; host: NumPy arrays are wanted."""
        return self._unloaded(self.method.x, host=host)

    def right_hand_side(self) -> Blocks:
        """b of the only column as blocks by chunk number."""
        return self._vectors.unload(self.method.b, self.layout)

    def fill(self, name: Literal["b", "x"], value: float) -> None:
        """Set every row of b or x of the only column to a value."""
        self._vectors.fill(self.layout, value, self.method.b if name == "b" else self.method.x)

    def b_from_x(self) -> None:
        """b = A x in the only column."""
        self.operator.multiply(self.method.x, self.method.b)

    def _unloaded(self, x: Field, *, host: bool) -> Blocks:
        return self._given(self._vectors.unload(x, self.layout), host=host)

    def _given(self, blocks: Blocks, *, host: bool) -> Blocks:
        """Blocks by chunk number, as NumPy arrays where these are wanted."""
        return self._engine.on_host(blocks) if host else blocks

    def _column(self, column: int, width: int) -> KrylovMethod:
        """A column of the batch of so many, which is made if it is not there."""
        if width not in self._widths:
            if len(self._widths) > 1:  # of another width than one there is room for one number
                self._widths, self._width, self._loop = {1: self._widths[1]}, 1, None
                self._engine.forget()  # recordings keep what they run on
            made = Batch(self._vectors, self.layout, self._spec, width)
            self._set_up(made)
            self._widths[width] = made
        self._width = width
        return self.columns.each[column].method


def _format(_: Backend, __: int, choice: Choice) -> str:
    return str(choice)


def _is_made(_: Backend, __: int, ___: object) -> bool:
    return True
