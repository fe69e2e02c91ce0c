"""Eigenvalues inside the spectrum: ARPACK of SciPy on (A - σB)⁻¹B, with this package's solves.

Ericsson and Ruhe, Math. Comp. 35, 1980. Its vectors lie in this process; solves run wherever they are set up.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import Any, Final

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator
from scipy.sparse.linalg import eigsh as arpack

from dsolver.eigen.pairs import Eigenpairs
from dsolver.eigen.pencil import GivenPencil
from dsolver.eigen.search import Wanted
from dsolver.errors import InputError
from dsolver.matrices.matrix import matrix
from dsolver.session.arguments import prepared
from dsolver.session.facts import chosen
from dsolver.session.notes import notes_of
from dsolver.session.options import Options, Setup
from dsolver.session.session import Session
from dsolver.session.solving.solves import solve_all
from dsolver.session.user_arrays import RightHandSides
from dsolver.status import Status

RTOL: Final = 1e-12
WRONG: Final = 1e-6  # residual of a solve, as a part of ‖b‖, from which on ARPACK would be misled
ALIKE: Final = 1e-8  # part of their distance from σ by which values may differ that count as equally near
ASIDE: Final = 2.0**-20
"""Distance from an eigenvalue to which solves are shifted, as a part of the size of A: far above rounding."""


class _EigenvalueMetError(Exception):
    """A - σB is singular: σ is an eigenvalue itself, which solves with their least x would hide."""


def shift_inverted(
    pencil: GivenPencil, setup: Setup, wanted: Wanted, shift: float, guesses: Sequence[Any], like: Any, began: float
) -> Eigenpairs:
    """Eigenvalues nearest to a number within the spectrum, or to one of them. InputError: A is no matrix here."""
    found, told = pencil.matrices, f"sigma={shift + pencil.offset:g}"
    if found is None:
        raise InputError(
            "A is indefinite, so its lowest eigenvalues are not those of least magnitude: which='SA' finds the lowest "
            "ones; for those nearest to sigma=0 give A as a sparse matrix of SciPy"
        )
    a, b = found
    size = _size(a) / (1.0 if b is None else _size(b))
    scale = math.ldexp(1.0, -math.frexp(size)[1])  # ARPACK takes values of (A - σB)⁻¹B below 1e-11 for zeros
    nearest = partial(_nearest, pencil, a, b, scale, setup, wanted, guesses, like, began, told)
    try:
        return nearest(shift)
    except _EigenvalueMetError:
        return nearest(shift + ASIDE * size)


def _nearest(
    pencil: GivenPencil,
    a: Any,
    b: Any,
    scale: float,
    setup: Setup,
    wanted: Wanted,
    guesses: Sequence[Any],
    like: Any,
    began: float,
    told: str,
    shift: float,
) -> Eigenpairs:
    n = a.shape[0]
    moved = a - shift * b if b is not None else a - shift * scipy.sparse.eye_array(n)
    setup = replace(setup, M="direct" if setup.free else setup.M, method=None)
    problem = replace(matrix(moved * scale), notes=())
    first = _on_host(guesses[0]) if guesses else np.random.default_rng(0).standard_normal(n)
    with Session(problem, setup, prepared(problem, RightHandSides.of(problem, first, None), setup)) as session:
        took, searching = session.took, time.perf_counter()
        values, vectors, status = _pairs(_inverse(session, told), b, shift * scale, wanted, first)
        order = np.argsort(values)
        values, vectors = values[order] / scale, vectors[:, order]
        bx = vectors if b is None else b @ vectors
        wanted_at = wanted.tol * abs(values + pencil.offset) * np.linalg.norm(bx, axis=0)
        rounding = 2.0**-47 * _size(a) * np.linalg.norm(vectors, axis=0)
        return Eigenpairs(
            values=values + pencil.offset,
            vectors=np.asarray(vectors, like=like),
            residuals=np.linalg.norm(a @ vectors - bx * values, axis=0),
            limits=np.maximum(wanted_at, rounding),
            status=status,
            iterations=0,
            timings={"setup": took, "search": time.perf_counter() - searching, "total": time.perf_counter() - began},
            engine=session.system.described,
            solved_by=f"ARPACK of SciPy with {chosen(session).asked}",
            notes=(
                *notes_of(session),
                f"{told} lies within the spectrum: ARPACK has found the values, with solves with A - sigma B",
            ),
        )


def _pairs(inverse: Callable[[Any], Any], b: Any, shift: float, wanted: Wanted, first: Any) -> tuple[Any, Any, Status]:
    """Values nearest to a shift σ, (k,), their vectors (n, k), and how the search ended; `inverse`: (A - σB)⁻¹.

    Of equal values ARPACK finds some. Others lie beside these vectors, where it searches again, from random numbers,
    until nothing there is nearer than what is known.
    """
    n, values, vectors = len(first), np.empty(0), np.empty((len(first), 0))
    for count in chain((wanted.count, 1), repeat(wanted.count)):

        def beside(x: Any, known: Any = vectors, bx: Any = vectors if b is None else b @ vectors) -> Any:
            return x - known @ (bx.T @ x)

        operator = LinearOperator((n, n), matvec=lambda r, to=beside: to(inverse(np.ravel(r))), dtype=np.float64)
        options = {"sigma": shift, "OPinv": operator, "tol": wanted.tol / 100, "v0": beside(first)}
        status = Status.CONVERGED
        try:
            more, others = arpack(operator, min(count, n - len(values)), M=b, **options)
        except ArpackNoConvergence as error:
            more, others, status = error.eigenvalues, error.eigenvectors, Status.MAX_ITERATIONS
        known = max(abs(values - shift), default=math.inf)
        if status.converged and min(abs(more - shift)) >= (1.0 - max(wanted.tol, ALIKE)) * known:
            break
        values, vectors = np.append(values, more), np.hstack([vectors, others])
        nearest = np.argsort(abs(values - shift), kind="stable")[: wanted.count]
        values, vectors = values[nearest], vectors[:, nearest]
        if not status.converged:
            break
        first = np.random.default_rng(len(values)).standard_normal(n)
    return values, vectors, status


def _inverse(session: Session, told: str) -> Callable[[Any], Any]:
    """The inverse of a session's matrix, by its solves, which fail with an InputError."""

    def solve(r: Any) -> Any:
        (solution,) = solve_all(session, [(r, None)], Options(rtol=RTOL))
        if solution.status is Status.INCOMPATIBLE_RHS:
            raise _EigenvalueMetError
        if not solution.true_residual <= WRONG * max(solution.b_norm, np.finfo(float).tiny):
            raise InputError(
                f"A - sigma B with {told} cannot be solved with ({solution.status}): take another M, or a number "
                f"beside sigma"
            )
        return solution.x

    return solve


def _size(a: Any) -> float:
    return float(abs(a).sum(axis=1).max())


def _on_host(values: Any) -> Any:
    return values.get() if type(values).__module__.startswith("cupy") else np.asarray(values)
