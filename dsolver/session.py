"""A system that is set up: its program, kept on whatever devices there are, and started again when workers are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self, TypeVar, final

from dsolver.admission import Guess
from dsolver.claims import claim, release
from dsolver.containers import Container, container_of
from dsolver.engines.job import Job
from dsolver.engines.shortage import let_go
from dsolver.errors import ClusterError, InputError
from dsolver.estimation import check_memory
from dsolver.fetching import fetched
from dsolver.levels import Hierarchy
from dsolver.options import Setup
from dsolver.ordering import Order
from dsolver.partition import Partition
from dsolver.problems import Problem
from dsolver.problems.problem import check_problem
from dsolver.programs import Begun, Solve, SolveSpec
from dsolver.recovery import ATTEMPTS, without_the_lost
from dsolver.runtime import connect

T = TypeVar("T")


@final
class Session:
    """A system, set up for any number of solves. Close it, or use it in a ``with`` statement.

    Args:
        problem: the system.
        setup: where and how; its M may be a recipe already.

    Attributes:
        recipe: of the preconditioner.
        runtime: where the program runs. After a loss, without the workers that are lost.
        spec: what the program was told.
        given: the problem with its arrays, should the levels have to be made again.
        columns: for how many right-hand sides at once the program holds room; 0 before it was asked for any.
        solving: the right-hand side of the solve that is running, or None.

    Raises:
        InputError: an argument cannot be right. Nothing was started.
        DeviceError: "cuda" was asked for where there is none, or (`DeviceMemoryError`) a GPU's memory will not suffice.
        ClusterError: the cluster cannot be reached, or its GPUs are held by a Solver that this thread has left open.
    """

    def __init__(self, problem: Problem, setup: Setup) -> None:
        began = time.perf_counter()
        self._job: Job | None = None
        check_problem(problem)
        self.recipe = setup.recipe(problem.grid)
        self.runtime = connect(setup.client, engine=setup.engine, device=setup.device, kernels=setup.kernels)
        if self.runtime.client is not None and not self.recipe.everywhere:
            raise InputError(
                "M is a function, which is called in this process and not on a cluster: drop client=, or use a "
                "preconditioner of dsolver's, such as M='mg'"
            )
        self._order = Order.parse(setup.order)
        self._precond_dtype: str = setup.precond_dtype
        self.spec = self._planned(problem)
        self.given = problem
        check_memory(self.spec, self.runtime)
        self.solving: Container | None = None
        self._lock = threading.Lock()
        self._user: int | None = None
        self._closing = False
        self._losses, self._fresh = 0, True
        self._launch()
        self._took = time.perf_counter() - began

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The system that is set up."""
        return self.spec.hierarchy.problem

    @property
    def partition(self) -> Partition:
        """Its finest level's chunks."""
        return self.spec.hierarchy.partitions[0]

    @property
    def job(self) -> Job:
        """The program.

        Raises:
            InputError: the session is closed.
        """
        if self._job is None:
            raise InputError("this Solver is closed: open a new one")
        return self._job

    @property
    def closed_regions(self) -> int:
        """How many regions have a constant of their own that nothing fixes; the whole grid may be one.

        Raises:
            InputError: the session is closed, or in use.
        """
        with self.in_use():
            return 0 if self.problem.singular is False else int(self.job.call("closed_regions"))

    @property
    def about(self) -> dict[str, Any]:
        """For a feed of events: the problem, where it is solved, and what an iteration moves."""
        return {"problem": self.problem.name, **self.runtime.about(self.spec)}

    @property
    def described(self) -> str:
        """For people: the engine, the kernels, the workers and their link."""
        return self.runtime.describe(len(self.partition), self.job.link)

    def __repr__(self) -> str:  # people know it as the `Solver` that holds it
        shape = "x".join(map(str, self.problem.grid))
        state = "closed" if self._job is None else f"on {self.described}"
        return f"<Solver {self.problem.name} {shape}, {state}>"

    # -- use -----------------------------------------------------------------------------------------------------------

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """For one solve, or one update, at a time.

        Raises:
            InputError: another one is going on, or the session is closed.
            ClusterError: its client is closed.
        """
        job = self.job  # raises if it is closed
        client = self.runtime.client
        if client is not None and client.status == "closed":
            raise ClusterError("the client of this Solver is closed: open a new one with another client")
        if not self._lock.acquire(blocking=False):
            raise InputError("this Solver is solving already: open another one for a solve beside it")
        self._user = threading.get_ident()
        try:
            self._revive()
            yield
        except ClusterError:
            self._job = self._job or job  # ended: whoever uses it next starts it anew, should the cluster be well again
            raise
        finally:
            self._user = None
            self._lock.release()
            if self._closing:
                self._end()

    def lasting(self, attempt: Callable[[], T]) -> T:
        """What an attempt returns. When a worker is lost it is made again, on those that are left.

        Raises:
            ClusterError: the cluster failed, and beginning anew cannot help.
        """
        self._losses = 0
        while True:
            try:
                return attempt()
            except ClusterError as error:
                self._begin_anew(error)

    def update(self, problem: Problem) -> None:
        """Set up another matrix of the same structure in place of this one.

        Raises:
            InputError: another solve is going on, the session is closed, or a coefficient cannot be right; the old
                matrix stays.
            DeviceMemoryError: a GPU's memory will not suffice; the old matrix stays.
            ClusterError: the cluster failed.
        """
        began = time.perf_counter()
        with self.in_use():
            spec = self._planned(problem)
            check_memory(spec, self.runtime, self.spec)
            try:
                self._replace(spec, problem)
            except BaseException as error:
                if isinstance(error, Exception) and not isinstance(error, ClusterError):
                    self._put_back()  # a value is wrong, or memory has run out after all: known once the old are gone
                else:
                    self.job.close()  # half of a matrix: whoever uses it next has the old one set up again
                raise
            self.spec, self.given = spec, problem
            self._took = time.perf_counter() - began

    def precondition(self, dtype: str) -> None:
        """Take the preconditioner in another value type, from now on; b and x stay."""
        self._precond_dtype = dtype
        self.spec = replace(self.spec, precond_dtype=dtype)
        try:
            self.job.call("precondition", self.spec)
            self._load_coefficients(self.given)
        except BaseException:
            self.job.close()  # half of a preconditioner
            raise

    def widen(self, columns: int) -> None:
        """Have the program hold room for so many right-hand sides at once."""
        self.job.call("widen", columns)
        self.columns = columns

    @property
    def took(self) -> float:
        """Seconds that the set-up took; 0 once a solve has begun, which has accounted for it."""
        return self._took

    def begin(self, right: Container, guess: Guess, column: int | None = None) -> Begun:
        """Begin a solve: b is the right-hand side, x the first guess, and both are a column's of a batch, if any."""
        zero = guess is None and not self._fresh  # a new program's x is
        self._fresh = False  # at once: b may be refused after x has come
        if isinstance(guess, Container):
            self.job.load("x", guess.blocks())
        told: Begun = self.job.load(
            "b", right.blocks(), "begin", "zero" if zero else guess if isinstance(guess, str) else None, column
        )
        self._took = 0.0
        return told

    def begin_again(self, guess: Guess) -> None:
        """x = the first guess, of a solve that has begun."""
        if guess is None:
            self.job.call("fill", "x", 0.0)
        elif isinstance(guess, str):
            self.job.call("guess")
        else:
            self.job.load("x", guess.blocks())

    def x_like(self, right: Container, *first: Any) -> Any:
        """x, in the kind of array that a right-hand side came in; first a method is called, as of `Job.unload`."""
        blocks = self.job.unload("x", *first, host=right.host)
        return right.like(fetched(self.runtime.client, blocks, self.runtime.workers) if right.here else blocks)

    def iterate(self) -> Any:
        """The newest iterate of the solve that is running, like its b.

        Raises:
            InputError: none is running.
        """
        if self.solving is None:
            raise InputError("no solve is running: call this in a callback")
        return self.x_like(self.solving)

    def close(self) -> None:
        """End the program and give back what it holds, in a callback once the solve has ended. Twice does nothing."""
        if self._user == threading.get_ident():
            self._closing = True
        else:
            self._end()

    def _end(self) -> None:
        job, self._job = self._job, None
        release(self)
        if job is not None:
            job.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _planned(self, problem: Problem) -> SolveSpec:
        levels = self.recipe.levels
        chunks = problem.chunks or self.runtime.chunks_for(problem.grid, 2 ** (levels - 1))
        hierarchy = Hierarchy.plan(problem, chunks, self._order, levels)
        return SolveSpec(hierarchy=hierarchy, preconditioner=self.recipe, precond_dtype=self._precond_dtype)

    def _launch(self) -> None:
        """Claim the GPUs and start the program; when a worker is lost meanwhile, on those that are left."""
        claim(self, self.runtime)
        try:
            self.columns = 0
            self._job = self.runtime.launch(Solve, self.spec, self.partition, self.problem.offsets)
            self._load_coefficients(self.given)
            self._fresh = True
        except ClusterError as error:
            self._begin_anew(error)
        except BaseException:
            self._end()
            raise

    def _revive(self) -> None:
        """Start the program again, with the matrix that it had, where an interrupt or a failure has ended it."""
        if self.job.ended:
            began = time.perf_counter()
            self._end()
            self._losses = 0
            self._launch()
            self._took = time.perf_counter() - began

    def _replace(self, spec: SolveSpec, problem: Problem) -> None:
        """Have the program take another matrix; x is zero."""
        self.job.call("update", spec)
        self.columns = 0
        self._fresh = True
        self._load_coefficients(problem)

    def _put_back(self) -> None:
        """Set the old matrix up again in place of one that was refused; nothing stays open if that is refused, too."""
        try:
            self._replace(self.spec, self.given)
        except ClusterError:  # what one worker refuses ends the program of all, and so does memory that runs out
            self._end()
            self._launch()
        except BaseException:
            self._end()
            raise

    def _begin_anew(self, error: ClusterError) -> None:
        """Start the program again on the workers that are left, or raise the error where that cannot help."""
        self._end()
        self._losses += 1
        if self._losses > ATTEMPTS:
            raise error
        self.runtime = without_the_lost(self.runtime, error)
        let_go(error)
        self._launch()

    def _load_coefficients(self, problem: Problem) -> None:
        """Bring the arrays that the matrix is made from to their owners, and have it made."""
        for name, values in problem.coefficients.items():
            self.job.load(name, container_of(name, values, self.partition, self.runtime.client).blocks())
        if problem.coefficients:
            self.job.call("set_up")
