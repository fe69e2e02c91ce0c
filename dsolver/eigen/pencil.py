"""A and B of an eigenvalue problem as users give them: checked, and made a problem that a session sets up."""

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Final, Self

import numpy as np
import scipy.sparse

from dsolver.errors import InputError, in_a_line
from dsolver.matrices.checked import look_at, on_host
from dsolver.matrices.chunks.row_block import FED
from dsolver.matrices.composed.grids import ALONE
from dsolver.matrices.matrix import is_matrix, matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.properties import problem_of
from dsolver.matrices.solved_matrix import SolvedMatrix
from dsolver.problems import Problem
from dsolver.problems.coefficient_names import SIGMA
from dsolver.problems.diffusion_problem.problem import changed
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.coefficients import field_of
from dsolver.problems.problem import no_matrix
from dsolver.session.arguments import problem_of as problem_from

ASYMMETRY: Final = 1e-10  # difference of mirrored entries of B, as a part of the largest, that is rounding
VOLUMES: Final = FED[0]
SHIFT: Final = 1e-3  # what is added to A for cells by themselves, over its largest entry


@dataclass(frozen=True, kw_only=True)
class GivenPencil:
    """An eigenvalue problem.

    `negated`: whether the problem is that of -A. `exponent`: of two, by which the problem's A was multiplied.
    """

    problem: Problem  # A, with B among its `parts` where that is a sparse matrix
    diagonal: Any = None  # of B where that is diagonal, of a grid a density, like a right-hand side; else None
    # to be added to eigenvalues of the problem, for the given A has so much of B beside the problem's.
    offset: float = 0.0

    @property
    def negated(self) -> bool:
        """Whether the problem's matrix is -A."""
        return isinstance(self.problem, MatrixProblem) and self.problem.negated

    @property
    def factor(self) -> float:
        """Number by which eigenvalues of the problem are to be multiplied."""
        scale = 2.0**-self.problem.exponent if isinstance(self.problem, MatrixProblem) else 1.0
        return -scale if self.negated else scale

    @property
    def matrices(self) -> tuple[Any, Any] | None:
        """A and B as CSR arrays of SciPy, B None for the identity; None where A is no matrix in this process."""
        problem = self.problem
        if not isinstance(problem, MatrixProblem) or problem.matrix is None or problem.operator is not None:
            return None
        if problem.of_grid is not None or problem.numbers is not None:
            return None
        b = problem.parts[0] if problem.parts else None
        if self.diagonal is not None:
            b = scipy.sparse.diags_array(np.asarray(self.diagonal)).tocsr()
        return on_host(problem.given if problem.empty else problem.matrix) * self.factor, b

    def beyond(self, *, upper: bool) -> float | None:
        """A number beyond the spectrum, by Gershgorin's circles; None where A is not here, or B no diagonal."""
        found = self.matrices
        if found is None or (self.diagonal is None and found[1] is not None):
            return None
        a, b = found
        diagonal, around = a.diagonal(), abs(a).sum(axis=1)
        mass = np.ones(len(diagonal)) if b is None else b.diagonal()
        sign = 1.0 if upper else -1.0
        return sign * float(((sign * diagonal + around - abs(diagonal)) / mass).max())

    def shifted(self, shift: float) -> Self:
        """The problem of A - shift B, with the same B. InputError: A is no matrix in this process."""
        found = self.matrices
        if found is None:
            raise InputError("sigma= is for a sparse matrix of SciPy or CuPy in this process, given as it is")
        a, b = found
        n = a.shape[0]
        moved = matrix(scipy.sparse.csr_array(a - shift * (scipy.sparse.eye_array(n) if b is None else b)))
        assert isinstance(self.problem, MatrixProblem)
        assert isinstance(moved, MatrixProblem)
        return replace(self, problem=replace(moved, parts=self.problem.parts))


def given_pencil(A: Any, B: Any, *, gpu: bool) -> GivenPencil:
    """The pencil that was given as A and B. InputError: A is complex or not symmetric, or B does not fit."""
    A, offset = _without_offset(A, B)
    made = _pencil(A, B, gpu=gpu)
    if any(note.startswith(ALONE) for note in made.problem.notes):
        A, shift = _with_offset(A, B, made.problem)
        return replace(_pencil(A, B, gpu=gpu), offset=offset - shift)
    return replace(made, offset=offset)


def _with_offset(A: Problem, B: Any, made: Any) -> tuple[Problem, float]:
    """A grid's problem with a constant times B added, and the constant: cells by themselves have rows of A then."""
    assert isinstance(A.rule, Diffusion)
    volumes = made.fed[VOLUMES]
    shift = SHIFT * float(on_host(made.matrix).diagonal().max() / volumes.max())
    sigma = field_of(A, SIGMA) if A.rule.sigma is None else A.rule.sigma
    density = 1.0 if B is None else B if isinstance(B, Real) else np.reshape(B, A.grid)
    return changed(A, sigma=np.broadcast_to(sigma + shift * density, A.grid).reshape(A.shape)), shift


