"""Right-hand sides of singular systems: of a part that no x can reach, and how a solve for the rest has ended."""

from __future__ import annotations

import math
from typing import Final

from dsolver.errors import InconsistentWarning
from dsolver.iteration import Tolerances
from dsolver.notices import warn
from dsolver.solution import Status

CONSISTENT: Final = 1e-10
"""How large n·b / (‖n‖ ‖b‖) may be without a word where A n = 0: far above rounding, far below a forgotten flux."""


def warn_inconsistent(inconsistency: float) -> None:
    """Tell that there was no solution for the b that was given.

    Args:
        inconsistency: the length of the part that no x can reach over that of b.
    """
    if inconsistency > CONSISTENT:
        warn(
            f"the right-hand side has no solution: constants solve A x = 0, and the sum of b should be zero but is "
            f"{inconsistency:.1e} of ‖1‖ ‖b‖. A constant was subtracted from the source. Check that it and the fluxes "
            f"through the boundary balance",
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
