"""Report on a solve beside its x: its status for all of b, notes, and the case that advice is given on."""

import math
from collections.abc import Sequence
from typing import Final

from dsolver.distributed.nullspace import Inconsistency
from dsolver.errors import warn
from dsolver.krylov.methods import serving_any
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.solved_matrix import UNTOLD
from dsolver.preconditioners import Direct
from dsolver.problems import Problem
from dsolver.problems.finite_volumes import Diffusion
from dsolver.session.follower import History
from dsolver.session.options import Options
from dsolver.session.session import Session
from dsolver.session.solving.advice import Case
from dsolver.session.solving.loading import LoadedColumn, rounding_of
from dsolver.status import Status

ASYMMETRY: Final = 1e-6
"""From where on a preconditioner is not symmetric, as a part of its size: more than rounding, or a solver inside that
stops at a tolerance."""

SOLVED: Final = 5e-4
"""‖D⁻¹r‖ / ‖D⁻¹b‖ up to which small rows have a digit: with 9e-4 and 2e-3 a plane of 60² cells was off by 0.14 and 0.38
beside penalties of 1e14 and 1e15. Errors are larger by the condition of those rows."""
TIMES: Final = 30.0  # times the tolerance that it may be in any case

INSULATED: Final = (
    "A is singular, or nearly so: multigrid's coarsest matrix has pivots below 1e-12 of its diagonal, or factors keep "
    "fewer than three digits, as of a pressure that nothing holds, or of a part of the domain that couplings as small "
    "join to the rest. Its constant may be wrong in all digits of x, and ‖b - Ax‖ does not tell: hold x there, or "
    "leave such insulation out with mask=; M='direct' loses fewer digits than multigrid"
)

ROUNDING: Final = 2.0**-44  # part of ‖b‖² that cannot be told from nothing, where it is what another part leaves of 1


def of_cells(problem: Problem) -> Problem | None:
    """The diffusion problem that was solved; None for others."""
    found = problem.of_grid if isinstance(problem, MatrixProblem) else problem
    return found if found is not None and isinstance(found.rule, Diffusion) else None


def solved_by(session: Session, load: LoadedColumn) -> str:
    """The method and the preconditioner with which a solve has ended."""
    own = session.wishes.m is session.first.m
    m = load.begun.chosen if own else session.wishes.m
    return f"{session.spec.method} with {m.asked}"


def sealed(excess: Inconsistency) -> tuple[str, ...]:
    """A note where a mask keeps all cells from the boundary conditions that would fix the solution."""
    if not excess.sealed:
        return ()
    note = (
        "no cell that the mask leaves is connected with a face where bc fixes u: in each closed region x has mean "
        "zero, and values at the faces play no part. mask= is true at the cells to leave out, active= at those to "
        "keep: is the other one meant?"
    )
    warn(note, RuntimeWarning)
    return (note,)


def insulated(load: LoadedColumn, ended: Status) -> tuple[str, ...]:
    """A note where x is called converged though a part of it is hardly joined to the rest, or not at all."""
    begun = load.begun
    blurred = begun.skipped or (isinstance(begun.chosen, Direct) and begun.chosen.blurred)
    if not (blurred and ended.converged) or begun.excess.closed or begun.excess.vectors:
        return ()
    return (INSULATED,)


def uneven(session: Session, load: LoadedColumn, history: History, options: Options) -> tuple[str, ...]:
    """A note where the residual was small in rows of a large scale alone; a warning, too, where it still is.

    And a warning where A's columns differ in size as well, of which A has a note. Factors get neither: they solve small
    rows as well as large ones.
    """
    factors = isinstance(load.begun.chosen, Direct) or isinstance(session.wishes.m, Direct)
    for told in session.problem.notes:
        if UNTOLD in told and history.ended.converged and not factors:
            warn(told, RuntimeWarning)
    if history.by_rows is None:
        return ()
    what = "A has rows of very different scales, or columns, and ‖b - Ax‖ was small in the large ones alone"
    note = f"{what}: with each row divided by its diagonal the residual is {history.by_rows:.1e} of b or x"
    b_norm = load.begun.b_norm
    if history.by_rows * b_norm > max(SOLVED * b_norm, TIMES * options.limit(b_norm)) and not factors:
        note += (
            ", and unknowns of small rows may be wrong in all digits: scale rows and columns so that the diagonal is "
            "about 1, use M='direct', or hold unknowns without a penalty, as fixed= of a grid does"
        )
        warn(note, RuntimeWarning)
    return (note,)


def case_of(session: Session, load: LoadedColumn, history: History, ended: Status, options: Options) -> Case:
    """The case of a solve that advice is given on."""
    return Case(
        status=ended,
        problem=session.problem,
        method=session.spec.method,
        used=(session.first.m, load.begun.chosen, session.wishes.m),
        restart=session.first.restart,
        residuals=history.residuals,
        true_residual=history.true_residual,
        b_norm=load.begun.b_norm,
        limit=options.limit(load.begun.b_norm),
        dtype=session.spec.dtype,
        attained=history.attained,
    )


def asymmetric(session: Session, ends: Sequence[Status]) -> tuple[str, ...]:
    """A note where solves have not converged and M is not symmetric."""
    traits = session.spec.traits
    if not traits.symmetric or all(end.converged or end is Status.STOPPED for end in ends):
        return ()
    found = session.wishes.m.asymmetry()
    if not found > ASYMMETRY:
        return ()
    flexible = "" if session.spec.method == "fcg" else "'fcg', "
    note = (
        f"M is not symmetric: xᵀMy and yᵀMx of random x and y differ by {found:.1g} of their size, and "
        f"method={session.spec.method!r} needs M = Mᵀ. Incomplete LU factors (spilu) are not: use a preconditioner of "
        f"dsolver's, or method={flexible}{serving_any()}"
    )
    warn(note, RuntimeWarning)
    return (note,)


def for_all_of_b(session: Session, load: LoadedColumn, status: Status, options: Options) -> Status:
    """Status of a solve for the b that was given, of which a part may be out of A's reach."""
    inconsistency, b_norm = load.begun.excess.part, load.begun.b_norm
    if inconsistency <= rounding_of(session, load.right):
        return status
    rest = 1.0 - inconsistency * inconsistency
    if rest <= ROUNDING:  # what is left of b is rounding, and so is what became of it
        return Status.INCOMPATIBLE_RHS
    whole = b_norm / math.sqrt(rest)
    missed = inconsistency * whole > options.limit(whole)
    return Status.INCOMPATIBLE_RHS if status.converged and missed else status
