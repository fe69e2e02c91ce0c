"""A system that is set up, ready for solves: who may use it when, what is set up in its place, and its end."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self, TypeVar

from dsolver import kernels
from dsolver.cluster.runtime import Runtime, check_client, connect
from dsolver.engines.running_program import RunningProgram
from dsolver.errors import ClusterError, InputError
from dsolver.grid.partition import Partition
from dsolver.matrices.chunks.plan import cut_like
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Preconditioner
from dsolver.preconditioners.alternatives import Alternative
from dsolver.preconditioners.rent import Rent
from dsolver.problems import Problem
from dsolver.program.plan import Plan, Wishes
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from dsolver.session.arguments import check_sendable, client_of, likely_device
from dsolver.session.feed import Feed
from dsolver.session.options import Setup
from dsolver.session.running import RunningSystem
from dsolver.session.user_arrays import Container

T = TypeVar("T")


class Session:
    """A system, set up for any number of solves. Close it, or use it in a ``with`` statement.

    Args:
        wishes: what the set-up says of the system, where that is known already.
        program: the kind of program that is set up.

    Attributes:
        first: what was asked for, for this matrix. What is in force, as a slow solve may have changed it, is `wishes`.
        system: the program, where it runs.
        unnamed: address of its cluster, where no argument has named one; else "".
        refused: why M stays as it is, however slow, as another one has failed; "" where none has.
        factored: why M has become factors of the matrix; "" where it has not.
        rent: the cost of solves without these.
        learnt: M and the method that solves have put in place of those chosen, where they served: see `update`.
        reserve: factors, where M has taken the place of a slow one and may be slow, too; else None.
        solving: the right-hand side of the solve that is running, or None.
        took: seconds that the set-up took; 0 once a solve has begun, which has accounted for it.
        lift: exponent of two by which right-hand sides were multiplied before they came.
        lost: seconds that this solve has spent on attempts that ended with a worker, and on setting up anew.

    Raises:
        InputError: an argument cannot be right.
        DeviceError: "cuda" was asked for where there is none, or (`DeviceMemoryError`) a GPU's memory will not suffice.
        ClusterError: the cluster cannot be reached, or its GPUs are held by a Solver that this thread has left open.
    """

    def __init__(
        self, problem: Problem, setup: Setup, wishes: Wishes | None = None, program: type[Solve] = Solve
    ) -> None:
        began = time.perf_counter()
        likely = likely_device(setup)
        self.setup, self.first = setup, wishes or setup.wishes(problem, likely)
        gathers = problem.operator is not None and problem.operator.halo is None
        client = client_of(setup, everywhere=self.first.m.can.everywhere and not gathers)
        self.unnamed = client.scheduler.address if client and setup.client is None else ""
        self.refused = self.factored = ""
        self.reserve: Alternative | None = None
        self.rent, self.learnt = Rent(), dict[str, Any]()
        runtime = connect(client, engine=setup.engine, device=setup.device, kernels=setup.kernels)
        if runtime.device != likely:  # other preconditioners suit it
            self.first = setup.wishes(problem, runtime.device)
        if runtime.client is not None:
            check_sendable(self.first.m, problem)
        elif kind := self.first.m.kernel_kind:
            kernels.compile_kind(runtime.kernels, kind)
        self.system = RunningSystem(program, runtime)
        self.feed = Feed(self.system, program.what)
        self.solving: Container | None = None
        self._lock = threading.Lock()
        self._use: list[int] | None = None  # the one that goes on, with its thread
        self.lost, self.lift = 0.0, 0
        try:
            self.system.plan_first(self.first, problem)
            self._choice = _choice(self.system.plan)
            self.system.launch(self.feed.begin_set_up)
        except BaseException as error:
            self.feed.end_set_up("failed", f"{type(error).__name__}: {error}")
            raise
        self.took = time.perf_counter() - began

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def runtime(self) -> Runtime:
        """Place where its program runs."""
        return self.system.runtime

    @property
    def program(self) -> RunningProgram[Solve]:
        """The program, which is running; raises an `InputError` where the session is closed."""
        return self.system.program

    @property
    def wishes(self) -> Wishes:
        """Choices that the system is solved by."""
        return self.system.plan.wishes

    @property
    def spec(self) -> SolveSpec:
        """Specification of the program."""
        return self.system.plan.spec

    @property
    def given(self) -> Problem:
        """The system with its arrays."""
        return self.system.plan.given

    @property
    def problem(self) -> Problem:
        """The system without them."""
        return self.spec.problem

    @property
    def partition(self) -> Partition:
        """Chunks of the finest level."""
        return self.spec.partition

    def __repr__(self) -> str:
        return repr(self.system)

    # -- use -----------------------------------------------------------------------------------------------------------

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Use for one solve or update at a time.

        InputError: in use, closed, or taken into another process by a fork; ClusterError: its client is closed.
        """
        program = self.program  # raises if it is closed
        client = self.runtime.client
        check_client(client)
        if client is not None and client.status == "closed":
            raise ClusterError("the client of this Solver is closed: open a new one with another client")
        use = [threading.get_ident()]
        try:  # where Ctrl-C comes, an acquired lock would stay so
            with self._lock:
                if self._use is not None:
                    raise InputError("this Solver is solving already: open another one for a solve beside it")
                self._use = use
            if program.ended:  # by an interrupt, or a failure
                began = time.perf_counter()
                self.system.restart()
                self.took = time.perf_counter() - began
            yield
        except ClusterError as error:
            if self.system.closing:
                raise InputError("this Solver was closed while it was in use, by another thread") from error
            self.system.keep(program)  # should the cluster be well again
            raise
        finally:
            if self._use is use:
                self._use = None
                if self.system.closing:
                    self._end()

    def used(self, attempt: Callable[[], T]) -> T:
        """Result of an attempt, which alone uses the session, made again where a worker is lost."""
        with self.in_use():
            return self.with_recovery(attempt)

    def with_recovery(self, attempt: Callable[[], T]) -> T:
        """Result of an attempt, made again on the workers left when one is lost. ClusterError: that cannot help."""
        self.system.losses, self.lost = 0, 0.0
        began, set_up = time.perf_counter(), self.took
        while True:
            try:
                return attempt()
            except ClusterError as error:
                self.system.lose(error)
                self.system.launch()
                self.took, self.lost = set_up, time.perf_counter() - began

    def close(self) -> None:
        """End the program and give back what it holds, in a callback once the solve has ended. Twice does nothing.

        A solve that goes on in another thread ends with an error.
        """
        self.system.closing = True
        if self._use != [threading.get_ident()]:
            self._end()

    def _end(self) -> None:
        try:
            self.system.end()
        finally:
            self.feed.close()  # waits for messages, which are there by now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- other systems -------------------------------------------------------------------------------------------------

    def planned(self, problem: Problem) -> Plan:
        """The plan for another problem, in as many chunks as the one set up. InputError as of `in_use` and `Setup`."""
        same = problem is self.given
        if isinstance(problem, MatrixProblem) and isinstance(self.given, MatrixProblem):
            problem = cut_like(problem, self.given)
        wishes = self.first if same else self.setup.wishes(problem, self.runtime.device)
        wishes = replace(wishes, precond_dtype=self.wishes.precond_dtype)
        return self.used(lambda: self.system.planned(wishes, self.system.cut(wishes, problem, len(self.partition))))

    def may_keep(self) -> bool:
        """Whether "auto" leaves M what it is for the next matrix, by what solves have told."""
        return self.first.free and not self.refused and not self.system.renewal.due

    def update(self, plan: Plan, *, reuse: bool = False, keep: bool = False, anew: bool = True) -> None:
        """Set up another matrix of the same structure in place of this one.

        Args:
            plan: for it, as of `planned`.
            reuse: whether M may keep its interpolation, and is to keep it for the next update.
            keep: whether all of M is to stay, where it can.
            anew: whether M and the method are those chosen, though others have taken their place in solves before.

        Raises:
            InputError: another solve is going on, the session is closed, or a coefficient cannot be right; the old
                matrix stays.
            DeviceMemoryError: a GPU's memory will not suffice; the old matrix stays.
            ClusterError: the cluster failed.
        """
        began, choice = time.perf_counter(), _choice(plan)
        learnt = {} if anew or choice != self._choice else self.learnt
        with self.in_use():
            taken = plan.changed(cuda=self.system.cuda, **learnt) if learnt else plan
            self.with_recovery(lambda: self.system.exchange(taken, reuse=reuse, keep=keep))
            self.first, self._choice, self.learnt = plan.wishes, choice, learnt
            self.refused, self.factored, self.rent = "", "", Rent()
            self.reserve = self.reserve if learnt else None
            self.took = time.perf_counter() - began

    def take_values(self, problem: Problem) -> None:
        """Take the values of boundary conditions and held cells of a problem that is the same but for these.

        Nothing is set up anew. InputError: another solve is going on, the session is closed, or a value cannot be
        right; the old ones stay. ClusterError: the cluster failed.
        """
        plan = self.system.plan.with_problem(problem, problem.without_arrays)
        with self.in_use():
            self.with_recovery(lambda: self.system.take_values(plan))

    def precondition(self, **changes: Any) -> None:
        """Take another preconditioner, value type or method from now on, by changes of `wishes`; b and x stay.

        Where that fails, the session has what it had, and the next use sets it up anew.
        """
        self.system.precondition(self.system.plan.changed(cuda=self.system.cuda, **changes))


def _choice(plan: Plan) -> tuple[type[Preconditioner], str]:
    """Kind of M and method of a plan."""
    return type(plan.wishes.m), plan.spec.method
