"""Right-hand sides of singular systems: of a part that no x can reach, and how a solve for the rest has ended."""

from __future__ import annotations

import math

from dsolver.errors import InconsistentWarning
from dsolver.iteration import Tolerances
from dsolver.notices import warn
from dsolver.nullspace import CONSISTENT, Excess
from dsolver.solution import Status


def warn_inconsistent(excess: Excess) -> None:
    """Tell that there was no solution for the b that was given."""
    if excess.part <= CONSISTENT:
        return
    if excess.cell is None:
        what = (
            f"constants solve A x = 0, and the sum of b should be zero but is {excess.part:.1e} of ‖1‖ ‖b‖. A constant "
            f"was subtracted from the source"
        )
    elif not excess.regions:  # each is within the bound, of which all together are not
        what = (
            f"in {excess.closed} closed regions constants solve A x = 0, and the sum of b should be zero; in all "
            f"together it misses that by {excess.part:.1e} of ‖b‖, in none by much. A constant was subtracted from the "
            f"source in each"
        )
    else:
        what = (
            f"in closed regions constants solve A x = 0, and the sum of b should be zero, but it is not in "
            f"{excess.regions} of {excess.closed}; in the worst, that of cell {excess.cell}, it is {excess.worst:.1e} "
            f"of ‖1‖ ‖b‖. A constant was subtracted from the source in each"
        )
    warn(
        f"the right-hand side has no solution: {what}. Check that it and the fluxes through the boundary balance",
        InconsistentWarning,
    )


def for_all_of_b(status: Status, inconsistency: float, b_norm: float, tolerances: Tolerances) -> Status:
    """How a solve has ended for the b that was given, of which a part may be out of A's reach.

    Args:
        status: for the rest of b.
        inconsistency: the length of that part over that of b.
        b_norm: the length of the rest.
        tolerances: of the solve.
    """
    if inconsistency <= CONSISTENT:
        return status
    rest = math.sqrt(max(0.0, 1.0 - inconsistency * inconsistency))
    if rest <= CONSISTENT:  # what is left of b is rounding, and so is what became of it
        return Status.INCOMPATIBLE_RHS
    whole = b_norm / rest
    missed = inconsistency * whole > tolerances.limit(whole)
    return Status.INCOMPATIBLE_RHS if status.converged and missed else status
