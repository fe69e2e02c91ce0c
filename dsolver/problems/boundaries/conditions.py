"""Kinds of boundary conditions.

A condition at a face, with outward normal n, is written as one equation for u and its flux κ ∂u/∂n there. In finite
volumes it becomes two numbers for each cell at the face: what is added to the diagonal, and to the right-hand side.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError

FACES: Final = ("x-", "x+", "y-", "y+", "z-", "z+")  # the faces by axis and side: x- is where i = 0

ALPHA: Final = "alpha"  # the number of a condition that is a part of the matrix; all others are of right-hand sides

FaceValue = complex | npt.NDArray[Any] | Callable[..., Any]
"""A number for the whole face, or an array (ny, nz), (nx, nz) or (nx, ny) with one for each cell at it, in a plane
(ny,) or (nx,), real or complex; or a real function of the coordinates (x, y, z), or (x, y), of their centers at the
face, called with arrays that broadcast."""


class Condition(ABC):
    """A boundary condition at a face."""

    periodic: ClassVar[bool] = False
    """Whether the other side of the grid follows."""
    share: ClassVar[float | None] = None
    """The part of area / resistance that is added to the diagonal; None where it depends on cells."""

    @property
    def grounds(self) -> bool | None:
        """Whether it fixes the constant that a solution may otherwise differ by; None where that depends on cells."""
        return False

    @property
    def values(self) -> dict[str, FaceValue]:
        """Numbers of the condition by name."""
        return dict(vars(self))

    @property
    def feeds(self) -> bool:
        """Whether it may add to right-hand sides, as all but zeros do."""
        given = (value for name, value in self.values.items() if name != ALPHA)
        return any(not isinstance(value, int | float | complex | np.ndarray) or np.any(value) for value in given)

    @property
    def homogeneous(self) -> "Condition":
        """The condition of the same kind that adds nothing to right-hand sides."""
        return type(self)(**{name: value if name == ALPHA else 0.0 for name, value in self.values.items()})

    def alike(self, other: "Condition") -> bool:
        """Whether another condition has the same part in the matrix, so that values alone differ."""
        mine, its = (condition.values.get(ALPHA) for condition in (self, other))
        same = mine == its if callable(mine) or callable(its) else np.array_equal(np.asarray(mine), np.asarray(its))
        return type(self) is type(other) and bool(same)

    @abstractmethod
    def terms(self, xp: Any, resistance: Any, area: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """Additions to the diagonal and to the right-hand side of cells.

        Args:
            resistance: (h/2) / κ of each cell, infinite where κ is zero.
            area: of each cell's face.
            values: the condition's numbers at each.
        """

    @abstractmethod
    def at_face(self, xp: Any, resistance: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """The value at the face as a multiple of that in the cell, and what is added to it; arguments as of `terms`."""

    @abstractmethod
    def __str__(self) -> str:
        """The condition in words, such as "u = 1"."""

    def check(self, face: str) -> None:  # noqa: B027  # most conditions allow any number
        """Look at what depends on more than one number; InputError where the condition makes no sense."""


@final
@dataclass(frozen=True, eq=False)
class Dirichlet(Condition):
    """u = value at the face.

    Args:
        value: a number, an array with one for each cell at the face, or a function of (x, y, z).
    """

    value: FaceValue = 0.0
    share: ClassVar[float | None] = 1.0

    @property
    def grounds(self) -> bool:
        return True

    def terms(self, xp: Any, resistance: Any, area: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        conductance = area / resistance
        return conductance, conductance * values["value"]

    def at_face(self, xp: Any, resistance: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        return xp.zeros_like(resistance), values["value"]

    def __str__(self) -> str:
        return f"u = {_in_words(self.value)}"


@final
@dataclass(frozen=True, eq=False)
class Neumann(Condition):
    """κ ∂u/∂n = flux at the face, n pointing outward: a positive flux feeds the domain.

    Args:
        flux: a number, an array with one for each cell at the face, or a function of (x, y, z).
    """

    flux: FaceValue = 0.0
    share: ClassVar[float | None] = 0.0

    def terms(self, xp: Any, resistance: Any, area: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        nothing = xp.zeros_like(area * resistance)
        return nothing, nothing + area * values["flux"]

    def at_face(self, xp: Any, resistance: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        return xp.ones_like(resistance), resistance * values["flux"]

    def __str__(self) -> str:
        return f"κ ∂u/∂n = {_in_words(self.flux)}" if self.feeds else "no flux"


@final
@dataclass(frozen=True, eq=False)
class Robin(Condition):
    """κ ∂u/∂n + alpha u = value at the face, n pointing outward.

    Heat that a surface gives to surroundings of temperature T with a transfer coefficient h is alpha = h, value = h T.

    Args:
        alpha: not negative; a number, an array with one for each cell at the face, or a function of (x, y, z).
        value: the same, of any sign.
    """

    alpha: FaceValue
    value: FaceValue = 0.0

    @property
    def grounds(self) -> bool | None:
        if callable(self.alpha):
            return None
        return bool(np.any(np.asarray(self.alpha) > 0.0))

    def terms(self, xp: Any, resistance: Any, area: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        # Face value eliminated: (u_face - u) / resistance = value - alpha u_face.
        alpha = xp.asarray(values[ALPHA])
        drop, beyond, most = _drop(xp, alpha, resistance)
        share = area / (1.0 + drop)
        fixed = area / xp.where(beyond, resistance, 1.0)
        value = values["value"]
        return xp.where(beyond, fixed, alpha * share), xp.where(beyond, value / most * fixed, value * share)

    def at_face(self, xp: Any, resistance: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        drop, beyond, most = _drop(xp, xp.asarray(values[ALPHA]), resistance)
        share, value = 1.0 / (1.0 + drop), values["value"]
        return share, xp.where(beyond, value / most, xp.where(beyond, 0.0, resistance) * value * share)

    def __str__(self) -> str:
        return f"κ ∂u/∂n + {_in_words(self.alpha)} u = {_in_words(self.value)}"

    def check(self, face: str) -> None:
        if not callable(self.alpha) and bool(np.any(np.asarray(self.alpha) < 0.0)):
            raise InputError(f"the Robin condition at {face} has a negative alpha: the matrix would not be definite")


def _drop(xp: Any, alpha: Any, resistance: Any) -> tuple[Any, Any, Any]:
    """alpha times the resistance; where it is beyond all numbers, so that u = value / alpha; alpha there, else 1."""
    with np.errstate(over="ignore"):
        drop = xp.where(alpha > 0.0, alpha * resistance, 0.0)
    beyond = drop == np.inf
    return drop, beyond, xp.where(beyond, alpha, 1.0)


@final
@dataclass(frozen=True, eq=False)
class Periodic(Condition):
    """The last cell along the axis is followed by the first."""

    periodic: ClassVar[bool] = True

    def terms(self, xp: Any, resistance: Any, area: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        raise AssertionError("a periodic axis has no faces")

    def at_face(self, xp: Any, resistance: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        raise AssertionError("a periodic axis has no faces")

    def __str__(self) -> str:
        return "periodic"


def _in_words(value: FaceValue) -> str:
    """A condition's number for a line of text."""
    return "a function" if callable(value) else f"{value:g}" if isinstance(value, int | float | complex) else "an array"
