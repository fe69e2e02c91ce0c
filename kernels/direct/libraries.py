"""The choice among libraries that make factors of sparse matrices.

A library is a module with `makes`, a function of a SciPy CSR array, its `Kind` and nothing else, and a line here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]


class SingularError(ArithmeticError):
    """Error of a library: a pivot vanishes, or the factors are of no use."""


class Factors(ABC):
    """Factors of a matrix, in the value type in which it came.

    Attributes:
        nbytes: about how many they take; 0 where the library does not tell.
    """

    nbytes: int = 0

    @abstractmethod
    def solve(self, b: Values) -> Values:
        """x with A x = b, (rows,), a new array."""


@final
@dataclass(frozen=True, kw_only=True)
class Kind:
    """Symmetry of a matrix, as far as it is known.

    Attributes:
        symmetric: whether it is.
        mirrored: whether it has an entry (j, i) for each entry (i, j).
        positive: whether its diagonal is positive everywhere.
    """

    symmetric: bool
    mirrored: bool
    positive: bool


@final
@dataclass(frozen=True, kw_only=True)
class Library:
    """A library that makes factors.

    Attributes:
        module: of dsolver, that calls it.
        package: that must be installed.
        name: as users install it.
        lowered: whether it has float32.
    """

    module: str
    package: str
    name: str
    lowered: bool


LIBRARIES: Final = {
    "superlu": Library(module="superlu", package="scipy", name="scipy", lowered=True),
}
"""Libraries by name, the faster ones first."""


def installed(name: str) -> bool:
    """Whether this process can import a library."""
    return find_spec(LIBRARIES[name].package) is not None


def chosen(name: str | None, dtype: np.dtype[Any]) -> str | None:
    """The library that makes factors of a value type: the one that was asked for, or the fastest; None for none."""
    names = LIBRARIES if name is None else (name,)
    fitting = (each for each in names if LIBRARIES[each].lowered or dtype == np.float64)
    return next((each for each in fitting if installed(each)), None)


def maker(name: str) -> Callable[[Any, Kind], Factors]:
    """The function that makes factors of a SciPy CSR array with a library that is installed."""
    made: Callable[[Any, Kind], Factors] = import_module(f"dsolver.kernels.direct.{LIBRARIES[name].module}").factors
    return made
