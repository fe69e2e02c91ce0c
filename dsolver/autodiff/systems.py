"""Systems as functions of parameters: what a package that differentiates has to know of them.

The derivative of x = A⁻¹ r in the direction (dA, dr) is A⁻¹ (dr − dA x). So a gradient g of a number with respect to x
becomes λ = A⁻ᵀ g with respect to r, and −∂(λᵀ A x) with respect to what A is made of (docs/theory.md). Of complex
numbers g is conjugated before and λ after it in PyTorch's convention, which makes A⁻ᴴ g of it; JAX's needs nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dsolver.errors import InputError, in_a_line
from dsolver.kernels.formats.layout import Array
from dsolver.matrices.canonical import check_form
from dsolver.matrices.checked import matrix_of, on_host
from dsolver.matrices.matrix import matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem
from dsolver.problems.coefficient_names import SIGMA
from dsolver.session.user_arrays.several import with_first_axis_last
from dsolver.units import counted


class ParametricSystem(ABC):
    """A linear system whose matrix follows from parameters, arrays of the package that differentiates."""

    @property
    def arrays(self) -> Sequence[Array]:
        """Arrays of NumPy or CuPy that A is made of beside its parameters, and which a user might overwrite."""
        return ()

    @property
    def complex(self) -> bool:
        """Whether A is complex whatever its parameters are."""
        return False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of b: the grid's with three axes, or (rows,)."""

    @abstractmethod
    def like(self, other: "ParametricSystem") -> bool:
        """Whether another system has the same structure, so that a set-up of it may be changed into this one's."""

    @abstractmethod
    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:
        """The problem with values for the parameters, or with its transpose, whose x = A⁻¹ b.

        InputError: they cannot be right.
        """

    def source(self, r: Array) -> Array:
        """The b of the problem whose right-hand side is r, both arrays of NumPy or CuPy."""
        return r

    def right_hand_side(self, parameters: Sequence[Any], b: Any) -> Any:
        """r of A x = r, of which parameters may be a part, from a user's b."""
        return b

    @abstractmethod
    def form(self, parameters: Sequence[Any], left: Any, right: Any) -> Any:
        """leftᵀ A right, summed over pairs of vectors, whose last axis counts them where it is one axis more.

        Terms that no parameter is in may be missing.
        """


class Fixed(ParametricSystem):
    """A problem without parameters, whose right-hand side is b itself. InputError: a matrix unlike its transpose."""

    def __init__(self, problem: Problem) -> None:
        if has_other_transpose(problem) or problem.hermitian:
            why = problem.unsymmetric or (
                "it is Hermitian" if problem.hermitian else "a few of its entries are not mirrored"
            )
            raise InputError(
                f"A is not symmetric ({why}), and its gradient needs the transpose: pass the sparse matrix itself in "
                f"place of the problem that dsolver.matrix made of it"
            )
        self._problem = problem

    @property
    def complex(self) -> bool:
        return self._problem.complex

    @property
    def arrays(self) -> Sequence[Array]:
        matrix = [self._problem.matrix.data] if isinstance(self._problem, MatrixProblem) else []
        return [*matrix, *arrays_of(self._problem)]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._problem.shape

    def like(self, other: ParametricSystem) -> bool:
        return isinstance(other, Fixed) and other._problem is self._problem

    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:
        return self._problem

    def form(self, parameters: Sequence[Any], left: Any, right: Any) -> Any:
        """Zero: it has no parameters."""
        return 0.0 * (left * right).sum()


