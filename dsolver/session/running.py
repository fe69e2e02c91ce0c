"""The program of a system, where it runs: started, given another matrix, and started again without lost workers."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from dsolver.cluster.crew import ATTEMPTS
from dsolver.cluster.gpu_claims import claim, release
from dsolver.cluster.losses import on_workers_left
from dsolver.cluster.runtime import Runtime
from dsolver.cost.room import check_memory
from dsolver.engines.out_of_memory import clear_frames
from dsolver.engines.running_program import RunningProgram
from dsolver.errors import ClusterError, InputError
from dsolver.grid.cut import owners_of
from dsolver.matrices.chunks.plan import Cutter
from dsolver.matrices.chunks.row_block import ChunkRows
from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.renewal import Renewal
from dsolver.multigrid.reuse import Outcome
from dsolver.problems import Problem
from dsolver.problems.coefficient_names import HELD
from dsolver.program.plan import Plan, Wishes
from dsolver.program.solve import Solve
from dsolver.session.user_arrays import container_of

logger = logging.getLogger(__name__)

LONG: Final = 10.0  # seconds that a set-up, as of factors, may take without a word


class RunningSystem:
    """A system's program on the devices or workers that there are.

    Attributes:
        runtime: as given. After a loss, without the workers that are lost.
        columns: for how many right-hand sides at once the program holds room; 0 before it was asked for any.
        reused: what the newest update has used of the set-up before, where it was to; else None.
        renewal: the age of M.
        losses: of workers, since an attempt began.
        closing: whether nothing is started any more.
    """

    plan: Plan  # of the system; swapped whole once the program has another one

    def __init__(self, kind: type[Solve], runtime: Runtime) -> None:
        self._kind, self.runtime = kind, runtime
        self._program: RunningProgram[Solve] | None = None
        self.columns, self.losses = 0, 0
        self.reused: Outcome | None = None
        self.renewal = Renewal()
        self.closing = False

    @property
    def program(self) -> RunningProgram[Solve]:
        """The program, which is running. InputError: the session is closed."""
        if self._program is None:
            raise InputError("this Solver is closed: open a new one")
        return self._program

    @property
    def closed(self) -> bool:
        """Whether it was closed, or is being closed."""
        return self.closing or self._program is None

    @property
    def described(self) -> str:
        """The engine, the kernels, the workers and their link, for people."""
        return self.runtime.describe(len(self.plan.spec.partition), self.program.link)

    def __repr__(self) -> str:  # people know it as the `Solver` that holds it
        problem = self.plan.spec.problem
        shape = "x".join(map(str, problem.shape)) if problem.lattice else f"{problem.grid[0]} rows"
        state = "closed" if self._program is None else f"on {self.described}"
        return f"<Solver {problem.name} {shape}, {state}>"

    @property
    def cuda(self) -> bool:
        """Whether it runs on GPUs."""
        return self.runtime.device == "cuda"

    def cut(self, wishes: Wishes, problem: Problem, chunks: int) -> Problem:
        """A problem cut into so many chunks, where it runs."""
        with self._cutter(problem) as cutter:
            return wishes.cut(problem, chunks, cuda=self.cuda, by=cutter)

    def planned(self, wishes: Wishes, problem: Problem) -> Plan:
        """The plan for a system where it runs."""
        with self._cutter(problem) as cutter:
            return wishes.plan(problem, max(1, len(self.runtime.workers)), cuda=self.cuda, by=cutter)

    def plan_first(self, wishes: Wishes, problem: Problem) -> None:
        """Plan a system, on the workers that are left should some be lost meanwhile."""
        while True:
            try:
                self.plan = self.planned(wishes, problem)
            except ClusterError as error:
                self.lose(error)
            else:
                return

    @contextmanager
    def _cutter(self, problem: Problem) -> Iterator[Cutter | None]:
        """Maker of rows on a cluster, while it is used; rows that were sent ahead for nothing are dropped then."""
        ahead = problem.ahead if isinstance(problem, MatrixProblem) else None
        if self.runtime.client is None and problem.places:
            raise InputError("this matrix lies on a cluster: solve with its client, client=..., not in this process")
        try:
            if self.runtime.client is None:
                yield None
            else:
                from dsolver.cluster.rows.sent_rows import SentMatrix  # which loads Dask

                yield partial(SentMatrix, self.runtime, ahead)
        finally:
            if ahead is not None:
                ahead.drop()

    # -- start and end -------------------------------------------------------------------------------------------------

    def launch(self, announce: Callable[[], None] | None = None) -> None:
        """Claim a cluster's GPUs and start the program; announce: tells of the first start, before a look at memory."""
        while True:
            if self.runtime.client is not None:
                claim(self, self.runtime)
            try:
                if announce is not None:
                    check_memory(self.plan.spec, self.runtime)
                    announce()
                self.columns, self.reused, spec = 0, None, self.plan.spec
                self.renewal = Renewal()
                where = spec.problem.offsets, spec.problem.places
                self._program = self.runtime.launch(self._kind, spec, spec.partition, *where)
                self._load_coefficients(self.plan.given)
            except ClusterError as error:
                self.lose(error)
            except BaseException:
                self.end()
                raise
            else:
                return

    def end(self) -> None:
        """End the program and give back what it holds."""
        program, self._program = self._program, None
        release(self)
        if program is not None:
            program.close()

    def restart(self) -> None:
        """Start the program again, with the matrix that it had."""
        self.end()
        self.losses = 0
        self.launch()

    def keep(self, program: RunningProgram[Solve]) -> None:
        """Have a program that a lost cluster has ended, so that the next use starts it anew."""
        self._program = self._program or program

    def lose(self, error: ClusterError) -> None:
        """End the program and take the workers that are left, or raise the error where that cannot help."""
        self.end()
        self.losses += 1
        if self.losses > ATTEMPTS or self.closing:
            raise error
        self.runtime = on_workers_left(self.runtime, error)
        clear_frames(error)

    # -- other systems -------------------------------------------------------------------------------------------------

    def exchange(self, plan: Plan, *, reuse: bool, keep: bool) -> None:
        """Have the program take another matrix, x zero, if there is memory; reuse, keep: as of `Solve.update`."""
        check_memory(plan.spec, self.runtime, self.plan.spec)
        renewal = self.renewal
        self._take(plan, lambda: self._replace(plan, reuse=reuse, keep=keep))
        outcome = self.program.call(Solve.reused) if reuse or keep else None
        if outcome == "kept":
            self.renewal, renewal.kept = renewal, True
        elif keep:
            outcome = None if plan.wishes.free else "anew"
        self.reused = outcome

    def take_values(self, plan: Plan) -> None:
        """Have the program take other values of boundary conditions and held cells."""
        self._take(plan, lambda: self._bring_values(plan))

    def precondition(self, plan: Plan) -> None:
        """Have the program take another M or method for the same b and x; if that fails, the old one starts anew."""
        before, self.plan = self.plan, plan
        self.renewal = Renewal()
        if self.reused == "kept":
            self.reused = None
        try:
            self.program.call(Solve.precondition, plan.spec)
            self._load_coefficients(plan.given)
            self.program.call(Solve.await_levels)
        except BaseException as error:
            self.program.close()  # half of a preconditioner
            if not isinstance(error, ClusterError):  # a lost worker is no reason against it
                self.plan = before
            raise

    def _replace(self, plan: Plan, *, reuse: bool = False, keep: bool = False) -> None:
        self.reused, self.renewal = None, Renewal()
        self.program.call(Solve.update, plan.spec, reuse, keep)
        self.columns = 0
        self._load_coefficients(plan.given)

    def _bring_values(self, plan: Plan) -> None:
        self.program.call(Solve.take_values, plan.spec)
        if HELD in plan.given.coefficients:
            self._bring(HELD, plan.given)
            self.program.call(Solve.hold)

    def _take(self, plan: Plan, change: Callable[[], None]) -> None:
        """Change the program's problem, or keep the old one; a loss of workers leaves neither."""
        try:
            change()
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, ClusterError):
                self._restore()  # a value is wrong, or memory has run out after all: known once the old are gone
            else:
                self.program.close()  # half of a matrix: the next use has the old one set up again
            raise
        self.plan = plan

    def _restore(self) -> None:
        """Set the old matrix up again in place of one that was refused; nothing stays open if that is refused, too."""
        try:
            self._replace(self.plan)
        except ClusterError:  # what one worker refuses ends the program of all, and so does memory that runs out
            self.end()
            self.launch()
        except BaseException:
            self.end()
            raise

    def _load_coefficients(self, problem: Problem) -> None:
        """Bring the arrays that the matrix is made from to their owners, and have it made."""
        for name in problem.coefficients:
            self._bring(name, problem)
        if not problem.coefficients:
            self.program.settle()
        else:
            m = self.plan.spec.preconditioner
            if (seconds := m.setup_seconds(problem, 0.0)) >= LONG:
                logger.warning("the set-up of M=%s may take %.0f s ...", m.asked, seconds)
            self.program.call(Solve.set_up)

    def _bring(self, name: str, problem: Problem) -> None:
        """Bring an array to the owners of its chunks."""
        values, partition, client = problem.coefficients[name], self.plan.spec.partition, self.runtime.client
        if isinstance(values, ChunkRows):
            owners = owners_of(partition, self.runtime.workers, self.plan.given.places)
            blocks = values.blocks(partition, host=not self.cuda, owners=owners)
        else:
            blocks = container_of(name, values, partition, client).boxes()
        self.program.bring(name, blocks, Solve.load_coefficient, name)
