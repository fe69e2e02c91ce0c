"""Requirements of algebraic multigrid that not every matrix meets."""

from typing import Final

from dsolver.errors import InputError

ONE_SIDED: Final = "M='amg' needs A[j, i] stored wherever A[i, j] is: use (A + A.T) / 2"


def check_diagonal(wrong: int) -> None:
    """Refuse a matrix with so many diagonal entries that are not positive; raises InputError unless it is none."""
    if wrong:
        raise InputError(
            f"A has {wrong} diagonal entries that are not positive: algebraic multigrid is for positive definite "
            f"matrices; use M='jacobi'"
        )
