"""Systems as functions of parameters: what a package that differentiates has to know of them.

The derivative of x = A⁻¹ r in the direction (dA, dr) is A⁻¹ (dr − dA x). So a gradient g of a number with respect to x
becomes λ = A⁻ᵀ g with respect to r, and −∂(λᵀ A x) with respect to what A is made of (docs/theory.md). Of complex
numbers g is conjugated before and λ after it in PyTorch's convention, which makes A⁻ᴴ g of it; JAX's needs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from dsolver.errors import InputError, in_a_line
from dsolver.kernels.formats.layout import Array
from dsolver.matrices.canonical import check_form
from dsolver.matrices.checked import matrix_of
from dsolver.matrices.matrix import matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem
from dsolver.problems.diffusion_problem.problem import changed
from dsolver.problems.finite_volumes import KAPPA, SIGMA, Diffusion
from dsolver.problems.fluxes.form import FluxForm, kappa_of
from dsolver.problems.problem import check_problem
from dsolver.session.user_arrays.several import with_first_axis_last


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
    def like(self, other: ParametricSystem) -> bool:
        """Whether another system has the same structure, so that a set-up of it may be changed into this one's."""

    @abstractmethod
    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:
        """The problem with values for the parameters, or with its transpose, whose x = A⁻¹ b.

        Args:
            values: of the parameters, arrays of NumPy or CuPy.
            transposed: whether Aᵀ is meant; not asked where A is symmetric.

        Raises:
            InputError: they cannot be right.
        """

    def source(self, r: Array) -> Array:
        """The b of the problem whose right-hand side is r, both arrays of NumPy or CuPy."""
        return r

    def right_hand_side(self, parameters: Sequence[Any], b: Any) -> Any:  # noqa: ARG002
        """r of A x = r, of which parameters may be a part, from a user's b."""
        return b

    @abstractmethod
    def form(self, parameters: Sequence[Any], left: Any, right: Any) -> Any:
        """leftᵀ A right, summed over pairs of vectors, whose last axis counts them where it is one axis more.

        Terms that no parameter is in may be missing.
        """


@final
class Fixed(ParametricSystem):
    """A problem without parameters, whose right-hand side is b itself.

    Args:
        problem: a stencil, or a matrix that is its own transpose.

    Raises:
        InputError: it is a matrix that is not.
    """

    def __init__(self, problem: Problem) -> None:
        if problem.unsymmetric or problem.hermitian:
            why = problem.unsymmetric or "it is Hermitian"
            raise InputError(
                f"A is not symmetric ({why}), and its gradient needs the transpose: pass the sparse matrix itself in "
                f"place of the problem that dsolver.matrix made of it"
            )
        self._problem = problem

    @property
    def complex(self) -> bool:
        """Whether the problem is."""
        return self._problem.complex

    @property
    def arrays(self) -> Sequence[Array]:
        """The problem's."""
        matrix = [self._problem.matrix.data] if isinstance(self._problem, MatrixProblem) else []
        return [*matrix, *arrays_of(self._problem)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of b of the problem."""
        return self._problem.shape

    def like(self, other: ParametricSystem) -> bool:
        """Whether it is the same problem."""
        return isinstance(other, Fixed) and other._problem is self._problem

    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:  # noqa: ARG002
        """The problem."""
        return self._problem

    def form(self, parameters: Sequence[Any], left: Any, right: Any) -> Any:  # noqa: ARG002
        """Zero: it has no parameters."""
        return 0.0 * (left * right).sum()


@final
class MatrixEntries(ParametricSystem):
    """A sparse matrix as a function of its entries; its parameters are their values, rows and columns.

    Args:
        rows: of A.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows,)."""
        return (self._rows,)

    def like(self, other: ParametricSystem) -> bool:
        """Whether it has as many rows."""
        return isinstance(other, MatrixEntries) and other._rows == self._rows

    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:
        """The matrix."""
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


@final
class CellCoefficients(ParametricSystem):
    """Diffusion as a function of κ, along all axes or each, and σ.

    Args:
        problem: of `dsolver.problems.diffusion`.
        kappas: how many κ there are among the parameters: 0 (that of the problem), 1 or 3.
        sigma: whether σ is the last of them.
        xp: the package that differentiates.
        asarray: makes an array of it of one of NumPy's.
    """

    def __init__(self, problem: Problem, kappas: int, *, sigma: bool, xp: Any, asarray: Callable[[Any], Array]) -> None:
        assert isinstance(problem.rule, Diffusion)
        self._kappas, self._sigma = kappas, sigma
        # x of r = V f + c is found as that of f = r / V without boundary values.
        boundary = problem.rule.boundary.homogeneous
        self._homogeneous = replace(problem, rule=replace(problem.rule, boundary=boundary))
        self._given, self._asarray, self._xp = problem, asarray, xp
        self._flux_form = FluxForm(problem, xp, asarray)
        self._volumes = FluxForm(problem, np, np.asarray).volumes()

    @property
    def complex(self) -> bool:
        """Whether the coefficients that are no parameters are."""
        return self._given.complex

    @property
    def arrays(self) -> Sequence[Array]:
        """The coefficients that are no parameters."""
        return arrays_of(self._given)

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid."""
        return self._given.grid

    def like(self, other: ParametricSystem) -> bool:
        """Whether it is the same problem with the same parameters."""
        return (
            isinstance(other, CellCoefficients)
            and other._given is self._given
            and (other._kappas, other._sigma) == (self._kappas, self._sigma)
        )

    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:  # noqa: ARG002  # it is symmetric
        """The problem with these κ and σ, and no boundary values."""
        found = [in_double(value).item() if value.shape == () else value for value in values]
        kappa = found[: self._kappas]
        return changed(
            self._homogeneous,
            kappa=None if not kappa else kappa if len(kappa) == 3 else kappa[0],
            sigma=found[-1] if self._sigma else None,
        )

    def source(self, r: Array) -> Array:
        """Source for each unit of volume."""
        volumes = np.asarray(self._volumes, like=r)
        volumes = volumes + (volumes == 0.0)  # where cells are left out, r does not matter
        return r / (volumes if r.ndim == len(self.shape) else volumes[..., None])

    def form(self, parameters: Sequence[Any], left: Any, right: Any) -> Any:
        """Σ T Δleft Δright and what the ends and σ add."""
        left, right = self._in_front(left), self._in_front(right)
        total = 0.0 * (left * right).sum()
        if self._kappas:
            total = total + self._flux_form.of_fluxes(self._along(parameters), left, right)
        if self._sigma:
            total = total + self._flux_form.of_sigma(parameters[-1], left, right)
        return total

    def right_hand_side(self, parameters: Sequence[Any], f: Any) -> Any:
        """V f and what boundary conditions add, of which κ may be a part."""
        kappa = self._along(parameters)
        if self._flux_form.fed and not kappa:
            kappa = [
                values if isinstance(values, float | complex) else self._asarray(values)
                for values in kappa_of(self._given)
            ]
        right = self._flux_form.right_hand_side(kappa, self._in_front(f))
        return right if right.ndim == len(self.shape) else self._xp.moveaxis(right, 0, -1)

    def _in_front(self, vectors: Any) -> Any:
        """Several vectors with the axis in front that counts them, as `FluxForm` has them."""
        return vectors if vectors.ndim == len(self.shape) else self._xp.moveaxis(vectors, -1, 0)

    def _along(self, parameters: Sequence[Any]) -> Sequence[Any]:
        """κ along x, y, z; nothing where none is a parameter."""
        kappa = parameters[: self._kappas]
        return [kappa[0]] * 3 if len(kappa) == 1 else kappa


