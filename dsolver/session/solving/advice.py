"""Advice on a solve that has not converged, for the cause that was seen: what would help, and was not in use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Preconditioner
from dsolver.preconditioners.registry import NAMED
from dsolver.problems import Problem
from dsolver.session.solving.last_attempts import SINGULAR
from dsolver.status import Status

SEEN: Final = (Status.MAX_ITERATIONS, Status.STAGNATED, Status.DIVERGED, Status.BREAKDOWN)
"""Ends on which there is more to say than their names tell."""
SMALL: Final = 1e-6  # residual, as a part of ‖b‖, below which rounding may be what holds it
TIMES: Final = 20  # times the iterations that were made, up to which more of them are advised
TELLING: Final = 10  # iterations after which a residual that does not fall tells that more are no help
MULTIGRID: Final = ("mg", "amg", "auto", "hpcg")  # preconditioners of a grid beside which "auto" has nothing to offer


@dataclass(frozen=True, kw_only=True)
class Case:
    """A solve at its end; b_norm is ‖b‖."""

    status: Status
    problem: Problem
    method: str
    used: Sequence[Preconditioner]  # the preconditioners, one after the other
    restart: int | None  # vectors of a basis that were asked for; None for as many as it takes
    residuals: Sequence[float]
    true_residual: float
    b_norm: float
    limit: float
    dtype: str = "float64"  # of A
    attained: bool = False  # whether the residual is what rounding makes of it, whatever M and the method

    def has_used(self, *names: str) -> bool:
        """Whether a preconditioner with one of these names was in use."""
        return any(type(m) is NAMED.get(name) for m in self.used for name in names)

    @property
    def part(self) -> float:
        """The true residual as a part of ‖b‖."""
        return self.true_residual / self.b_norm if self.b_norm else self.true_residual

    @property
    def further(self) -> float:
        """Iterations that are still needed at the pace of the last half; infinite where the residual does not fall."""
        done = len(self.residuals) - 1
        half = done // 2
        before, now = min(self.residuals[: half + 1], default=math.inf), min(self.residuals, default=math.inf)
        if not (0.0 < self.limit < now < before < math.inf):
            return math.inf
        return (done - half) * math.log(now / self.limit) / math.log(before / now)


def advice_on(case: Case) -> str:
    """Advice: the cause that was seen, and what to do."""
    if case.status not in SEEN:
        return case.status.advice
    if case.attained:
        return (
            f"The residual is {case.part:.1e} of ‖b‖, which is all that rounding leaves to reach: loosen rtol, or "
            f"raise atol. {'' if case.part <= SINGULAR[case.dtype] else _null_vectors(case)}".rstrip()
        )
    sure = case.has_used("direct") and case.status is Status.STAGNATED
    others = () if sure else (_other_preconditioners(case), _modes(case))
    sentences = [_seen(case), *others, _other_bases(case), _null_vectors(case)]
    return " ".join(sentence for sentence in sentences if sentence)


def _seen(case: Case) -> str:
    done, further = len(case.residuals) - 1, case.further
    if case.status is Status.DIVERGED:
        return "The residual grew without bound: check that A, and M if it is yours, is what the method needs."
    if case.status is Status.BREAKDOWN:
        return "The method had to divide by zero and cannot go on from here: A may be singular."
    if case.status is Status.STAGNATED:
        if case.part <= SMALL:
            return (
                f"The residual no longer falls, and is {case.part:.1e} of ‖b‖: that may be all that rounding leaves to "
                f"reach. Loosen rtol, or raise atol."
            )
        return f"The residual no longer falls, and is {case.part:.1e} of ‖b‖."
    if not done:
        return "There was no iteration: raise maxiter."
    if further <= TIMES * done:
        return (
            f"The residual still falls: at the pace of the last iterations {math.ceil(further)} more are needed. Raise "
            f"maxiter, or pass x as x0 to go on."
        )
    if done < TELLING:
        return f"The residual does not fall in the first {'iteration' if done == 1 else 'iterations'}: raise maxiter."
    small = " Loosen rtol, or raise atol." if case.part <= SMALL else ""
    return (
        f"The residual hardly falls any more, and is {case.part:.1e} of ‖b‖: a few more iterations are no help.{small}"
    )


def _other_preconditioners(case: Case) -> str:
    """Preconditioners that would serve and were not in use."""
    problem = case.problem
    if problem.operator is not None and problem.operator.alone:
        return "Give M_from=, a matrix near A, of which M can be made."
    if problem.lattice:
        names = ["auto"] if not case.has_used(*MULTIGRID) else []
    else:
        coarsens = problem.elliptic or not (problem.asymmetry or problem.indefinite)
        names = [*(["amg"] if coarsens and not problem.hollow else []), *(["ilu0"] if problem.asymmetry else [])]
        names = [name for name in [*names, "direct"] if not case.has_used(name)]
    if not names:
        return ""
    return f"Use M={' or '.join(map(repr, names))}."


def _other_bases(case: Case) -> str:
    if case.method == "bicgstab":
        return "method='gmres' falls steadily."
    if case.method in ("gmres", "fgmres") and case.restart is not None and case.restart < math.prod(case.problem.grid):
        return f"Leave restart={case.restart} out: the basis then grows where residuals stall."
    return ""


def _modes(case: Case) -> str:
    problem = case.problem
    if not isinstance(problem, MatrixProblem) or problem.asymmetry or problem.guided or problem.elliptic:
        return ""
    if problem.block == 1 and not case.has_used("amg"):
        return ""
    return (
        "If A is that of an elastic body, give its rigid body modes: dsolver.matrix(A, "
        "near_nullspace=dsolver.rigid_body_modes(points)), and M='amg'."
    )


def _null_vectors(case: Case) -> str:
    problem = case.problem
    known = problem.lattice or problem.null_vectors or problem.singular
    if known or case.status is Status.MAX_ITERATIONS:
        return ""
    if problem.operator is not None and problem.operator.alone:
        return "If A is singular, take its null vectors out of b."
    return "If A is singular, name its null vectors by dsolver.matrix(A, nullspace=...)."
