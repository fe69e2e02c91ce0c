"""A system that is set up: its program, kept on whatever devices there are, and started again when workers are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, TypeVar, final

from dsolver.cluster.crew import ATTEMPTS
from dsolver.cluster.gpu_lock import claim, release
from dsolver.cluster.runtime import connect
from dsolver.cluster.sent_rows import SentMatrix
from dsolver.cost.estimate import check_memory
from dsolver.cost.traffic import description, of_iteration
from dsolver.engines.dask.blocks import gather_blocks
from dsolver.engines.out_of_memory import clear_frames
from dsolver.engines.running_program import Blocks, RunningProgram
from dsolver.errors import ClusterError, DeviceMemoryError, DsolverError, InputError
from dsolver.grid.cut import owners_of
from dsolver.grid.partition import Partition
from dsolver.krylov.methods import FOR_FACTORS
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.row_block import ChunkRows
from dsolver.monitor.events import SolveEvents
from dsolver.monitor.watch import open_page
from dsolver.multigrid.reuse import Outcome
from dsolver.multigrid.summary import Hierarchy
from dsolver.preconditioners import Direct, Preconditioner
from dsolver.preconditioners.auto import Alternative, alternative_to, for_broken, for_indefinite, or_factors
from dsolver.preconditioners.direct import may_be_for_least_squares, may_be_last
from dsolver.preconditioners.registry import AUTO, value_type
from dsolver.problems import Problem
from dsolver.problems.finite_volumes import HELD
from dsolver.problems.functions import UserFunction
from dsolver.problems.problem import check_problem
from dsolver.program.lifting import times
from dsolver.program.solve import Guess, Solve, Started
from dsolver.program.spec import SolveSpec, bases, method_for
from dsolver.program.terms import Begun, Terms
from dsolver.session.arguments import FirstGuess, check_sendable, client_of
from dsolver.session.options import Setup
from dsolver.session.recovery import on_workers_left
from dsolver.session.user_arrays import Container, container_of, is_complex

T = TypeVar("T")
REUSED: Final[Mapping[Outcome, str]] = {
    "used": "M has the interpolation of an earlier matrix: update(reuse='interpolation') has kept it",
    "first": "M was set up anew: the next update(reuse='interpolation') keeps its interpolation",
    "pattern": "M was set up anew, as A has entries in other places, or is stored in another order: the next "
    "update(reuse='interpolation') keeps its interpolation",
    "none": "M was set up anew: it has no interpolation that update(reuse='interpolation') could keep; M='amg' has",
}
"""Notes on what an update has used of the set-up before."""

TAKEN: Final = (
    "no client= was given, and a client is open: its cluster was taken, {}; client=False is for this process alone"
)
"""Note on a cluster that was not named."""

GATHERED: Final = (
    "{name} is a function of whole arrays: each vector is gathered on one worker for it. A function by chunk, as "
    "dsolver.by_chunk makes, is called where the chunks are"
)
"""Note on a function that a cluster has no use for."""


@final
class Session:
    """A system, set up for any number of solves. Close it, or use it in a ``with`` statement.

    Args:
        problem: the system.
        setup: where and how; its M may be a `Preconditioner` already.
        program: the kind of program that is set up.

    Attributes:
        setup: as given.
        first: M as it was asked for.
        restart: vectors of a basis, likewise; None for as many as it takes.
        preconditioner: M, of the set-up: the first one, or what a slow solve has put in its place.
        runtime: where the program runs. After a loss, without the workers that are lost.
        spec: of the program.
        given: the problem with its arrays, should the levels have to be made again.
        columns: for how many right-hand sides at once the program holds room; 0 before it was asked for any.
        solving: the right-hand side of the solve that is running, or None.
        took: seconds that the set-up took; 0 once a solve has begun, which has accounted for it.
        lift: exponent of two by which right-hand sides were multiplied before they came.
        lost: seconds that this solve has spent on attempts that ended with a worker, and on setting up anew.
        events: of the newest solve, which reach the cluster before the session has ended; no solve waits for them.

    Raises:
        InputError: an argument cannot be right. Nothing was started.
        DeviceError: "cuda" was asked for where there is none, or (`DeviceMemoryError`) a GPU's memory will not suffice.
        ClusterError: the cluster cannot be reached, or its GPUs are held by a Solver that this thread has left open.
    """

    def __init__(self, problem: Problem, setup: Setup, program: type[Solve] = Solve) -> None:
        began = time.perf_counter()
        self._kind = program
        self._program: RunningProgram[Solve] | None = None
        check_problem(problem)
        method_for(problem, setup.method)
        if setup.dtype != "float64" and (problem.complex or problem.operator is not None):
            what = "is complex" if problem.complex else "is a function"
            raise InputError(f"A {what}, and dtype={setup.dtype!r} is for real matrices and grids: leave it out")
        self.setup = setup
        self._method, self.restart = setup.method, setup.restart
        gathers = problem.operator is not None and problem.operator.halo is None
        everywhere = setup.preconditioner(problem).can.everywhere
        client = client_of(setup, everywhere=everywhere and not gathers)
        scheduler: Any = client.scheduler if client and setup.client is None else None
        self._taken = (TAKEN.format(scheduler.address),) if scheduler else ()
        self.runtime = connect(client, engine=setup.engine, device=setup.device, kernels=setup.kernels)
        self.first = self.preconditioner = setup.preconditioner(problem, self.runtime.device)
        self._factored: tuple[str, ...] = ()
        self._refused: tuple[str, ...] = ()
        self._auto = isinstance(setup.M, str) and setup.M == AUTO
        if self.runtime.client is not None:
            check_sendable(self.preconditioner, problem)
        self._order = setup.order
        self._asked: str = self.preconditioner.precision or setup.precond_dtype
        self.solving: Container | None = None
        self._lock = threading.Lock()
        self._user: int | None = None
        self._closing = False
        self._losses, self.columns, self.lost, self.lift = 0, 0, 0.0, 0
        self.events: SolveEvents | None = None
        self._counted: tuple[SolveSpec, int] | None = None
        self._set_up_events: SolveEvents | None = None
        try:
            self.given = self._first_cut(problem)
            self.spec = self._planned(self.given)
            self._launch(first=True)
        except BaseException as error:
            release(self)
            self._end_set_up("failed", f"{type(error).__name__}: {error}")
            raise
        self.took = time.perf_counter() - began

    def _tell_of_set_up(self) -> None:
        """Tell a cluster of the start of the first solve, which begins with the set-up."""
        client = self.runtime.client
        if client is not None and self._set_up_events is None:
            open_page(client)
            self._set_up_events = SolveEvents(client)
            self._set_up_events.start(what="solve", **self.about)

    def _end_set_up(self, status: str, error: str | None = None) -> None:
        """Tell of the end of a set-up with which nothing was solved."""
        if self._set_up_events is not None:
            self._set_up_events.end(status, 0, None, error)
            self._set_up_events.flush()
            self._set_up_events = None

    def begun_events(self) -> SolveEvents:
        """Events of the next solve, whose start is told."""
        if self._set_up_events is not None:
            self.events, self._set_up_events = self._set_up_events, None
        else:
            self.events = SolveEvents(self.runtime.client)
            self.events.start(what="solve", **self.about)
        return self.events

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The system that is set up."""
        return self.spec.problem

    @property
    def partition(self) -> Partition:
        """Its finest level's chunks."""
        return self.spec.partition

    @property
    def program(self) -> RunningProgram[Solve]:
        """The program, which is running.

        Raises:
            InputError: the session is closed.
        """
        if self._program is None:
            raise InputError("this Solver is closed: open a new one")
        return self._program

    @property
    def closed(self) -> bool:
        """Whether it was closed, or is being closed."""
        return self._closing or self._program is None

    @property
    def closed_regions(self) -> int:
        """Number of regions that have a constant of their own, which nothing fixes; the whole grid may be one.

        Raises:
            InputError: the session is closed, or in use.
        """
        return self._used(lambda: 0 if self.problem.singular is False else self.program.call(Solve.closed_regions))

    def alternative_to(self, chosen: Preconditioner) -> Alternative | None:
        """Preconditioner for solves that are slow with what "auto" has chosen by looking at the rows; None for none."""
        other = alternative_to(chosen, self.problem, self.spec.method) if self.replaceable else None
        return or_factors(other, self.given, self.runtime.device) if other and self._method is None else other

    def for_indefinite(self, chosen: Preconditioner) -> Alternative | None:
        """Method and preconditioner for a matrix that was found to be indefinite; None where one was asked for."""
        free = self._auto and self._method is None
        return for_indefinite(chosen, self.problem, self.spec.method) if free else None

    def for_broken(self, chosen: Preconditioner) -> Alternative | None:
        """Method for a solve whose own cannot go on; None where one was asked for, or there is none."""
        return for_broken(chosen, self.spec.method) if self._method is None else None

    def take_factors(self, why: str) -> bool:
        """Take factors of the whole matrix for M from now on, where "auto" may and there is room; whether it does.

        Args:
            why: for notes of the solves that follow.
        """
        with self.in_use():
            done = isinstance(self.preconditioner, Direct) and self.spec.method == FOR_FACTORS
            free = self._auto and self._method is None and not done and self.given.operator is None
            if not free or not may_be_last(self.given) or self.shortage(m=Direct(), method=FOR_FACTORS):
                return False
            try:
                self.precondition(m=Direct(), method=FOR_FACTORS)
            except DsolverError:  # no library where they would be made, or memory: the program is started anew
                return False
        self._factored = (why,)
        return True

    def take_least_squares(self) -> bool:
        """Take factors for least squares from now on, where M has others and there is room; whether M has them."""
        with self.in_use():
            m = self.preconditioner
            if not isinstance(m, Direct) or self.spec.traits.symmetric:
                return False
            other = replace(m, least_squares=True)
            if m.least_squares or not may_be_for_least_squares(self.given) or self.shortage(m=other):
                return m.least_squares
            try:
                self.precondition(m=other)
            except DsolverError:
                return False
        return True

    @property
    def replaceable(self) -> bool:
        """Whether another preconditioner may take the place of the one that "auto" has chosen."""
        return self._auto and self.preconditioner is self.first and not self._refused

    def keep_first(self, why: str) -> None:
        """Keep the first preconditioner for this matrix, however slow it is, as another one was refused.

        Args:
            why: for notes of the solves that follow.
        """
        self._refused = (why,)

    @property
    def chosen(self) -> Preconditioner:
        """M, and of "auto" what was chosen.

        Raises:
            InputError: the session is closed, or in use.
        """
        return self._used(lambda: self.program.call(Solve.chosen))

    @property
    def hierarchy(self) -> Hierarchy:
        """The levels of multigrid in numbers.

        Raises:
            InputError: M has none, or the session is closed or in use.
        """
        levels, chosen = self._used(lambda: (self.program.call(Solve.hierarchy), self.program.call(Solve.chosen)))
        if not levels:
            raise InputError(f"M={chosen.asked} has no levels to show: M='mg' and M='amg' have")
        return Hierarchy(levels=levels)

    @property
    def formats(self) -> tuple[str, ...]:
        """In which format each chunk's rows of a general matrix are stored, and why; empty for grids.

        Raises:
            InputError: the session is closed, or in use.
        """
        if self.problem.lattice:
            return ()
        found = self._used(self._formats)
        return tuple(found[number] for number in sorted(found))

    def _formats(self) -> Mapping[int, str]:
        blocks = self.program.unload(Solve.formats)
        return gather_blocks(self.runtime.client, blocks, self.runtime.workers)

    @property
    def about(self) -> dict[str, Any]:
        """For a feed of events: the problem, where it is solved, and what an iteration moves."""
        return {"problem": self.problem.name, **description(self.runtime, self.spec, self._iteration_bytes)}

    def _iteration_bytes(self, spec: SolveSpec) -> int:
        """Bytes of an iteration: to count them takes a millisecond, once for a matrix."""
        if self._counted is None or self._counted[0] is not spec:
            self._counted = spec, of_iteration(spec)
        return self._counted[1]

    @property
    def lowered_unasked(self) -> bool:
        """Whether M is in a smaller value type because nobody has said which it is to be in."""
        return self.spec.lowered and self._asked == AUTO

    @property
    def notes(self) -> tuple[str, ...]:
        """Choices that are not as a rule, for `Solution.notes`."""
        reused = (self._reused,) if self._reused else ()
        notes = (*self.problem.notes, *reused, *self._taken, *self._refused, *self._factored, *self._gathered)
        if self._method is not None:
            return notes
        if self.problem.complex:
            if not self.problem.unsymmetric:
                return notes
            why = f"A is complex, neither symmetric nor Hermitian ({self.problem.unsymmetric})"
            return (f"{why}: it is solved by {self.spec.traits.title}", *notes)
        if differs := self.problem.unsymmetric:
            return (f"A is not symmetric ({differs}): it is solved by {self.spec.traits.title}", *notes)
        if self.problem.indefinite:
            why = "A has a diagonal that is not positive everywhere"
            return (f"{why}: it is solved by {self.spec.traits.title}", *notes)
        return notes

    @property
    def _gathered(self) -> tuple[str, ...]:
        """Notes on functions for which whole vectors are brought to one worker."""
        if self.runtime.client is None or len(self.partition) == 1:
            return ()
        return tuple(GATHERED.format(name=each.name) for each in self._functions if each.halo is None)

    @property
    def _functions(self) -> tuple[UserFunction, ...]:
        """Functions of the user's."""
        m = self.preconditioner
        called = [getattr(each, "called", None) for each in (m, *getattr(m, "parts", ()))]
        return tuple(each for each in (self.spec.problem.operator, *called) if each is not None)

    def expect(self, *, host: bool) -> None:
        """Take notice of whether right-hand sides come in NumPy arrays."""
        for function in self._functions:
            function.expect(host=host)

    @property
    def described(self) -> str:
        """For people: the engine, the kernels, the workers and their link."""
        return self.runtime.describe(len(self.partition), self.program.link)

    def __repr__(self) -> str:  # people know it as the `Solver` that holds it
        problem = self.problem
        shape = "x".join(map(str, problem.shape)) if problem.lattice else f"{problem.grid[0]} rows"
        state = "closed" if self._program is None else f"on {self.described}"
        return f"<Solver {self.problem.name} {shape}, {state}>"

    # -- use -----------------------------------------------------------------------------------------------------------

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """For one solve, or one update, at a time.

        Raises:
            InputError: another one is going on, or the session is closed.
            ClusterError: its client is closed.
        """
        program = self.program  # raises if it is closed
        client = self.runtime.client
        if client is not None and client.status == "closed":
            raise ClusterError("the client of this Solver is closed: open a new one with another client")
        if not self._lock.acquire(blocking=False):
            raise InputError("this Solver is solving already: open another one for a solve beside it")
        self._user = threading.get_ident()
        try:
            self._restart_if_ended()
            yield
        except ClusterError as error:
            if self._closing:
                raise InputError("this Solver was closed while it was in use, by another thread") from error
            # Ended: whoever uses it next starts it anew, should the cluster be well again.
            self._program = self._program or program
            raise
        finally:
            self._user = None
            self._lock.release()
            if self._closing:
                self._end()

    @property
    def shift(self) -> int:
        """Exponent of two by which the program's x is to be multiplied: that of its A over that of its b."""
        return self._exponent - self.lift

    @property
    def _exponent(self) -> int:
        """Exponent of two by which the program's A was multiplied."""
        return self.given.exponent if isinstance(self.given, MatrixProblem) else 0

    @contextmanager
    def lifting(self, exponent: int) -> Iterator[None]:
        """While right-hand sides are brought that were multiplied by a power of two."""
        self.lift = exponent
        try:
            yield
        finally:
            self.lift = 0

    @contextmanager
    def solving_for(self, right: Container) -> Iterator[None]:
        """While a solve for a right-hand side goes on, whose iterate may be asked for."""
        self.solving = right
        try:
            yield
        finally:
            self.solving = None

    def _used(self, attempt: Callable[[], T]) -> T:
        """Result of an attempt, while nobody else uses the session, made again where a worker is lost."""
        with self.in_use():
            return self.with_recovery(attempt)

    def with_recovery(self, attempt: Callable[[], T]) -> T:
        """Result of an attempt, which is made again on the workers that are left when one is lost.

        Raises:
            ClusterError: the cluster failed, and beginning anew cannot help.
        """
        self._losses, self.lost = 0, 0.0
        began, set_up = time.perf_counter(), self.took
        while True:
            try:
                return attempt()
            except ClusterError as error:
                self._recover(error)
                self.took, self.lost = set_up, time.perf_counter() - began

    def update(self, problem: Problem, *, reuse: bool = False) -> None:
        """Set up another matrix of the same structure in place of this one.

        Args:
            problem: the system.
            reuse: whether M may keep its interpolation, and is to keep it for the next update.

        Raises:
            InputError: another solve is going on, the session is closed, or a coefficient cannot be right; the old
                matrix stays.
            DeviceMemoryError: a GPU's memory will not suffice; the old matrix stays.
            ClusterError: the cluster failed.
        """
        began = time.perf_counter()
        with self.in_use():
            problem = self._cut(problem)
            spec = self._planned(problem)
            self.with_recovery(lambda: self._exchange(spec, problem, reuse=reuse))
            self.spec, self.given, self.preconditioner = spec, problem, self.first
            self._factored = self._refused = ()
            self._counted = None  # it would keep the old matrix
            self._reused = REUSED[self.program.call(Solve.reused)] if reuse else ""
            self.took = time.perf_counter() - began

    def take_values(self, problem: Problem) -> None:
        """Take other values of held cells: those of a problem that is the same but for these. Nothing is set up anew.

        Raises:
            InputError: another solve is going on, the session is closed, or a value cannot be right; the old ones stay.
            ClusterError: the cluster failed.
        """
        spec = replace(self.spec, problem=problem.without_arrays)
        with self.in_use():
            self.with_recovery(lambda: self._or_restored(lambda: self._bring_values(spec, problem)))
            self.spec, self.given = spec, problem

    def _bring_values(self, spec: SolveSpec, problem: Problem) -> None:
        self.program.call(Solve.take_values, spec)
        if HELD in problem.coefficients:
            self._load(HELD, problem)
            self.program.call(Solve.hold)

    def _exchange(self, spec: SolveSpec, problem: Problem, *, reuse: bool) -> None:
        """Have the program take another matrix, if there is memory for it."""
        check_memory(spec, self.runtime, self.spec)
        self._or_restored(lambda: self._replace(spec, problem, reuse=reuse))

    def _or_restored(self, change: Callable[[], None]) -> None:
        """Change the program's problem, or keep the old one; a loss of workers leaves neither."""
        try:
            change()
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, ClusterError):
                self._restore()  # a value is wrong, or memory has run out after all: known once the old are gone
            else:
                self.program.close()  # half of a matrix: whoever uses it next has the old one set up again
            raise

    def shortage(self, *, dtype: str | None = None, m: Preconditioner | None = None, method: str | None = None) -> str:
        """Numbers of the memory that `precondition` with these arguments lacks; "" if it has room."""
        try:
            check_memory(self._preconditioned_by(dtype, m, method), self.runtime, self.spec)
        except DeviceMemoryError as error:
            return str(error)
        return ""

    def _preconditioned_by(self, dtype: str | None, m: Preconditioner | None, method: str | None) -> SolveSpec:
        m, method = (m or self.preconditioner).informed(self.given), method or self.spec.method
        taken = self._narrowed(dtype or self._asked, m, method)
        sizes: dict[str, Any] = {**bases(self.given, self.restart or m.basis)}
        return replace(self.spec, precond_dtype=taken, preconditioner=m, method=method, **sizes)

    def precondition(
        self, *, dtype: str | None = None, m: Preconditioner | None = None, method: str | None = None
    ) -> None:
        """Take the preconditioner in another value type, another one, or another method, from now on; b and x stay.

        Where that fails, the session has what it had, and the next use sets it up anew.
        """
        before = self.spec, self._asked, self.preconditioner
        self.spec = self._preconditioned_by(dtype, m, method)
        self._asked, self.preconditioner = dtype or self._asked, self.spec.preconditioner
        try:
            self.program.call(Solve.precondition, self.spec)
            self._load_coefficients(self.given)
            self.program.call(Solve.await_levels)
        except BaseException as error:
            self.program.close()  # half of a preconditioner
            if not isinstance(error, ClusterError):  # a lost worker is no reason against it
                self.spec, self._asked, self.preconditioner = before
            raise

    def found_pieces(self) -> bool:
        """Whether A has pieces that nothing fixes: it is set up anew to see, and not looked at again."""
        if not (isinstance(self.given, MatrixProblem) and self.given.may_have_pieces):
            return False
        began = time.perf_counter()
        self.given = replace(self.given, singular=None)
        self.spec = replace(self.spec, problem=replace(self.spec.problem, singular=None))
        self.precondition()
        self.took = time.perf_counter() - began
        return self.program.call(Solve.closed_regions) > 0

    def begin(self, right: Container, guess: FirstGuess, column: int, width: int) -> Begun:
        """Bring b and x of a column to the program, where so many are solved together."""
        name = self._guessed(guess, column, width)
        begun = self.program.load("b", right.boxes(), Solve.begin, name, column, width)
        self._loaded(width)
        return begun

    def start(
        self, right: Container, guess: FirstGuess, width: int, terms: Terms, seconds: float
    ) -> tuple[Started, Blocks | None]:
        """Bring the last of so many columns to the program, and run the first time slice of all of them.

        Returns its findings, and the blocks of x as `blocks` where a single column is solved already.
        """
        column = width - 1
        name = self._guessed(guess, column, width)
        started, x = self.program.exchange(
            "b", right.boxes(), right.here, Solve.load_and_solve, name, column, width, terms, seconds, host=right.host
        )
        self._loaded(width)
        return started, x

    def _guessed(self, guess: FirstGuess, column: int, width: int) -> Guess:
        """Name of a first guess, whose values are brought to the program."""
        if isinstance(guess, Container):
            self.program.load("x0", guess.boxes(), Solve.set_x, column, width)
            return "x"
        return guess or "zero"

    def _loaded(self, width: int) -> None:
        self.columns = self.columns if width == 1 else width
        self.took = 0.0

    def blocks(self, column: int = 0, *, host: bool = False) -> Blocks:
        """x of a column as blocks by chunk number, or futures of such."""
        return self.program.unload(Solve.solution, column, host=host)

    def x_like(self, right: Container, column: int = 0) -> Any:
        """x of a column, in the kind of array that its right-hand side came in."""
        if not right.here:
            return self.like(right, self.blocks(column, host=right.host))
        return self.like(right, self.program.fetch(Solve.solution, column, host=right.host))

    def like(self, right: Container, blocks: Blocks) -> Any:
        """Blocks as an array of the kind that a right-hand side came in."""
        return times(self._as_given(right, blocks), self.shift)

    def preconditioned(self, right: Container) -> Any:
        """M r for a vector r, in r's kind of array.

        Raises:
            InputError: a solve is going on, or the session is closed.
            ClusterError: the cluster failed.
        """
        return self._used(lambda: self._preconditioned(right))

    def _preconditioned(self, right: Container) -> Any:
        self.program.load("r", right.blocks(), Solve.precondition_vector)
        return self.like(right, self._brought(right, Solve.preconditioned))

    def product(self, x: Any) -> Any:
        """A x, in x's kind of array, as of the matrix that was given.

        Raises:
            InputError: x is no vector of the problem; a solve is going on, or the session is closed.
            ClusterError: the cluster failed.
        """
        if is_complex(x) and not self.problem.complex:
            return self.product(x.real) + 1j * self.product(x.imag)
        right = container_of("x", x, self.partition, self.runtime.client, self.given)
        right.check()
        return self._used(lambda: self._product(right))

    def _product(self, right: Container) -> Any:
        self.expect(host=right.host)
        self.program.load("x", right.blocks(), Solve.multiply_vector)
        return times(self._as_given(right, self._brought(right, Solve.product)), -self._exponent)

    def residual(self, b: Any, x: Any) -> Any:
        """b - A x, in b's kind of array, less the part of b that no x can reach, and with what boundaries add to it.

        Raises:
            InputError: as of `product`.
            ClusterError: the cluster failed.
        """
        if is_complex(b) and not self.problem.complex:
            return self.residual(b.real, x.real) + 1j * self.residual(b.imag, x.imag)
        where: Any = self.partition, self.runtime.client, self.given
        right, at = container_of("b", b, *where), container_of("x", times(x, -self.shift), *where)
        return self._used(lambda: self._residual(right, at))

    def _residual(self, right: Container, at: Container) -> Any:
        self.expect(host=right.host)
        self.program.load("x", at.blocks(), Solve.set_x)
        self.program.load("b", right.blocks(), Solve.set_b)
        return self._as_given(right, self._brought(right, Solve.residual))

    def _brought(self, right: Container, command: Any) -> Blocks:
        """Blocks that a command makes, for the kind of array of a vector."""
        take = self.program.fetch if right.here else self.program.unload
        return take(command, host=right.host)

    def _as_given(self, right: Container, blocks: Blocks) -> Any:
        """Blocks as an array of the kind that a vector came in."""
        return right.like(gather_blocks(self.runtime.client, blocks, self.runtime.workers) if right.here else blocks)

    def iterate(self) -> Any:
        """Newest iterate of the solve that is running, like its b.

        Raises:
            InputError: none is running.
        """
        if self.solving is None:
            raise InputError("no solve is running: call this in a callback")
        return self.x_like(self.solving)

    def close(self) -> None:
        """End the program and give back what it holds, in a callback once the solve has ended. Twice does nothing.

        A solve that goes on in another thread ends with an error.
        """
        self._closing = True
        if self._user != threading.get_ident():
            self._end()

    def _end(self) -> None:
        program, self._program = self._program, None
        release(self)
        if self._closing:
            self._end_set_up("closed")
        if self.events is not None:
            self.events.flush()
        if program is not None:
            program.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- steps ---------------------------------------------------------------------------------------------------------

    def cut(self, problem: Problem) -> Problem:
        """Another problem, cut into as many chunks as the one that is set up, if it is not yet.

        Raises:
            InputError: a solve is going on, the session is closed, or the problem cannot be cut so.
            ClusterError: the cluster failed.
        """
        return self._used(lambda: self._cut(problem, len(self.partition)))

    def _first_cut(self, problem: Problem) -> Problem:
        """The problem cut into a chunk for each worker by default, of those that are not lost meanwhile."""
        while True:
            try:
                return self._cut(problem)
            except ClusterError as error:
                self._lose(error)

    def _cut(self, problem: Problem, chunks: int | None = None) -> Problem:
        if problem.places and self.runtime.client is None:
            raise InputError(
                "this matrix lies on a cluster: solve with its client, client=..., and not in this process"
            )
        problem = self.first.with_fields(problem)
        chunks, cuda = chunks or max(1, len(self.runtime.workers)), self.runtime.device == "cuda"
        if self.runtime.client is None or not isinstance(problem, MatrixProblem):
            return problem.planned(chunks, cuda=cuda)
        return problem.planned(chunks, cuda=cuda, cut=partial(SentMatrix, self.runtime))

    def _narrowed(self, asked: str, m: Preconditioner, method: str) -> str:
        """The value type of M beside that of the system."""
        alike = self.setup.dtype != "float64"
        return "float64" if alike else value_type(asked, m, method, cuda=self.runtime.device == "cuda")

    def _planned(self, problem: Problem) -> SolveSpec:
        m = self.first
        chunks = problem.chunks or self.runtime.chunks_for(problem.grid, m.divisor, slabs=m.slabs)
        method = method_for(problem, self._method, m)
        more: dict[str, Any] = {"dtype": self.setup.dtype, "precond_dtype": self._narrowed(self._asked, m, method)}
        return SolveSpec.plan(problem, chunks, self._order, m, self._method, self.restart, **more)

    def _launch(self, *, first: bool = False) -> None:
        """Claim a cluster's GPUs and start the program; when a worker is lost meanwhile, on those that are left.

        Args:
            first: whether there is memory for it is looked at before, and who watches is told.
        """
        while True:
            if self.runtime.client is not None:
                claim(self, self.runtime)
            try:
                if first:
                    check_memory(self.spec, self.runtime)
                    self._tell_of_set_up()
                self.columns, self._reused = 0, ""
                where = self.problem.offsets, self.problem.places
                self._program = self.runtime.launch(self._kind, self.spec, self.partition, *where)
                self._load_coefficients(self.given)
            except ClusterError as error:
                self._lose(error)
            except BaseException:
                self._end()
                raise
            else:
                return

    def _restart_if_ended(self) -> None:
        """Start the program again, with the matrix that it had, where an interrupt or a failure has ended it."""
        if self.program.ended:
            began = time.perf_counter()
            self._end()
            self._losses = 0
            self._launch()
            self.took = time.perf_counter() - began

    def _replace(self, spec: SolveSpec, problem: Problem, *, reuse: bool = False) -> None:
        """Have the program take another matrix; x is zero."""
        self._reused = ""
        self.program.call(Solve.update, spec, reuse)
        self.columns = 0
        self._load_coefficients(problem)

    def _restore(self) -> None:
        """Set the old matrix up again in place of one that was refused; nothing stays open if that is refused, too."""
        try:
            self._replace(self.spec, self.given)
        except ClusterError:  # what one worker refuses ends the program of all, and so does memory that runs out
            self._end()
            self._launch()
        except BaseException:
            self._end()
            raise

    def _recover(self, error: ClusterError) -> None:
        """Start the program again on the workers that are left, or raise the error where that cannot help."""
        self._lose(error)
        self._launch()

    def _lose(self, error: ClusterError) -> None:
        """End the program and take the workers that are left, or raise the error where that cannot help."""
        self._end()
        self._losses += 1
        if self._losses > ATTEMPTS or self._closing:
            raise error
        self.runtime = on_workers_left(self.runtime, error)
        clear_frames(error)

    @property
    def _on_host(self) -> bool:
        """Whether chunks are brought to their owners by way of the host."""
        return self.runtime.client is not None or self.runtime.device != "cuda"

    def _load_coefficients(self, problem: Problem) -> None:
        """Bring the arrays that the matrix is made from to their owners, and have it made."""
        for name in problem.coefficients:
            self._load(name, problem)
        if problem.coefficients:
            self.program.call(Solve.set_up)

    def _load(self, name: str, problem: Problem) -> None:
        """Bring an array to the owners of its chunks."""
        values = problem.coefficients[name]
        if isinstance(values, ChunkRows):
            owners = owners_of(self.partition, self.runtime.workers, self.given.places)
            blocks: Mapping[int, Any] = values.blocks(self.partition, host=self._on_host, owners=owners)
        else:
            blocks = container_of(name, values, self.partition, self.runtime.client).boxes()
        self.program.load(name, blocks, Solve.load_coefficient, name)
