"""Least squares with the arguments and results of `scipy.sparse.linalg`."""

from typing import Any, Final, Unpack, cast

from dsolver.least_squares.options import LeastSquaresArguments, LeastSquaresOptions, Tolerances
from dsolver.least_squares.solution import LeastSquaresSolution
from dsolver.least_squares.solve import solve_least_squares
from dsolver.session.signatures import refusing, spelled_out

GOING_ON: Final = {
    "checkpoint": "save x of a solve that maxiter= has ended, as numpy.save does, and give it as x0= to go on",
    "resume": "give x of a solve that maxiter= has ended as x0=",
}
"""Substitutes for arguments of `dsolver.solve` that methods for least squares do not take."""


@refusing(**GOING_ON)
@spelled_out(LeastSquaresOptions)
def lsmr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    maxiter: int | None = None,
    x0: Any = None,
    **arguments: Unpack[LeastSquaresArguments],
) -> LeastSquaresSolution:
    """The x with least ‖b - A x‖₂² + damp² ‖x‖₂², by LSMR (Fong and Saunders 2011), for an A of any shape and rank.

    Where A x = b has solutions, x is one; where A has less rank than columns, the shortest one. A and its transpose are
    stored, each distributed by rows. In each iteration ‖Aᵀr - damp² x‖ is least in the space of Aᵀb, AᵀA Aᵀb ...

    Args:
        A: (m, n), a real sparse matrix of `scipy.sparse` or `cupyx.scipy.sparse` in any format.
        b: right-hand side, (m,) or (m, 1): an array of NumPy, CuPy or Dask, or of a package that knows DLPack. Several
            are (m, k), or a list, and are solved one after the other with one set-up.
        damp: weight of the unknowns. With x0 it damps x - x0, as in SciPy.
        atol: finished when ‖Aᵀr‖ <= atol ‖A‖ ‖r‖, with r = b - A x.
        btol: or when ‖r‖ <= btol ‖b‖ + atol ‖A‖ ‖x‖. As exact as A and b are, relative to their norms. Where few rows
            are 10⁶ times as large as others, x has what these tell from atol = btol = 1e-12 on, as in SciPy.
        conlim: ended when the condition number of A, as far as it was met, exceeds this; 0 for no limit.
        maxiter: iterations at most; min(m, n) by default.
        x0: first guess, (n,), of several (n, k); zero by default.

    Returns:
        The solution, which unpacks as the tuple of SciPy's function does, or `dsolver.LeastSquaresSolutions` of
        several. Not to reach a tolerance is no exception.
    """
    tolerances = Tolerances(damp=damp, atol=atol, btol=btol, conlim=conlim, maxiter=maxiter)
    found = solve_least_squares("lsmr", A, b, x0, tolerances, LeastSquaresOptions(**arguments))
    return cast(LeastSquaresSolution, found)  # no type of an array tells whether it is several


@refusing(**GOING_ON)
@spelled_out(LeastSquaresOptions)
def cgls(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    maxiter: int | None = None,
    x0: Any = None,
    **arguments: Unpack[LeastSquaresArguments],
) -> LeastSquaresSolution:
    """The x with least ‖b - A x‖₂² + damp² ‖x‖₂², by CGLS (Björck 1996), for an A of any shape and rank.

    Conjugate gradients on the normal equations (AᵀA + damp²) x = Aᵀb: the solution of `dsolver.lsmr` with less vectors.
    Iterates of LSMR have the smaller ‖Aᵀr‖, those of CGLS the smaller ‖r‖: stopped early, both regularize.

    Args:
        A: as of `dsolver.lsmr`.
        b: as of `dsolver.lsmr`.
        damp: weight of the unknowns, whatever x0 is.
        atol: as of `dsolver.lsmr`; ‖A‖ is the largest ‖A p‖ / ‖p‖ that was met.
        btol: as of `dsolver.lsmr`.
        maxiter: as of `dsolver.lsmr`.
        x0: as of `dsolver.lsmr`.

    Returns:
        The solution, as of `dsolver.lsmr`.
    """
    tolerances = Tolerances(damp=damp, atol=atol, btol=btol, conlim=0.0, maxiter=maxiter)
    found = solve_least_squares("cgls", A, b, x0, tolerances, LeastSquaresOptions(**arguments))
    return cast(LeastSquaresSolution, found)
