"""`eigsh`: some eigenvalues of A x = λ B x and their vectors, in one call."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Final, Literal, get_args

import numpy as np

from dsolver.cluster.runtime import DeviceName, EngineName
from dsolver.dask_types import Client
from dsolver.eigen.pairs import Eigenpairs
from dsolver.eigen.pencil import GivenPencil, given_pencil
from dsolver.eigen.search import SpectrumEnd, Wanted, program_of, search
from dsolver.eigen.shift_invert import shift_inverted
from dsolver.eigen.vectors import together
from dsolver.errors import DsolverError, InputError, check_tolerance, in_a_line
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.auto import Auto, coarsens
from dsolver.preconditioners.direct.choice import cost_little, may_be_last
from dsolver.preconditioners.registry import check_matrix
from dsolver.problems import Problem
from dsolver.program.eigen import EigenProgram
from dsolver.session.arguments import client_of, likely_device, on_gpu_here
from dsolver.session.facts import chosen
from dsolver.session.notes import notes_of
from dsolver.session.options import PrecondDtype, Setup
from dsolver.session.session import Session
from dsolver.session.signatures import refusing, spelled_out
from dsolver.session.user_arrays.several import columns
from dsolver.status import Status

Which = Literal["SM", "SA", "LA", "LM"]
MAXITER: Final = 1000
FAR: Final = 2.0**20
"""Distance of sigma, over the size of A, from which on the values nearest to it are sought as those of an end."""
SEEN: Final = 1e-4  # part of the largest value found from which on rounding is no detail
PROBED: Final = 10  # iterations in which negative values show, if there are any of the magnitude of the highest ones


@refusing(
    checkpoint="save vectors of a search that maxiter= has ended, as numpy.save does, and give them as v0= to go on",
    resume="give the vectors of a search that maxiter= has ended as v0=",
    return_eigenvectors="values alone are dsolver.eigsh(...).values",
    OPinv="M= takes a preconditioner of A - sigma B; by default there are factors of it",
    M_from="give dsolver.operator(A, M_from=...) as A",
)
@spelled_out()
def eigsh(
    A: Any,
    k: int = 6,
    *,
    B: Any = None,
    M: Any = "auto",
    which: Which = "SM",
    sigma: float | None = None,
    tol: float = 1e-8,
    v0: Any = None,
    maxiter: int | None = None,
    client: Client | Literal[False] | None = None,
    engine: EngineName = "auto",
    device: DeviceName = "auto",
    precond_dtype: PrecondDtype = "auto",
) -> Eigenpairs:
    """Some eigenvalues of A x = λ B x and their vectors, by LOBPCG with multigrid or factors.

    ``w, v = dsolver.eigsh(A, 10)`` has the shapes of `scipy.sparse.linalg.eigsh`; here the lowest values are the usual
    ones, M is a preconditioner, and B is SciPy's M. Each iteration takes the vectors X with the least trace of XᵀA X,
    XᵀB X = 1, in the span of the last X, of the last directions, and of M (A X - B X Λ) (Knyazev 2001, with the
    orthonormal basis of Duersch, Shao, Yang and Gu 2018).

    Args:
        A: a symmetric sparse matrix of SciPy or CuPy, see `dsolver.matrix`, whose ``nullspace=`` has vectors of value
            0, such as the rigid motions of a free body; or a problem of `dsolver.problems`. Values of finite volumes
            are those of the differential operator: B has the cells' volumes.
        k: how many; of a matrix of few rows all, too.
        B: a mass matrix: sparse, symmetric and positive definite, where A is a matrix; or its diagonal, an array like a
            right-hand side; on cells a density; or a number. By default the identity.
        M: the preconditioner, near A⁻¹, as in `dsolver.Solver`, but no matrix. It is not used for the highest values.
        which: "SM", those of least magnitude; "SA", the lowest; "LA", the highest; "LM", those of largest magnitude.
        sigma: those nearest to this number. Where it lies within the spectrum, A is to be a matrix in this process, and
            ARPACK of SciPy finds them, with solves by ``M`` (factors by default).
        tol: finished when ‖A x - λ B x‖₂ <= tol |λ| ‖B x‖₂ for each, or is what rounding leaves. λ itself has then
            about twice as many digits.
        v0: first guesses, like a right-hand side, or several: (n, m) of a matrix, (nx, ny, nz, m) of a grid. Those of
            `Eigenpairs.vectors` continue a search that maxiter has ended: save them for a checkpoint. Vectors come in
            its kind of array. By default what M makes of rough vectors, the same for any number of workers.
        maxiter: iterations at most; 1000 by default.
        client: as in `dsolver.solve`.
        engine: as in `dsolver.solve`.
        device: as in `dsolver.solve`.
        precond_dtype: as in `dsolver.solve`.

    Returns:
        Values and vectors, that unpack as (w, v), with residuals, status and notes. Not to converge is no exception.

    Raises:
        InputError: an argument cannot be right, A is complex or not symmetric, or "SM" was asked for and A is
            indefinite and no matrix in this process.
        DeviceError: as of `dsolver.solve`.
        ClusterError: as of `dsolver.solve`.
    """
    began = time.perf_counter()
    if hasattr(M, "shape") and not hasattr(M, "matvec"):  # else values of another pencil would pass for SciPy's
        raise InputError(
            "M is a matrix: a mass matrix, SciPy's M, is B= here; a preconditioner is to be a LinearOperator, as "
            "scipy.sparse.linalg.aslinearoperator makes"
        )
    setup = Setup(client=client, engine=engine, device=device, M=M, precond_dtype=precond_dtype, method="cg")
    pencil = given_pencil(A, B, gpu=on_gpu_here(setup))
    _check(pencil, k, which, sigma)
    check_tolerance("tol", tol)
    guesses, like = _guesses(pencil, A, v0, client_of(setup))
    terms = Wanted(count=int(k), tol=tol, maxiter=_count("maxiter", MAXITER if maxiter is None else maxiter))
    seeker = _Seeker(setup=setup, guesses=guesses, like=like, began=began)
    if terms.count == math.prod(pencil.problem.grid):  # all, whichever were asked for
        return seeker.end(pencil, terms, highest=False)
    if sigma is not None:
        shift = float(sigma) - pencil.offset
        if shift != 0.0 and _is_far(pencil, shift):
            return seeker.end(pencil, terms, highest=shift > 0.0)
        shifted = pencil if shift == 0.0 else pencil.shifted(shift)
        found = seeker.lowest(shifted, terms)
        return seeker.inside(pencil, terms, shift) if found is None else found.moved(shift)
    if which == "SM":
        return seeker.lowest(pencil, terms) or seeker.inside(pencil, terms, 0.0)
    if which == "LM":
        return seeker.largest(pencil, terms)
    return seeker.end(pencil, terms, highest=which == "LA")


@dataclass(frozen=True, kw_only=True)
class _Seeker:
    """Searches with the same options, for vectors in the kind of the array `like`."""

    setup: Setup
    guesses: Sequence[Any]
    like: Any
    began: float

    def lowest(self, pencil: GivenPencil, terms: Wanted) -> Eigenpairs | None:
        """Values of least magnitude of a semidefinite matrix; None where A is found to be indefinite."""
        found = self._found(pencil, [replace(terms, definite=True)])
        return None if found.status is Status.INDEFINITE else found

    def end(self, pencil: GivenPencil, terms: Wanted, *, highest: bool) -> Eigenpairs:
        """Values at an end; where A is indefinite M is of A less a number beyond its spectrum, if that is known."""
        plain = replace(self, setup=replace(self.setup, M=None))
        if highest ^ pencil.negated:
            return plain._found(pencil, [replace(terms, highest=True)])
        found = self.lowest(pencil, terms)
        if found is not None:
            return found
        beyond = pencil.beyond(upper=highest)
        if beyond is None:
            return plain._found(pencil, [terms])
        return self._found(pencil.shifted(beyond), [terms]).moved(beyond)

    def largest(self, pencil: GivenPencil, terms: Wanted) -> Eigenpairs:
        """Values of largest magnitude: of both ends, unless few iterations at the lower one show nothing negative."""
        ends = [replace(terms, highest=True), replace(terms, plain=True, probed=PROBED)]
        return replace(self, setup=replace(self.setup, M=None))._found(pencil, ends)

    def inside(self, pencil: GivenPencil, terms: Wanted, shift: float) -> Eigenpairs:
        """Values nearest to a number within the spectrum."""
        return shift_inverted(pencil, self.setup, terms, shift, self.guesses, self.like, self.began)

    def _found(self, pencil: GivenPencil, ends: Sequence[Wanted]) -> Eigenpairs:
        """Values by the first preconditioner that leads to an end, or by the one that has come nearest to it."""
        problem, every = replace(pencil.problem, notes=()), list[Eigenpairs]()  # they tell of solves
        for m in _usual(self.setup, problem):
            with suppress(DsolverError) if every else nullcontext():  # of factors for which there is no memory
                every.append(self._found_by(m, pencil, problem, ends))
            found = every[-1]
            if found.converged or (found.status is not Status.STAGNATED and found.iterations < MAXITER):
                return found
        return min(every, key=lambda found: found.distance)

    def _found_by(self, m: Any, pencil: GivenPencil, problem: Problem, ends: Sequence[Wanted]) -> Eigenpairs:
        setup = replace(self.setup, M=m)
        ends = [replace(end, offset=pencil.offset / pencil.factor) for end in ends]
        wishes = setup.wishes(problem, likely_device(setup))
        check_matrix(wishes.m, problem)
        with Session(problem, setup, wishes, EigenProgram) as session:
            took, searching = session.took, time.perf_counter()
            if len(ends) > 1:  # which have none twice
                others = program_of(session).call(EigenProgram.open_rows) - ends[0].count
                ends = [ends[0], *(replace(end, count=min(end.count, others)) for end in ends[1:] if others > 0)]
            made = [search(session, end, self.guesses, pencil.diagonal, self.like) for end in ends]
            parts = [zip(end.values, end.residuals, end.limits, end.vectors, strict=True) for end in made]
            rows = [
                (pencil.factor * float(value) + pencil.offset, float(residual), float(limit), vector)
                for part in parts
                for value, residual, limit, vector in part
            ]
            if len(made) > 1:
                rows = sorted(rows, key=lambda row: -abs(row[0]))[: ends[0].count]
            rows.sort(key=lambda row: row[0])
            numbers = np.array([row[:3] for row in rows])
            failed = [end.status for end in made if not end.status.converged]
            m = "none" if ends[0].highest else chosen(session).asked
            return Eigenpairs(
                values=numbers[:, 0],
                vectors=together([row[3] for row in rows], self.like),
                residuals=abs(pencil.factor) * numbers[:, 1],
                limits=abs(pencil.factor) * numbers[:, 2],
                status=failed[0] if failed else Status.CONVERGED,
                iterations=sum(end.iterations for end in made),
                timings={
                    "setup": took,
                    "search": time.perf_counter() - searching,
                    "total": time.perf_counter() - self.began,
                },
                engine=session.system.described,
                solved_by=f"lobpcg with {m}",
                notes=notes_of(session) + _rounded(made, abs(pencil.factor)),
            )


def _is_far(pencil: GivenPencil, shift: float) -> bool:
    """Whether a number is so far beyond the spectrum that A - shift B would keep few digits of A."""
    beyond = pencil.beyond(upper=shift > 0.0)
    return beyond is not None and abs(shift) > FAR * abs(beyond)


def _rounded(ends: Sequence[SpectrumEnd], factor: float) -> tuple[str, ...]:
    """A note where rounding is not small beside the largest value that was found."""
    most, largest = (max(sizes) for sizes in zip(*((e.rounding, abs(e.values).max()) for e in ends), strict=True))
    told = f"A is so much larger than these values that rounding may have changed them by {factor * most:.1g}"
    return (told,) if most > SEEN * largest else ()


def _usual(setup: Setup, problem: Problem) -> list[Any]:
    """M; for "auto" multigrid where that serves, and factors, first where they cost little; None where A is indefinite.

    Factors tell nothing of unknown null vectors, and multigrid little of rotations.
    """
    if not setup.free or problem.operator is not None:
        return [setup.M]
    if problem.lattice:
        return [Auto(jacobi=False)]
    if problem.indefinite or problem.hollow:
        return [None]
    dominated = isinstance(problem, MatrixProblem) and problem.dominated
    usual = "chebyshev" if dominated else "amg" if coarsens(problem) else setup.M
    tried = ["direct", usual] if isinstance(problem, MatrixProblem) and cost_little(problem) else [usual, "direct"]
    return tried if may_be_last(problem) else [usual]


def _check(pencil: GivenPencil, k: Any, which: Any, sigma: Any) -> None:
    rows = math.prod(pencil.problem.grid)
    if not isinstance(k, Integral) or not 1 <= int(k) <= rows:
        raise InputError(f"k must be an integer from 1 to A's {rows} rows, not {in_a_line(k)}")
    if which not in get_args(Which):
        raise InputError(f"which must be one of {', '.join(map(repr, get_args(Which)))}, not {in_a_line(which)}")
    if sigma is not None and not (isinstance(sigma, Real) and math.isfinite(sigma)):
        raise InputError(f"sigma must be a finite number, not {in_a_line(sigma)}")


def _count(name: str, value: Any) -> int:
    if not isinstance(value, Integral) or int(value) < 0:
        raise InputError(f"{name} must be an integer >= 0, not {in_a_line(value)}")
    return int(value)


def _guesses(pencil: GivenPencil, A: Any, v0: Any, client: Any) -> tuple[list[Any], Any]:
    """First guesses, and an array of the kind that vectors are wanted in. InputError: v0 has another shape."""
    problem = pencil.problem
    if v0 is None:
        if type(A).__module__.startswith("cupyx"):
            return [], np.zeros_like(A.data, shape=problem.shape, dtype=np.float64)
        return [], np.broadcast_to(0.0, problem.shape)
    shape = tuple(getattr(v0, "shape", ()))
    if shape == problem.shape:
        return [v0], v0
    if len(shape) == len(problem.shape) + 1:
        found = columns(problem, "v0", v0, client)
        if 0 < len(found) <= math.prod(problem.grid):
            return found, found[0]
    several = f"({', '.join(map(str, problem.shape))}, m)"
    raise InputError(
        f"v0 has shape {shape}, but must have {problem.shape}, or {several} for m guesses, as rows at most"
    )