class MatrixEntries(ParametricSystem):
    """A sparse matrix as a function of its entries; its parameters are their values, rows and columns."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._rows,)

    def like(self, other: ParametricSystem) -> bool:
        return isinstance(other, MatrixEntries) and other._rows == self._rows

    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:
        data, rows, columns = values
        n = self._rows
        inside = (rows < n) & (columns < n)  # JAX pads entries with places beyond the last
        places = (columns, rows) if transposed else (rows, columns)
        row, column = (place[inside] for place in places)
        return matrix(matrix_of(row, column, in_double(data[inside]), n))

    def form(self, parameters: Sequence[Any], left: Any, right: Any) -> Any:
        """Σ left_i A_ij right_j over the entries."""
        data, rows, columns = parameters
        products = left[rows] * right[columns]
        return (data * (products if products.ndim == 1 else products.sum(-1))).sum()


def entries_of(A: Any) -> tuple[ParametricSystem, list[Any]]:
    """The system of a matrix of SciPy, and its parameters. InputError: it is not square."""
    check_form("A", A, complex_too=True)
    places = A.tocoo()
    return MatrixEntries(A.shape[0]), [places.data, places.row, places.col]


def array_of(name: str, value: Any, asarray: Callable[[Any], Array]) -> Any:
    """An argument as an array of the package that differentiates. InputError: it is none, and becomes none."""
    try:
        values = asarray(value)
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name} must be a number or an array of numbers, not {in_a_line(value)}") from error
    return values


def in_double(values: Array) -> Array:
    """Numbers of NumPy or CuPy as float64 or complex128."""
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def has_other_transpose(problem: Problem) -> bool:
    """Whether Aᵀ is another matrix than A, that which was given: what is solved in its place may be symmetric."""
    given = problem.given if isinstance(problem, MatrixProblem) else None
    rows = None if given is None else on_host(given)
    return bool(problem.unsymmetric) or (rows is not None and (rows != rows.T).nnz > 0)


def check_shape(b: Any, system: ParametricSystem) -> None:
    """Refuse a right-hand side, or several, that do not fit a system; raises InputError."""
    one, shape = system.shape, tuple(b.shape)
    if shape[: len(one)] != one or len(shape) > len(one) + 1:
        several = f"({', '.join(map(str, one))}, k)"
        turn = f": pass {with_first_axis_last('b', b)}" if shape[1:] == one else ""
        raise InputError(f"b has shape {shape}, but A takes one of shape {one}, or several as {several}{turn}")


def check_unused(name: str, kappa: Any, sigma: Any) -> None:
    """Refuse coefficients where there are none; raises InputError."""
    for given, value in (("kappa", kappa), (SIGMA, sigma)):
        if value is not None:
            raise InputError(f"{name} has no {given}: only problems of dsolver.problems.diffusion have")


def arrays_of(problem: Problem) -> list[Array]:
    """The coefficients of a problem that are arrays of NumPy or CuPy."""
    packages = ("numpy", "cupy")
    return [value for value in problem.coefficients.values() if type(value).__module__.partition(".")[0] in packages]


def in_space(problem: Any, b: Any, kappa: Any, sigma: Any) -> tuple[Any, Any, Any, Any]:
    """The problem, b, κ and σ with three axes; as they are where they have them, or of a matrix; or InputError."""
    if not isinstance(problem, Problem) or problem.flat or problem.dimensions == 3:
        return problem, b, kappa, sigma
    count, shape, grid = problem.dimensions, problem.shape, problem.grid
    if tuple(b.shape[:count]) != shape or b.ndim > count + 1:
        turn = f"; several have their axis last: pass {with_first_axis_last('b', b)}" if b.shape[1:] == shape else ""
        raise InputError(f"b has shape {tuple(b.shape)}, but the grid is {shape}: they must be equal{turn}")

    def embedded(values: Any) -> Any:
        return values.reshape(grid) if tuple(getattr(values, "shape", ())) == shape else values

    if isinstance(kappa, list | tuple):
        if len(kappa) not in (1, count):
            given = counted(len(kappa), "entry", "entries")
            raise InputError(f"kappa has {given}: give one for all axes, or one for each of {count}")
        kappa = [*map(embedded, kappa), *[1.0] * (3 - count)] if len(kappa) == count else embedded(kappa[0])
    return problem.in_space, b.reshape((*grid, *b.shape[count:])), embedded(kappa), embedded(sigma)
