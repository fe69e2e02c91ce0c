"""Systems whose A is a function: `dsolver.operator`, with a matrix near A from which preconditioners are made."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from operator import index
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError, in_a_line
from dsolver.foreign_arrays import module_of, without_package
from dsolver.matrices.canonical import imported
from dsolver.matrices.checked import checked
from dsolver.matrices.chunks.row_block import GIVEN
from dsolver.matrices.complex.parts import is_complex
from dsolver.matrices.composed.grids import as_matrix
from dsolver.matrices.matrix import is_matrix, matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.properties import problem_of
from dsolver.matrices.solved_matrix import solved_matrix, with_all_rows
from dsolver.problems.functions import ByChunk, OperatorProduct, UserFunction, as_function, function_for
from dsolver.problems.problem import Problem, no_matrix
from dsolver.problems.stencils import stencil

ROUNDING: Final = 1e-8  # difference of xᵀAy and yᵀAx, as a part of their size, up to which A counts as symmetric


def operator(
    A: Any,
    *,
    shape: int | Sequence[int] | None = None,
    M_from: Any = None,
    symmetric: bool | None = None,
    like: Any = None,
    chunks: Any = None,
    name: str = "operator",
) -> Problem:
    """A linear system whose A is a function, or a `LinearOperator`: nothing of it is stored.

    Args:
        A: y = A(x), a function of arrays of b's shape and kind; an object of SciPy's or CuPy's kind (`LinearOperator`)
            of shape (n, n); or `dsolver.by_chunk`, which is called on the owner of each chunk of a grid. On a cluster
            that is named the others are called on one worker, where each x is gathered; `Solution.notes` tell so. A has
            to be linear.
        shape: of b; by default that of `M_from`, or (n,) where A has a shape itself.
        M_from: a matrix near A, as a sparse matrix or a problem of `dsolver.matrix` or `dsolver.problems`: from its
            rows preconditioners are made, which ``M=`` names as for any matrix. They are its only use: b is that of
            A x = b. Without it M is None, or a function.
        symmetric: whether A = Aᵀ, which decides on methods; by default A is called twice to see, and one by chunk
            counts as not symmetric.
        like: an array of the kind that a function is then called with, of NumPy by default; a solve gives its b.
        chunks: of the grid, where `M_from` is not given; as of `dsolver.problems.stencil`.
        name: for reports.

    Returns:
        A problem for `dsolver.solve`, `dsolver.Solver`, `dsolver.cg` and the other methods.

    Raises:
        InputError: A is neither, its shape is not known or not that of `M_from`, or a part of `M_from` is left out by
            a mask. That `M_from` is singular where A is not is seen at set-up.
    """
    called = as_function(A)
    if not (isinstance(called, ByChunk) or callable(called)) or isinstance(called, type):
        raise InputError(f"A must be a function y = A(x) or a LinearOperator, not {no_matrix(A)}")
    wanted = _shape_of(A, shape)
    complex_too = np.dtype(getattr(A, "dtype", None) or np.float64).kind == "c"
    if M_from is None:
        near = _without_rows(wanted, chunks, complex_too=complex_too, grid=isinstance(called, ByChunk))
    else:
        near = _near(M_from, wanted, complex_too=complex_too)
    function = replace(function_for("A", called, near), alone=M_from is None)
    of_gpu = module_of(without_package("like", like)) is not np and not isinstance(called, OperatorProduct)
    if of_gpu or not function.host:
        function = replace(function, host=False, kind=sys.modules["cupy"].empty(0))
    function = replace(function, asymmetry=_asymmetry(function, symmetric))
    made = replace(near, name=name, operator=function, notes=())
    if not isinstance(made, MatrixProblem):
        return made
    left = {key: rows for key, rows in made.coefficients.items() if key != GIVEN}
    return replace(
        made, given=None, known=False, hermitian=False, real_valued=False, opened=made.grid[0], coefficients=left
    )


def _shape_of(A: Any, shape: Any) -> tuple[int, ...] | None:
    """The shape of b, as far as it is told; None where nothing tells it."""
    if shape is None:
        found = getattr(A, "shape", None)
        return None if found is None else (int(found[0]),)
    try:
        wanted = (index(shape),) if hasattr(shape, "__index__") else tuple(map(index, shape))
    except TypeError:
        wanted = ()
    if not 1 <= len(wanted) <= 3 or min(wanted) < 1:
        raise InputError(f"shape must be that of b, one to three integers >= 1, not {in_a_line(shape)}")
    return wanted


def _without_rows(shape: tuple[int, ...] | None, chunks: Any, *, complex_too: bool, grid: bool) -> Problem:
    """A problem with the rows of the identity, which takes no room on a grid."""
    if shape is None:
        raise InputError("A is a function, which tells no shape of b: give shape=, or M_from=, a matrix near A")
    if not grid and (len(shape) == 1 or complex_too):
        if len(shape) > 1:
            raise InputError("A is complex, on a grid: give M_from=, a complex problem, or vectors of shape (n,)")
        return matrix(imported("sparse").eye_array(shape[0], dtype=complex if complex_too else float, format="csr"))
    weights = np.zeros((3,) * len(shape))
    weights[(1,) * len(shape)] = 1.0
    return stencil(shape, weights, chunks=chunks)


def _near(given: Any, shape: tuple[int, ...] | None, *, complex_too: bool) -> Problem:
    """The problem from whose rows preconditioners are made."""
    if is_matrix(given):
        near: Problem = matrix(given.astype(np.complex128) if complex_too and not is_complex(given) else given)
    elif isinstance(given, Problem):
        near = as_matrix(given)
    else:
        raise InputError(f"M_from must be a sparse matrix or a problem, not {no_matrix(given)}")
    if isinstance(near, MatrixProblem) and near.empty and is_matrix(given):  # A maps nothing to these rows
        found = solved_matrix(*with_all_rows(*checked("M_from", given))[:2], held=False)
        near = problem_of(found, near.name, block=near.block)
    if near.operator is not None:
        raise InputError("M_from is itself an operator: give the matrix that its own preconditioners are made from")
    if near.masked:
        raise InputError("M_from leaves cells out by a mask, of which A knows nothing: give one without mask=")
    if complex_too and not near.complex:
        raise InputError("A is complex, and M_from is not: give a complex matrix or problem")
    size = int(np.prod(near.shape))
    if shape not in (None, near.shape, (size,)):
        raise InputError(f"A is for vectors of shape {shape}, but M_from has {near.shape}: they must be equal")
    return near


def _asymmetry(function: UserFunction, symmetric: bool | None) -> str:
    """Why A counts as not symmetric; empty where it does not. InputError: `symmetric` is none of True, False, None."""
    if symmetric not in (None, True, False):
        raise InputError(f"symmetric must be True, False or None, not {in_a_line(symmetric)}")
    if symmetric is not None:
        return "" if symmetric else "symmetric=False was given"
    if function.halo is not None:
        return "A is a function by chunk, and symmetric=True was not given"
    found = function.difference()
    return f"xᵀAy and yᵀAx of random x and y differ by {found:.1g} of their size" if not found <= ROUNDING else ""
