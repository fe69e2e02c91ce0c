"""`Solver`: sets a system up once, on whatever devices there are, and solves it as often as wanted."""

from collections.abc import Mapping
from typing import Any, Final, NoReturn, Self, Unpack, final, overload

from dsolver.cluster.rows.grid_rows import matrix_of
from dsolver.errors import InputError, in_a_line
from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.summary import Hierarchy
from dsolver.preconditioners import Preconditioner
from dsolver.problems import Problem
from dsolver.problems.diffusion_problem.problem import changed
from dsolver.problems.problem import check_problem
from dsolver.session import facts
from dsolver.session.arguments import check_sides, problem_for, problem_of
from dsolver.session.operator import PreconditionerOperator
from dsolver.session.options import Options, Setup, SetupArguments, SolveArguments
from dsolver.session.session import Session
from dsolver.session.signatures import spelled_out
from dsolver.session.solving.solves import solved
from dsolver.session.user_arrays import RightHandSides
from dsolver.session.user_arrays.several import are_several, columns, together
from dsolver.session.vectors import iterate, product
from dsolver.solution import Solution, Solutions

REUSES: Final = ("auto", "preconditioner", "interpolation", None)


@final
@spelled_out(Setup)
class Solver:
    """A system that is set up, ready for any number of right-hand sides. Close it, or use it in a ``with`` statement.

    Matrices, vectors, connections and recorded kernels stay on the devices between two solves. On a cluster of GPUs an
    open Solver keeps its workers: other solves there wait until it is closed. Where it is closed, or solving, what asks
    it raises an `InputError`.

    Args:
        problem: the system: see `dsolver.problems`; or a sparse matrix, as in `dsolver.solve`. It is set up anew from
            its arrays where a solve goes on with another M, or without a lost worker, so they are not to be changed in
            place unless `update` follows.

    Raises:
        InputError: an argument cannot be right.
        DeviceError: "cuda" was asked for where there is none, or (`DeviceMemoryError`) the memory of a GPU or a worker
            will not suffice.
        ClusterError: the cluster cannot be reached, or its GPUs are held by a Solver that this thread has left open.
    """

    def __init__(self, problem: Problem | Any, **arguments: Unpack[SetupArguments]) -> None:
        setup = Setup(**arguments)
        self._session = Session(problem_for(problem, setup), setup)

    @property
    def problem(self) -> Problem:
        """The system that is set up."""
        return self._session.given

    @property
    def closed_regions(self) -> int:
        """Number of regions with a constant of their own that no boundary and no σ fixes; the whole grid may be one."""
        return facts.closed_regions(self._session)

    @property
    def preconditioner(self) -> Preconditioner:
        """M as an object of `dsolver.preconditioners`; with M="auto" what was chosen."""
        return facts.chosen(self._session)

    @property
    def hierarchy(self) -> Hierarchy:
        """Levels of multigrid in numbers, where "mg" or "amg" is taken or "auto" has chosen it; to be printed.

        On a lattice entries are counted at all offsets inside of it, zeros too. Where A is not symmetric, algebraic
        levels have an entry in each place where A or Aᵀ has one.

        Raises:
            InputError: M has none.
        """
        return facts.hierarchy(self._session)

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats of the rows of each chunk of a matrix, with what they were chosen for; empty for grids."""
        return facts.formats(self._session)

    def __repr__(self) -> str:
        return repr(self._session)

    @overload
    def solve(
        self, b: list[Any] | tuple[Any, ...], *, x0: Any = ..., **arguments: Unpack[SolveArguments]
    ) -> Solutions: ...
    @overload
    def solve(self, b: Any, *, x0: Any = ..., **arguments: Unpack[SolveArguments]) -> Solution: ...
    @spelled_out(Options)
    def solve(self, b: Any, *, x0: Any = None, **arguments: Unpack[SolveArguments]) -> Solution | Solutions:
        """Solve A x = b by the preconditioned method.

        Args:
            b: right-hand side, shape ``problem.shape``: an array as for `dsolver.solve`. Several of them are one array
                whose last axis counts them, (nx, ny, nz, k) for a grid and (n, k) for a matrix, or a list. Some at a
                time, up to `dsolver.program.batches.batch.AT_ONCE`, are solved together, so that the matrix is read
                once for all of them; each has the iterations and the bits that it would have alone, and its timings are
                those of all. With a function for M, the graph engine or one of the arguments from callback to resume
                they are solved one after the other, and so they are by other methods than "cg" and "cocg";
                `Solution.notes` then says why. Each has checkpoints in a folder of its own within the one that is
                named.
            x0: first guess, like b; zero by default. "fmg" for what full multigrid makes of b, where M is multigrid:
                it takes about as long as an iteration and saves one or two.

        Returns:
            The solution, or `Solutions` of several. Its status, judged on the true residual, tells whether it
            converged: not to is no exception.

        Raises:
            InputError: an argument cannot be right, or this Solver is closed or solving already.
            DeviceMemoryError: memory has run out.
            ClusterError: the cluster failed during the solve.
        """
        options = Options(**arguments)
        session = self._session
        sides = RightHandSides.of(self.problem, b, x0, session.runtime.client)
        check_sides(session.first.m, self.problem, sides)
        return solved(session, sides, options)

    def __matmul__(self, x: Any) -> Any:
        """A x, of x's kind of array, for x like b: (n, k) and (nx, ny, nz, k) are several.

        Of a diffusion problem A is that of `dsolver.Problem.to_scipy`, and cells that are left out or fixed have 0.

        Raises:
            InputError: x is no such array, or this Solver is closed or solving.
            ClusterError: the cluster failed.
        """
        session = self._session
        if not are_several(self.problem, x):
            return product(session, x)
        each = columns(self.problem, "x", x, session.runtime.client)
        return together([product(session, one) for one in each], x)

    def iterate(self) -> Any:
        """The newest iterate of the solve that is running, like its b: for callbacks.

        Raises:
            InputError: none is running.
        """
        return iterate(self._session)

    def aspreconditioner(self) -> PreconditionerOperator:
        """One application of M as an operator (n, n) of SciPy's kind, which solvers of SciPy and CuPy take for M.

        It is applied to NumPy, CuPy and Dask arrays, (n,) or (n, k), in the order of ``b.ravel()``, while this Solver
        is open and not solving. M is in the Solver's value type, on GPUs float32 if not asked for in another: for
        methods that apply it to sums, as GMRES does, make the Solver with precond_dtype="float64". Results are float64.

        To apply it raises an `InputError` for other arrays, and where this Solver is closed or solving; a
        `ClusterError` where the cluster failed.
        """
        return PreconditionerOperator(self._session)

    @spelled_out()
    def update(
        self,
        problem: Problem | Any | None = None,
        *,
        kappa: Any = None,
        sigma: Any = None,
        bc: Any = None,
        fixed: Any = None,
        velocity: Any = None,
        reuse: str | None = "auto",
    ) -> None:
        """Set up another matrix of the same structure in place of this one.

        Ranks, connections and compiled kernels are kept, and the memory of the old matrix is used again. `reuse` says
        what of M is made anew.

        Args:
            problem: with the same grid, chunks and offsets, or a sparse matrix with the same number of rows, whose
                chunks are those of the old one; by default the one that is set up.
            kappa: other coefficients of a diffusion problem; see `dsolver.problems.diffusion`.
            sigma: as `kappa`.
            bc: other values of boundary conditions, as of `dsolver.problems.diffusion`; faces that a mapping does not
                name keep theirs. Kinds stay, and alpha of Robin conditions. If nothing else but `fixed` is given,
                nothing is set up anew: right-hand sides alone change. Rows of a flow, and of tensors, are made anew.
            fixed: other values in the cells that are fixed, for which nothing is set up anew if nothing else is given;
                or a pair (where, values) for other cells.
            velocity: another flow of a problem with one.
            reuse: None: M is made anew, with the bits of a new Solver of these chunks. "preconditioner": all of
                multigrid stays what it is, and A alone is made, in about a fifth of the time; iterations grow as A
                moves away from the matrix of M. With float64 levels both are in memory. By default, "auto", M="auto"
                finds out which costs less: M stays until iterations beyond those of its own matrix add up to a set-up
                (`dsolver.multigrid.renewal`); any other M is made anew. Where M cannot stay, as unknowns are stored
                in another order, other regions are closed, or A is not symmetric, it is made anew. With all but None a
                matrix begins with the M or the method that has followed one that was slow, or failed, before.
                "interpolation": algebraic multigrid ("amg", or "auto" where it takes that) keeps coarse points and
                interpolation, and makes coarse matrices, smoothers and the coarsest inverse of the new values, in about
                a third of the time for a matrix, and half for a grid. A has to have entries in the same places; else,
                and in the first update that asks for it, M is set up anew, and from then on what the next update needs
                is kept, in as much memory as A takes. Iterations may grow while A changes; an update without it sets up
                anew. `Solution.notes` tell what was done.

        Raises:
            InputError: the structure differs, an argument cannot be right, or this Solver is closed or solving; the
                old matrix stays.
            DeviceMemoryError: the memory of a GPU or a worker will not suffice; the old matrix stays.
            ClusterError: the cluster failed.
        """
        if reuse not in REUSES:
            raise InputError(f"reuse must be {', '.join(map(repr, REUSES[:-1]))} or None, not {in_a_line(reuse)}")
        changes = {"kappa": kappa, "sigma": sigma, "bc": bc, "fixed": fixed, "velocity": velocity}
        changes = {name: value for name, value in changes.items() if value is not None}
        values = changes.keys() <= {"bc", "fixed"} and not isinstance(fixed, tuple | list)
        if problem is None and changes and values and self.problem.lattice:
            with_values = changed(self._session.given, **changes)
            _check_kind(with_values, self.problem)
            self._session.take_values(with_values)
            return
        plan = self._session.planned(self._other(problem, changes))
        _check_structure(plan.given, self.problem)
        keep = reuse == "preconditioner" or (reuse == "auto" and self._session.may_keep())
        self._session.update(plan, reuse=reuse == "interpolation", keep=keep, anew=reuse is None)

    def _other(self, problem: Problem | Any | None, changes: Mapping[str, Any]) -> Problem:
        """A problem in place of this one, with changes as of `update`."""
        session, client = self._session, self._session.runtime.client
        gpu, count = session.runtime.device == "cuda" and client is None, len(session.partition)
        other: Problem = session.given
        if problem is not None:
            other = problem_of(problem, gpu=gpu, client=client, chunks=count, connected=lambda: session.runtime)
        check_problem(other)
        if not changes:
            return other
        before = other.of_grid if isinstance(other, MatrixProblem) and other.of_grid else other
        made: Problem = matrix_of(changed(before, **changes), client, count, gpu=gpu)
        return made

    def close(self) -> None:
        """End it and give back what it holds. Solutions stay. To close twice does nothing.

        In a callback it has an effect when the solve has ended. A solve that goes on in another thread ends with an
        `InputError`.
        """
        self._session.close()

    def __reduce__(self) -> NoReturn:
        raise InputError("a Solver is neither copied nor pickled, for devices hold its matrix: make one of its problem")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_kind(problem: Problem, before: Problem) -> None:
    """Refuse a problem in place of one with other numbers or rows; raises InputError."""
    if problem.complex != before.complex:
        kinds = ("complex", "real") if problem.complex else ("real", "complex")
        advice = ": open another Solver for it" if problem.complex else ": give complex numbers"
        raise InputError(f"the new problem is {kinds[0]}, but the one that is set up is {kinds[1]}{advice}")
    if problem.lattice != before.lattice:
        raise InputError("the new problem has rows of another kind, as full tensors have: open another Solver for it")


def _check_structure(problem: Problem, before: Problem) -> None:
    """Refuse a problem in place of one with another structure; raises InputError."""
    _check_kind(problem, before)
    if problem.shape != before.shape:
        raise InputError(
            f"the new problem has shape {problem.shape}, but the one that is set up has {before.shape}: open another "
            f"Solver for it"
        )
    for name in ("grid", "dimensions", "chunks", "offsets", "periodic"):
        if getattr(problem, name) != getattr(before, name):
            raise InputError(f"the new problem differs in its {name}: open another Solver for it")
