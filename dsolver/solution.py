"""Solutions: the results of a solve."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, final, overload

from dsolver.errors import InputError
from dsolver.monitor.pages.curve import curve, curves
from dsolver.monitor.pages.notebook import facts, table, view
from dsolver.monitor.spans import Exposure, Span, exposed_text
from dsolver.problems.fluxes.faces import FaceFluxes
from dsolver.problems.problem import Problem
from dsolver.status import Status
from dsolver.units import counted

S = TypeVar("S")

SHOWN: Final = 16  # most solutions that a notebook lists


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """The result of `dsolver.solve`.

    Attributes:
        x: the solution, shape ``problem.shape``, float64 or complex128, in the same kind of container as b.
        status: how the solve ended.
        advice: what to do where it did not converge, for the cause that was seen; `status.advice` in general.
        iterations: of the method, that were made.
        residuals: ‖b - A x_k‖₂ by the recursion, k = 0 .. iterations.
        true_residual: ‖b - A x‖₂, computed anew from x at the end; the status was judged on it. Where b had a part that
            no x can reach (`Status.INCOMPATIBLE_RHS`), that of the rest.
        b_norm: ‖b‖₂.
        limit: the tolerance as a residual, max(rtol ‖b‖₂, atol); 0 where it is not known.
        timings: seconds of "setup" (0 where an earlier solve of the same `Solver` has paid for it), "load", "solve" and
            "total"; where workers were lost, "lost" are those of the attempts before and of setting up anew.
        engine: the engine, device and number of workers that ran it, and what carried values between them.
        solved_by: the method and the preconditioner with which it ended, as "cg with Multigrid()".
        closed_regions: how many regions have a constant of their own that no boundary and no σ fixes; the whole grid
            may be one. In each x has mean zero.
        spans: what ran when in the newest measured iterations; see `dsolver.monitor.spans`. Empty where a solve was too
            short to be measured unasked.
        exposure: how much communication they left exposed, in total and by level; None where none was measured.
        notes: what went another way than asked for, in sentences; empty as a rule.
        problem: of `dsolver.problems.diffusion`, with its arrays, from which fluxes follow; None for others, and once
            the solution was pickled.
        remade: makes b - A x of x; None where it cannot.
    """

    x: Any
    status: Status
    iterations: int
    residuals: tuple[float, ...]
    true_residual: float
    b_norm: float
    timings: Mapping[str, float]
    engine: str
    solved_by: str = ""
    advice: str = field(default="", repr=False)
    limit: float = 0.0
    closed_regions: int = 0
    spans: tuple[Span, ...] = field(default=(), repr=False)
    exposure: Exposure | None = None
    notes: tuple[str, ...] = ()
    problem: Problem | None = field(default=None, repr=False, compare=False)
    remade: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

    def flux(self, through: Any) -> float | complex:
        """Flux of a solution of a diffusion problem: ∫ −κ ∂u/∂n over faces, those of the discretization.

        So they balance: what leaves through the faces of the grid, and into cells where u is fixed, is the integral of
        f − σu, up to the residual. Numbers are computed where x is.

        Args:
            through: a face of the grid, "x-" to "z+", through which what leaves the grid counts as positive; or an
                array of the grid's shape that is True at some cells, for what they get from all others.

        Raises:
            InputError: it is neither, or the solution is not one of a diffusion problem.
        """
        fluxes = FaceFluxes(self.problem, self.x)
        return fluxes.through(through) if isinstance(through, str) else fluxes.into(through)

    def face_fluxes(self) -> tuple[Any, ...]:
        """Fluxes through all faces of cells, of a diffusion problem.

        They are an array like x for each axis of the grid, with one more along that. Those in its direction are
        positive. Divided by the faces' areas they are flux densities.

        Raises:
            InputError: the solution is not one of a diffusion problem.
        """
        return FaceFluxes(self.problem, self.x).fields()

    @property
    def residual(self) -> Any:
        """b - A x, of b's kind of array, computed anew of the b, and the A, that the solve was given.

        Where its Solver is closed, A is set up once more, without a preconditioner. Of a b that no x reaches, and of
        diffusion problems, it is that of which `true_residual` is the norm.

        Raises:
            InputError: the solution was pickled, or its Solver is solving.
            ClusterError: the cluster failed.
        """
        if self.remade is None:
            raise InputError("a solution that was pickled has no residual: it has neither A nor b")
        return self.remade(self.x)

    def __getstate__(self) -> dict[str, Any]:
        """All but the system, whose arrays and functions need not be what can be pickled."""
        return {**vars(self), "problem": None, "remade": None}

    @property
    def exposed_ms(self) -> float | None:
        """Milliseconds of an iteration in which the rank with most exchanged, summed or waited and did nothing else."""
        return None if self.exposure is None else self.exposure.total.ms

    @property
    def exposed_percent(self) -> float | None:
        """Percentage of the iteration that `exposed_ms` is."""
        return None if self.exposure is None else self.exposure.total.percent

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status.converged

    @property
    def relative_residual(self) -> float:
        """‖b - A x‖₂ / ‖b‖₂, or the absolute residual when b is zero."""
        return self.true_residual / self.b_norm if self.b_norm else self.true_residual

    def _repr_html_(self) -> str:
        shape = " × ".join(map(str, self.x.shape))
        about = {
            "advice": "" if self.converged else self.advice,
            "‖b − A x‖ / ‖b‖": f"{self.relative_residual:.3e}",
            "seconds": ", ".join(f"{name} {value:.3f}" for name, value in self.timings.items()),
            "solved by": self.solved_by,
            "engine": self.engine,
            "measured": "" if self.exposure is None else exposed_text(self.exposure.to_dict()),
            "notes": " ".join(self.notes),
        }
        title = f"Solution {shape}: {self.status} after {counted(self.iterations, 'iteration')}"
        return view(title, facts(about), curve(range(len(self.residuals)), self.residuals, self.limit))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.x.shape))
        return (
            f"<Solution {shape}: {self.status} after {counted(self.iterations, 'iteration')}, "
            f"‖b - Ax‖/‖b‖ = {self.relative_residual:.2e}, {self.timings['total']:.2f} s on {self.engine}>"
        )


class SolutionSequence(Sequence[S]):
    """Solutions for several right-hand sides, in their order.

    Attributes:
        x: as one array where the right-hand sides were one, in its order of axes; else a list of arrays.
    """

    def __init__(self, solutions: Sequence[S], x: Any) -> None:
        self._solutions: tuple[Any, ...] = tuple(solutions)
        self.x = x

    def __len__(self) -> int:
        return len(self._solutions)

    @overload
    def __getitem__(self, index: int) -> S: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[S, ...]: ...
    def __getitem__(self, index: int | slice) -> S | tuple[S, ...]:
        found: S | tuple[S, ...] = self._solutions[index]
        return found

    @property
    def status(self) -> tuple[Status, ...]:
        """Status of each solution."""
        return tuple(solution.status for solution in self._solutions)

    @property
    def iterations(self) -> tuple[int, ...]:
        """Iterations of each solution."""
        return tuple(solution.iterations for solution in self._solutions)

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached for every right-hand side."""
        return all(solution.converged for solution in self._solutions)

    @property
    def advice(self) -> str:
        """Advice on the first that has not converged; empty where all have."""
        return next((solution.advice for solution in self._solutions if not solution.converged), "")

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of all solutions, each once."""
        return tuple(dict.fromkeys(note for solution in self._solutions for note in solution.notes))

    def __repr__(self) -> str:
        good, name = sum(solution.converged for solution in self._solutions), type(self).__name__
        return f"<{name}: {good} of {len(self)} converged, {counted(sum(self.iterations), 'iteration')}>"


@final
class Solutions(SolutionSequence[Solution]):
    """The solutions for several right-hand sides, in their order.

    Attributes:
        x: the solutions as one array where the right-hand sides were one, (nx, ny, nz, k) for a grid and (n, k) for a
            matrix; else a list of arrays.
    """

    @property
    def solved_by(self) -> tuple[str, ...]:
        """Method and preconditioner of each solution."""
        return tuple(solution.solved_by for solution in self)

    def _repr_html_(self) -> str:
        head = ("", "status", "iterations", "‖b − A x‖ / ‖b‖")
        rows = [(i, s.status, s.iterations, f"{s.relative_residual:.3e}") for i, s in enumerate(self[:SHOWN])]
        more = [("…", f"{len(self) - SHOWN} more", "", "")] if len(self) > SHOWN else []
        lines = [[(k, r / (s.b_norm or 1.0)) for k, r in enumerate(s.residuals)] for s in self]
        limits = {s.limit / (s.b_norm or 1.0) for s in self}
        limit = min(limits, default=0.0)
        return view(repr(self).strip("<>"), table(head, [*rows, *more]), curves(lines, limit, head[-1]))
