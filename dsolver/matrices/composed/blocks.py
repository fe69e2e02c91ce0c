"""Systems of blocks: `dsolver.block`, and the matrices that preconditioners of their fields are made of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from numbers import Integral
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, in_a_line
from dsolver.matrices.canonical import imported
from dsolver.matrices.chunks.plan import grouped, in_fields
from dsolver.matrices.chunks.row_block import FIELD_ROWS
from dsolver.matrices.complex.parts import is_complex
from dsolver.matrices.matrix import is_matrix, matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems.problem import Problem, no_matrix
from dsolver.units import counted

STEPS: Final = 30  # steps of Lanczos that show a condition number of `ALIKE`
ALIKE: Final = 25.0
"""Condition number of D⁻¹A up to which A is like its diagonal: of mass matrices it is 2 to 10 (Wathen 1987), whatever
the mesh, of Laplacians it grows with their size."""
FALLEN: Final = 1e-10  # part of the residual below which steps show nothing more


def block(
    parts: Sequence[Sequence[Any]],
    *,
    nullspace: Any = None,
    chunks: int | None = None,
    partition: Any = None,
    symmetric: bool | None = None,
    name: str = "blocks",
) -> MatrixProblem:
    """A linear system of several fields, such as velocity and pressure, from the blocks that couple them.

    For saddle points [[A, Bᵀ], [B, C]], whose Schur complement is C - B A⁻¹ Bᵀ (Elman, Silvester and Wathen 2014).

    Args:
        parts: a list of rows of blocks, ``[[A, B.T], [B, None]]``: sparse matrices of SciPy, problems of
            `dsolver.matrix` or `dsolver.problems` (whose rows are those of `dsolver.Problem.to_scipy`), or None for
            zeros. Each row and each column of blocks needs one that is no None. A problem on the diagonal brings its
            options to the preconditioner of its field: `block_size`, `near_nullspace`.
        nullspace: (n,) or (n, k), as of `dsolver.matrix`: of an enclosed flow zeros for the velocity and ones for the
            pressure.
        chunks: how many; each has consecutive rows of every field. By default one for each worker.
        partition: the part of each row, integers (n,), in place of that: a chunk for each part, with rows of every
            field.
        symmetric: as of `dsolver.matrix`.
        name: for reports.

    Returns:
        A problem for `dsolver.solve`, `dsolver.Solver` and the methods. b and x have the fields one after the other.
        `dsolver.preconditioners.BlockDiagonal`, `BlockTriangular` and `Schur` are for it; ``M="auto"`` takes one, but
        where the whole is symmetric, definite and elliptic, which is solved as any such matrix.
        Where a block is complex, it is that of any complex matrix, without fields of its own.

    Raises:
        InputError: blocks do not fit each other or are no matrices, there is but one field, or a block is complex and
            an option is for real matrices.
    """
    rows = [[_as_rows(part) for part in row] for row in parts]
    count = len(rows)
    if count < 2 or any(len(row) != count for row in rows) or count > len(FIELD_ROWS):
        raise InputError(
            f"block needs as many rows of blocks as columns, 2 to {len(FIELD_ROWS)}, not {count} with "
            f"{[len(row) for row in rows]} blocks"
        )
    sizes = _sizes(rows)
    sparse = imported("sparse")
    whole = sparse.block_array(
        [
            [sparse.csr_array((sizes[i], sizes[j])) if part is None else part for j, part in enumerate(row)]
            for i, row in enumerate(rows)
        ],
        format="csr",
    )
    if is_complex(whole):
        options = {} if partition is None else {"partition": partition}
        made = matrix(whole, nullspace=nullspace, symmetric=symmetric, chunks=chunks, name=name, **options)
        assert isinstance(made, MatrixProblem)
        return made
    made = matrix(whole, nullspace=nullspace, symmetric=symmetric, name=name)
    assert isinstance(made, MatrixProblem)
    diagonal = tuple(
        each if isinstance(each := parts[i][i], MatrixProblem) and not each.reordered else None for i in range(count)
    )
    elliptic = made.elliptic and not (made.asymmetry or made.indefinite)  # few multipliers leave most rows elliptic
    last = made.multipliers if sizes[1:] == (made.multipliers,) and not any(diagonal[:1]) else 0
    made = replace(made, fields=sizes, multipliers=last, diagonal=diagonal, block=1, elliptic=elliptic)
    if partition is not None:
        if chunks is not None:
            raise InputError("partition= gives a part to each row, and so the chunks: leave chunks= out")
        return grouped(made, partition)
    if chunks is None:
        return made
    asked: Any = chunks
    if not isinstance(asked, Integral) or not 1 <= int(asked) <= min(sizes):
        raise InputError(f"chunks must be an integer from 1 to {min(sizes)}, the rows of the smallest field")
    return in_fields(made, int(asked))


def _as_rows(part: Any) -> Any:
    """A block as a sparse matrix of SciPy; None for zeros."""
    if part is None:
        return None
    if isinstance(part, Problem):
        part = part.to_scipy()
    elif not is_matrix(part):
        raise InputError(f"a block must be a sparse matrix, a problem, or None for zeros, not {no_matrix(part)}")
    return part.get() if type(part).__module__.startswith("cupyx") else part


def _sizes(rows: Sequence[Sequence[Any]]) -> tuple[int, ...]:
    """Rows of each field."""
    found = []
    for i, row in enumerate(rows):
        sizes = {part.shape[0] for part in row if part is not None}
        sizes |= {other[i].shape[1] for other in rows if other[i] is not None}
        if len(sizes) != 1:
            told = f"have {sorted(sizes)} rows and columns" if sizes else "are all None"
            raise InputError(f"the blocks of field {i} {told}: in its row and its column they need the same number")
        found.append(int(sizes.pop()))
    return tuple(found)


# -- matrices for the preconditioners of fields ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FieldMatrix:
    """A matrix from which the preconditioner of a field is made."""

    problem: MatrixProblem  # its rows, not cut
    # of the pivot of the field, what is left of its block when earlier fields are eliminated, over that of the rows of
    # the problem as they are solved.
    sign: float
    coupled: bool  # whether it is a Schur complement, to which earlier fields have added
    block: Any  # the block itself

    @cached_property
    def like_diagonal(self) -> bool:
        """Whether the block itself is like its diagonal, as a mass matrix is, whatever its size."""
        return _is_like_diagonal(self.block)


def field_matrices(problem: MatrixProblem, given: Sequence[Any]) -> tuple[FieldMatrix, ...]:
    """A matrix for each field of a system of blocks that is not cut.

    `given`: for each field a sparse matrix or a problem; "block" for the block on the diagonal; or "diagonal" for the
    Schur complement A_ff - Σ A_fk diag(A_kk)⁻¹ A_kf over the fields k before it. More are of the last field.
    InputError: one is none of these, or does not fit.
    """
    whole, bounds = problem.to_scipy(), list(accumulate(problem.split, initial=0))
    turned = -1.0 if problem.negated else 1.0
    blocks = [[whole[a:b, c:d] * turned for c, d in pairwise(bounds)] for a, b in pairwise(bounds)]
    last = len(blocks) - 1
    return tuple(_field_matrix(problem, blocks, min(number, last), each) for number, each in enumerate(given))


def _field_matrix(problem: MatrixProblem, blocks: Any, number: int, given: Any) -> FieldMatrix:
    own, size = blocks[number][number], problem.split[number]
    before = [k for k in range(number) if blocks[number][k].nnz and blocks[k][number].nnz]
    inverse = {k: _inverse_diagonal(blocks[k][k]) for k in before}
    pivot = own.diagonal()
    for k in before:
        scaled = blocks[number][k] * inverse[k][None, :]
        pivot = pivot - np.asarray(scaled.multiply(blocks[k][number].T.tocsr()).sum(axis=1)).ravel()
    if isinstance(given, str) and given == "diagonal" and before:
        rows = own
        for k in before:
            rows = rows - (blocks[number][k] * inverse[k][None, :]) @ blocks[k][number]
        made = _rows_of_field(rows, f"Schur complement of field {number}")
    elif isinstance(given, str) and given in ("block", "diagonal"):
        kept = problem.diagonal[number] if problem.diagonal else None
        made = kept if kept is not None and not problem.negated else _rows_of_field(own, f"block of field {number}")
    elif isinstance(given, MatrixProblem):
        made = given
    elif is_matrix(given) or isinstance(given, Problem):
        made = _rows_of_field(_as_rows(given), f"matrix of field {number}")
    else:
        raise InputError(
            f"the matrix of field {number} must be a sparse matrix, a problem, 'block' or 'diagonal', not "
            f"{in_a_line(given)}"
        )
    if made.grid[0] != size:
        raise InputError(f"the matrix of field {number} has {made.grid[0]} rows, but the field has {size}")
    made = replace(made, given=None, null_vectors=0, nullspace=None, known=False)
    of_rows = float(np.median(made.matrix.diagonal() if hasattr(made.matrix, "diagonal") else np.ones(1)))
    sign = -1.0 if float(np.median(pivot)) * (of_rows or 1.0) < 0.0 else 1.0
    return FieldMatrix(problem=made, sign=sign, coupled=bool(before), block=own)


def _rows_of_field(rows: Any, name: str) -> MatrixProblem:
    if is_complex(rows):
        raise InputError(f"the {name} is complex, and the system is real")
    rows = rows.tocsr()
    empty = np.flatnonzero(np.diff(rows.indptr) == 0)
    if len(empty):
        raise InputError(
            f"the {name} has {counted(len(empty), 'empty row')}: give matrices= for it, or 'diagonal' for a Schur "
            f"complement"
        )
    made = matrix(rows, name=name)
    assert isinstance(made, MatrixProblem)
    return made


def _inverse_diagonal(rows: Any) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = rows.diagonal()
    return np.divide(1.0, found, out=np.zeros_like(found), where=found != 0.0)


def _is_like_diagonal(rows: Any) -> bool:
    """Whether the condition number of D⁻¹A is small, by the Ritz values of conjugate gradients with D for M."""
    diagonal = rows.diagonal()
    if not (diagonal > 0.0).all():
        return False
    alphas: list[float] = []
    betas: list[float] = []
    r, p, rz_old = np.random.default_rng(0).standard_normal(len(diagonal)), np.zeros(len(diagonal)), 1.0
    least = FALLEN * float(np.linalg.norm(r))
    while len(alphas) < min(STEPS, len(diagonal)) and float(np.linalg.norm(r)) > least:
        z = r / diagonal
        rz = float(r @ z)
        betas.append(rz / rz_old if alphas else 0.0)
        p, rz_old = z + betas[-1] * p, rz
        q = rows @ p
        curvature = float(p @ q)
        if curvature <= 0.0:
            return False
        alphas.append(rz / curvature)
        r = r - alphas[-1] * q
    a, b = np.array(alphas), np.array(betas)
    lanczos = np.diag(1.0 / a + np.r_[0.0, b[1:] / a[:-1]])
    lanczos += np.diag(np.sqrt(b[1:]) / a[:-1], 1) + np.diag(np.sqrt(b[1:]) / a[:-1], -1)
    values = np.linalg.eigvalsh(lanczos)
    return bool(values[-1] <= ALIKE * values[0])
