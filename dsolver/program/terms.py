"""Terms on which a solve ends, and what is found of its right-hand side: together they make its control."""

from dataclasses import dataclass

from dsolver.distributed.nullspace import Inconsistency
from dsolver.krylov.control.control import Control
from dsolver.krylov.control.giving_up import STAGNATION
from dsolver.krylov.control.supersteps import Pace
from dsolver.preconditioners.alternatives import alternative_to, new_one
from dsolver.preconditioners.base import Preconditioner
from dsolver.program.spec import SolveSpec


def limit_of(rtol: float, atol: float, b_norm: float) -> float:
    """The residual at which a solve is finished."""
    return max(rtol * b_norm, atol)


@dataclass(frozen=True, kw_only=True)
class Begun:
    """Findings about a right-hand side and a first guess, before the iterations."""

    excess: Inconsistency  # what no x can reach of b
    b_norm: float  # the length of the rest
    x_norm: float  # of the first guess
    chosen: Preconditioner  # the preconditioner, or what it has chosen to be
    skipped: float  # rows of multigrid's last level of which its solution makes nothing; 0 where M is of another A


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Terms of a solve.

    The ranks make its control of them, next to b, so that no call has to come back with b's norm before it begins.
    """

    rtol: float  # finished when ‖b - A x‖₂ <= max(rtol ‖b‖₂, atol)
    atol: float
    maxiter: int
    interruptible: bool  # whether the solve pauses after each iteration, for a callback that may stop it there
    replaceable: bool  # whether another preconditioner may take the place of the one that "auto" has chosen
    # where M is of an earlier matrix, iterations that it took there for each power of ten; else None.
    kept: float | None = None
    patience: int | None = None  # as of `Control`, where M has taken the place of a slow one
    closely: bool  # whether each superstep is looked at, for iterates that are saved or iterations that are measured

    def control(self, spec: SolveSpec, begun: Begun, pace: Pace | None = None) -> Control:
        """Control of a solve, with what its system and its right-hand side allow; pace: of earlier ones.

        A value takes as many iterations as there are points along the axes to cross the grid, and until it has the
        residual may stay as it is. Multigrid in float32 is given up sooner: there is float64 to go on with.
        """
        can, traits = spec.preconditioner.can, spec.traits
        limit, other = limit_of(self.rtol, self.atol, begun.b_norm), None
        if self.replaceable and self.kept is not None:
            other = new_one(begun.chosen, self.kept, limit / (begun.b_norm or 1.0))
        elif self.replaceable:
            other = alternative_to(begun.chosen, spec.problem, spec.method)
        return Control(
            limit=limit,
            b_norm=begun.b_norm,
            maxiter=self.maxiter,
            at_zero=begun.x_norm == 0.0,
            stagnation=can.stagnation or max(STAGNATION, sum(spec.problem.grid)),
            decrease=can.decrease,
            fallback=can.fallback if spec.lowered else None,
            patience=self.patience if other is None else other.further,
            interruptible=self.interruptible,
            singular=begun.excess.closed + begun.excess.vectors > 0,
            one_level=not can.multilevel,
            replaces=traits.replaces,
            checked=traits.checked,
            breakdown=traits.breakdown,
            projects=begun.chosen.projecting and not spec.lowered,
            pace=None if self.closely else pace,
        )
