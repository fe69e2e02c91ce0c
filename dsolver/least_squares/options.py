"""Options of least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from dsolver.cluster.runtime import DeviceName, EngineName, KernelsName
from dsolver.errors import InputError, in_a_line

if TYPE_CHECKING:
    from distributed import Client


class LeastSquaresArguments(TypedDict, total=False):
    """The keyword arguments that `LeastSquaresOptions` describes."""

    scale: Literal["columns"] | None
    chunks: int | None
    formats: str | None
    client: Client | Literal[False] | None
    engine: EngineName
    device: DeviceName
    kernels: KernelsName


@dataclass(frozen=True, kw_only=True)
class LeastSquaresOptions:
    """Options of least squares beside SciPy's.

    Attributes:
        scale: "columns" divides each column of A by its norm, as Jacobi's preconditioner of AᵀA does: for unknowns of
            different units. Where A has less rank than columns, x is the solution for which the scaled one is
            smallest.
        chunks: of rows, and of columns; by default one for each worker.
        formats: as of `dsolver.matrix`, for A and Aᵀ.
        client, engine, device, kernels: as of `dsolver.solve`.
    """

    scale: Literal["columns"] | None = None
    chunks: int | None = None
    formats: str | None = None
    client: Client | Literal[False] | None = None
    engine: EngineName = "auto"
    device: DeviceName = "auto"
    kernels: KernelsName = "auto"


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """SciPy's arguments of `lsmr`."""

    damp: float
    atol: float
    btol: float
    conlim: float
    maxiter: int | None

    def __post_init__(self) -> None:
        for name in ("damp", "atol", "btol", "conlim"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0.0 <= value < math.inf):
                raise InputError(f"{name} must be a number >= 0, not {in_a_line(value)}")
        most: object = self.maxiter
        if most is not None and not (isinstance(most, int | np.integer) and most >= 0):
            raise InputError(f"maxiter must be an integer >= 0, not {in_a_line(most)}")