def cells_of(
    problem: Any, kappa: Any, sigma: Any, xp: Any, asarray: Callable[[Any], Array]
) -> tuple[ParametricSystem, list[Any]]:
    """The system of a problem, and its parameters.

    Raises:
        InputError: it is no problem, or has no such parameters.
    """
    check_problem(problem)
    if isinstance(problem.rule, Diffusion):
        if problem.rule.fixed or problem.rule.velocity or problem.rule.cross:
            what = "fixed cells" if problem.rule.fixed else "a flow" if problem.rule.velocity else "a full tensor"
            raise InputError(f"{problem.name} has {what}, through which nothing is differentiated yet")
        kappas = [] if kappa is None else list(kappa) if isinstance(kappa, list | tuple) else [kappa]
        if len(kappas) not in (0, 1, len(KAPPA)):
            raise InputError(f"kappa has {len(kappas)} entries: give one for all axes, or three, along x, y and z")
        named = [*(("kappa", value) for value in kappas), *([] if sigma is None else [(SIGMA, sigma)])]
        parameters = [_coefficient(name, value, problem.grid, asarray) for name, value in named]
        return CellCoefficients(problem, len(kappas), sigma=sigma is not None, xp=xp, asarray=asarray), parameters
    check_unused(problem.name, kappa, sigma)
    return Fixed(problem), []


def _coefficient(name: str, value: Any, grid: tuple[int, ...], asarray: Callable[[Any], Array]) -> Any:
    values = array_of(name, value, asarray)
    shape = tuple(values.shape)
    if shape not in ((), grid):
        raise InputError(f"{name} has shape {shape}, but the grid is {grid}: give a number, or an array of that shape")
    return values


def array_of(name: str, value: Any, asarray: Callable[[Any], Array]) -> Any:
    """An argument as an array of the package that differentiates.

    Raises:
        InputError: it is none, and becomes none.
    """
    try:
        values = asarray(value)
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name} must be a number or an array of numbers, not {in_a_line(value)}") from error
    return values


def in_double(values: Array) -> Array:
    """Numbers of NumPy or CuPy as float64 or complex128."""
    made: Array = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    return made


def check_shape(b: Any, system: ParametricSystem) -> None:
    """Refuse a right-hand side, or several, that do not fit a system.

    Raises:
        InputError: b has another shape.
    """
    one, shape = system.shape, tuple(b.shape)
    if shape[: len(one)] != one or len(shape) > len(one) + 1:
        several = f"({', '.join(map(str, one))}, k)"
        turn = f": pass {with_first_axis_last('b', b)}" if shape[1:] == one else ""
        raise InputError(f"b has shape {shape}, but A takes one of shape {one}, or several as {several}{turn}")


def check_unused(name: str, kappa: Any, sigma: Any) -> None:
    """Refuse coefficients where there are none.

    Raises:
        InputError: there are.
    """
    for given, value in (("kappa", kappa), (SIGMA, sigma)):
        if value is not None:
            raise InputError(f"{name} has no {given}: only problems of dsolver.problems.diffusion have")


def entries_of(A: Any) -> tuple[ParametricSystem, list[Any]]:
    """The system of a matrix of SciPy, and its parameters.

    Raises:
        InputError: it is not square.
    """
    check_form("A", A, complex_too=True)
    places = A.tocoo()
    return MatrixEntries(A.shape[0]), [places.data, places.row, places.col]


def arrays_of(problem: Problem) -> list[Array]:
    """The coefficients of a problem that are arrays of NumPy or CuPy."""
    packages = ("numpy", "cupy")
    return [value for value in problem.coefficients.values() if type(value).__module__.partition(".")[0] in packages]
