"""The choice among libraries that make factors of sparse matrices.

A library is a module with `factors`, a function of a matrix's compressed rows in SciPy, or in CuPy for those of GPUs,
and of its `Kind`; and a line here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]


class SingularError(ArithmeticError):
    """Error of a library: a pivot vanishes, or the factors are of no use."""


class Factors(ABC):
    """Factors of a matrix in its value type; nbytes: about how many, 0 where the library does not tell."""

    nbytes: int = 0

    @abstractmethod
    def solve(self, b: Values) -> Values:
        """x with A x = b, (rows,), a new array."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Properties of a matrix, as far as they are known."""

    symmetric: bool
    mirrored: bool  # whether it has an entry (j, i) for each entry (i, j)
    positive: bool  # whether its diagonal is positive everywhere, and not small beside the entries of many rows
    full: bool = False  # whether its factors have so many entries that to store zeros, too, is quicker
    steep: bool = False  # whether its condition is beyond what factors in a smaller type serve


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library that makes factors."""

    module: str  # of dsolver, that calls it
    package: str
    name: str  # as users install it
    lowered: bool = False  # whether it has float32
    complex: bool = False
    gpu: bool = False
    least: int = 0  # entries of a matrix from which on it is taken by itself
    speed: float = 1.0  # about how many times as fast as SuperLU it makes large factors of one matrix
    suits: Callable[[Kind], bool] = lambda _: True  # tells whether it is taken by itself for a kind of matrix


LIBRARIES: Final = {
    "cudss": Library(
        module="dsolver.kernels.cuda.cudss",
        package="nvmath.sparse.advanced",
        name="nvmath-python[cu13]",
        lowered=True,
        gpu=True,
        suits=lambda kind: not kind.full,
    ),
    "lapack": Library(
        module="dsolver.kernels.direct.lapack",
        package="scipy.linalg",
        name="scipy",
        lowered=True,
        complex=True,
        suits=lambda kind: kind.full,
    ),
    "pardiso": Library(
        module="dsolver.kernels.direct.pardiso", package="pypardiso", name="pypardiso", least=60_000, speed=3.0
    ),
    "superlu": Library(
        module="dsolver.kernels.direct.superlu", package="scipy.sparse.linalg", name="scipy", lowered=True, complex=True
    ),
}
"""Libraries by name, the faster ones first."""


@cache
def installed(name: str) -> bool:
    """Whether this process can import a library, with what it loads itself."""
    try:
        import_module(LIBRARIES[name].package)
    except (ImportError, OSError):
        return False
    return True


def fits(name: str, dtype: np.dtype[Any], *, gpu: bool) -> bool:
    """Whether a library is there, for a value type; gpu: whether the matrix lies on a GPU, which may be copied."""
    library = LIBRARIES[name]
    serves = (library.lowered or dtype in (np.float64, np.complex128)) and (library.complex or dtype.kind != "c")
    return serves and (gpu or not library.gpu) and installed(name)


def chosen(dtype: np.dtype[Any], kind: Kind, entries: int, *, gpu: bool) -> str | None:
    """The library that is taken by itself, the fastest one; None for none."""
    names = (name for name, each in LIBRARIES.items() if each.suits(kind) and each.least <= entries)
    return next((name for name in names if fits(name, dtype, gpu=gpu)), None)


def maker(name: str) -> Callable[[Any, Kind], Factors]:
    """The function that makes factors of a CSR matrix of SciPy, or of CuPy, with a library that is installed."""
    return import_module(LIBRARIES[name].module).factors
