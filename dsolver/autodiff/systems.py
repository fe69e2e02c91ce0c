"""Systems as functions of parameters: what a package that differentiates has to know of them.

The derivative of x = A⁻¹ r in the direction (dA, dr) is A⁻¹ (dr − dA x). So a gradient g of a number with respect to x
becomes λ = A⁻ᵀ g with respect to r, and −∂(λᵀ A x) with respect to what A is made of (docs/theory.md). Of complex
numbers g is conjugated before and λ after it in PyTorch's convention, which makes A⁻ᴴ g of it; JAX's needs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from dsolver.errors import InputError, in_a_line
from dsolver.kernels.formats.layout import Array
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem
from dsolver.problems.coefficient_names import SIGMA
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
    """A problem without parameters, whose right-hand side is b itself. InputError: a matrix unlike its transpose."""

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
    made: Array = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    return made


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