def _without_offset(A: Any, B: Any) -> tuple[Any, float]:
    """A grid's problem without its σ, where that is a constant times B, and the constant; other A as they are.

    Vectors are the same, and M of A alone sees them apart: of A + σ B, a matrix near σ B, it would not.
    """
    rule = A.rule if isinstance(A, Problem) else None
    if not isinstance(rule, Diffusion) or not isinstance(rule.sigma, float) or rule.sigma <= 0.0:
        return A, 0.0
    density = 1.0 if B is None else float(B) if isinstance(B, Real) else 0.0
    if density <= 0.0:
        return A, 0.0
    return changed(A, sigma=0.0), rule.sigma / density


def _pencil(A: Any, B: Any, *, gpu: bool) -> GivenPencil:
    problem = problem_from(A, gpu=gpu)
    if not isinstance(problem, Problem):
        raise InputError(
            f"A must be a sparse matrix of SciPy or CuPy, or a problem of dsolver.problems, for example "
            f"dsolver.problems.poisson7(grid), not {no_matrix(A)}"
        )
    if problem.complex:
        raise InputError("A is complex, and eigsh is for real symmetric matrices: scipy.sparse.linalg.eigsh takes it")
    if isinstance(problem, MatrixProblem) and problem.known and problem.given is not None:
        rows = problem.given  # for solves unknowns were taken out, or signs of rows were turned
        turned = SolvedMatrix(rows=rows, look=look_at(rows), negated=problem.negated, exponent=problem.exponent)
        problem = problem_of(turned, problem.name, order=problem.order, formats=problem.formats, block=problem.block)
    if problem.unsymmetric:
        raise InputError(f"A is not symmetric: {problem.unsymmetric}; eigsh needs A = Aᵀ")
    volumes = problem.fed.get(VOLUMES) if isinstance(problem, MatrixProblem) else None
    if B is not None and is_matrix(B):
        return _with_matrix(problem, B)
    diagonal = None if B is None else _diagonal(problem, B)
    if volumes is not None:
        like = diagonal if type(diagonal).__module__.partition(".")[0] == "cupy" else volumes
        volumes = np.asarray(volumes.reshape(problem.shape), like=like)
        diagonal = volumes if diagonal is None else volumes * diagonal
    return GivenPencil(problem=problem, diagonal=diagonal)


def _with_matrix(problem: Problem, B: Any) -> GivenPencil:
    n = int(np.prod(problem.grid))
    if tuple(B.shape) != (n, n):
        raise InputError(f"B has shape {tuple(B.shape)}, but must be {(n, n)}, as A is")
    rows = scipy.sparse.csr_array(B.get() if type(B).__module__.startswith("cupyx") else B)
    if rows.dtype.kind not in "fiu":
        raise InputError(f"B has values of {rows.dtype}, but must be real")
    rows = rows.astype(np.float64)
    rows.sum_duplicates()
    if not np.isfinite(rows.data).all():
        raise InputError("B has values that are NaN or infinite")
    mirrored = abs(rows - rows.T)
    if mirrored.nnz and mirrored.max() > ASYMMETRY * abs(rows).max():
        raise InputError("B is not symmetric: a mass matrix must be so, and positive definite")
    diagonal = rows.diagonal()
    if not (diagonal > 0.0).all():
        bad = int(np.argmin(diagonal))
        raise InputError(f"B is not positive definite: B[{bad}, {bad}] = {diagonal[bad]:.6g}")
    if rows.nnz == n:
        return GivenPencil(problem=problem, diagonal=diagonal.reshape(problem.shape))
    if not isinstance(problem, MatrixProblem):
        raise InputError("on a grid B is diagonal: give an array of the grid's shape, the density of each cell")
    if problem.matrix is None:
        raise InputError("A lies on a cluster, and B in this process: give A as a matrix of SciPy, or B as an array")
    if problem.numbers is not None:
        rows = scipy.sparse.csr_array(rows[problem.numbers][:, problem.numbers])
    rows.sort_indices()
    return GivenPencil(problem=replace(problem, parts=(rows,)))


def _diagonal(problem: Problem, B: Any) -> Any:
    """B as an array like a right-hand side. InputError: another shape, or values that are not positive."""
    if isinstance(B, Real):
        B = np.full(problem.shape, float(B))
    if not hasattr(B, "shape"):
        raise InputError(f"B must be a sparse matrix, an array {problem.shape} or a number, not {in_a_line(B)}")
    if tuple(B.shape) != problem.shape:
        dense = ": scipy.sparse.csr_array(B) makes a sparse matrix of an array" if getattr(B, "ndim", 0) == 2 else ""
        raise InputError(f"B has shape {tuple(B.shape)}, but a diagonal must have {problem.shape}{dense}")
    if not bool((B > 0.0).all()):
        raise InputError("B must be positive everywhere: a density or a mass is")
    return B
