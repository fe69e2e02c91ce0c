"""Boundary conditions on the six faces of the grid.

A condition at a face, with outward normal n, is written as one equation for u and its flux κ ∂u/∂n there. In finite
volumes it becomes two numbers for each cell at the face: what is added to the diagonal, and to the right-hand side.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, check_computed, in_a_line
from dsolver.foreign_arrays import without_package
from dsolver.grid.partition import Flags
from dsolver.problems.coordinates import Cells, centers_of
from dsolver.problems.embedding import Embedding

FACES: Final = ("x-", "x+", "y-", "y+", "z-", "z+")
"""The faces by axis and side: x- is where i = 0."""

ALPHA: Final = "alpha"
"""The number of a condition that is a part of the matrix; all others are of right-hand sides."""

FaceValue = float | npt.NDArray[np.float64] | Callable[..., Any]
"""A number for the whole face; an array (ny, nz), (nx, nz) or (nx, ny) with one for each cell at it, in a plane (ny,)
or (nx,); or a function of the coordinates (x, y, z), or (x, y), of their centers at the face, called with arrays that
broadcast."""


class Condition(ABC):
    """A boundary condition at a face."""

    @property
    def periodic(self) -> bool:
        """Whether the other side of the grid follows."""
        return False

    @property
    def grounds(self) -> bool | None:
        """Whether it fixes the constant that a solution may otherwise differ by; None where that depends on cells."""
        return False

    @property
    def values(self) -> dict[str, FaceValue]:
        """Its numbers by name."""
        return {}

    @property
    def feeds(self) -> bool:
        """Whether it may add to right-hand sides, as all but zeros do."""
        given = (value for name, value in self.values.items() if name != ALPHA)
        return any(not isinstance(value, int | float) or value != 0.0 for value in given)

    @property
    def homogeneous(self) -> Condition:
        """The condition of the same kind that adds nothing to right-hand sides."""
        return type(self)(**{name: value if name == ALPHA else 0.0 for name, value in self.values.items()})

    def alike(self, other: Condition) -> bool:
        """Whether another condition has the same part in the matrix, so that values alone differ."""
        mine, its = (condition.values.get(ALPHA) for condition in (self, other))
        same = mine == its if callable(mine) or callable(its) else np.array_equal(np.asarray(mine), np.asarray(its))
        return type(self) is type(other) and bool(same)

    @property
    def share(self) -> float | None:
        """The part of area / resistance that is added to the diagonal; None where it depends on cells."""
        return None

    @abstractmethod
    def terms(self, xp: Any, resistance: Any, area: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """Additions to the diagonal and to the right-hand side of cells.

        Args:
            xp: the array module.
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
        """Look at what depends on more than one number.

        Raises:
            InputError: the condition makes no sense.
        """


@final
@dataclass(frozen=True, eq=False)
class Dirichlet(Condition):
    """u = value at the face.

    Args:
        value: a number, an array with one for each cell at the face, or a function of (x, y, z).
    """

    value: FaceValue = 0.0

    @property
    def grounds(self) -> bool:
        return True

    @property
    def values(self) -> dict[str, FaceValue]:
        return {"value": self.value}

    @property
    def share(self) -> float:
        return 1.0

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

    @property
    def values(self) -> dict[str, FaceValue]:
        return {"flux": self.flux}

    @property
    def share(self) -> float:
        return 0.0

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
        return bool(np.any(np.asarray(self.alpha) > 0.0)) or False

    @property
    def values(self) -> dict[str, FaceValue]:
        return {ALPHA: self.alpha, "value": self.value}

    def terms(self, xp: Any, resistance: Any, area: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        # Face value eliminated: (u_face - u) / resistance = value - alpha u_face.
        alpha = xp.asarray(values[ALPHA])
        share = area / (1.0 + xp.where(alpha > 0.0, alpha * resistance, 0.0))
        return alpha * share, values["value"] * share

    def at_face(self, xp: Any, resistance: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        share = 1.0 / (1.0 + values[ALPHA] * resistance)
        return share, resistance * values["value"] * share

    def __str__(self) -> str:
        return f"κ ∂u/∂n + {_in_words(self.alpha)} u = {_in_words(self.value)}"

    def check(self, face: str) -> None:
        if not callable(self.alpha) and bool(np.any(np.asarray(self.alpha) < 0.0)):
            raise InputError(f"the Robin condition at {face} has a negative alpha: the matrix would not be definite")


@final
@dataclass(frozen=True, eq=False)
class Periodic(Condition):
    """The last cell along the axis is followed by the first."""

    @property
    def periodic(self) -> bool:
        return True

    def terms(self, xp: Any, resistance: Any, area: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        raise AssertionError("a periodic axis has no faces")

    def at_face(self, xp: Any, resistance: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        raise AssertionError("a periodic axis has no faces")

    def __str__(self) -> str:
        return "periodic"


BY_NAME: Final[Mapping[str, Callable[[], Condition]]] = {
    "dirichlet": Dirichlet,
    "neumann": Neumann,
    "periodic": Periodic,
}


@final
@dataclass(frozen=True, eq=False)
class Boundary:
    """The conditions of all faces. Make it with `boundary_of`.

    Attributes:
        conditions: by face, in the order of `FACES`.
    """

    conditions: tuple[Condition, ...]

    @cached_property
    def periodic(self) -> Flags:
        """Periodic axes."""
        x, y, z = (condition.periodic for condition in self.conditions[::2])
        return x, y, z

    @property
    def grounds(self) -> bool | None:
        """Whether any face fixes the constant; None where cells decide."""
        found = [condition.grounds for condition in self.conditions]
        return True if True in found else None if None in found else False

    @property
    def homogeneous(self) -> Boundary:
        """The conditions of the same kinds that add nothing to right-hand sides."""
        return Boundary(tuple(condition.homogeneous for condition in self.conditions))

    def at(self, axis: int, side: int) -> Condition:
        """The condition at one end (0 or 1) of an axis."""
        return self.conditions[2 * axis + side]


def boundary_of(space: Embedding, bc: Any, cells: Cells) -> Boundary:
    """The conditions that a user has named. Nothing flows through faces across an axis that the grid does not have.

    Args:
        space: the grid.
        cells: of the grid, of which coordinates of a face's values have to be.
        bc: None for u = 0 on all faces; one condition, or its name, for all faces; or a mapping from faces ("x-") and
            axes ("x", for both ends) to conditions; nothing flows through faces that it does not name.

    Raises:
        InputError: a face or a condition is unknown, only one end of an axis is periodic, or a value does not fit.
    """
    if isinstance(bc, list | tuple):
        raise InputError(
            f"bc must be one condition, or a mapping such as {{'x-': 'neumann', 'z': 'periodic'}}, not {in_a_line(bc)}"
        )
    faces = [face for face in FACES if face[0] in space.axes]
    if not isinstance(bc, Mapping):
        named = dict.fromkeys(faces, Dirichlet() if bc is None else _condition(bc))
    else:
        unknown = [key for key in bc if key not in (*faces, *space.axes)]
        if unknown:
            ends = f"{', '.join(space.axes)} for both ends"
            raise InputError(f"bc names {in_a_line(unknown[0])}: the faces are {', '.join(faces)}, or {ends}")
        both = [key for key in bc if key in FACES and key[0] in bc]
        if both:
            raise InputError(f"bc names {both[0][0]!r} and {both[0]!r}: name an axis or its faces, not both")
        without = [key for key, condition in bc.items() if condition is None]
        if without:
            raise InputError(
                f"bc has None for {without[0]!r}: leave it out where nothing flows, or name a condition, such as "
                f"'dirichlet' for u = 0"
            )
        given = {face: bc.get(face, bc.get(face[0])) for face in faces}
        named = {face: _condition(condition) for face, condition in given.items() if condition is not None}
    named = {face: named.get(face, Neumann()) for face in FACES}
    for minus, plus in zip(FACES[::2], FACES[1::2], strict=True):
        if named[minus].periodic != named[plus].periodic:
            raise InputError(f"bc is periodic at one end of {minus[0]} only: both ends are, or none")
    return Boundary(tuple(_checked(space, cells, face, condition) for face, condition in named.items()))


def other_values(space: Embedding, boundary: Boundary, bc: Any, cells: Cells) -> Boundary:
    """Conditions of the same kinds with other values.

    Args:
        space: the grid.
        boundary: the conditions.
        bc: as of `boundary_of`; faces that a mapping does not name keep their values.
        cells: of the grid.

    Raises:
        InputError: as of `boundary_of`, or a condition is of another kind, or has another alpha.
    """
    given = boundary_of(space, bc, cells)
    named = {face for face in FACES if not isinstance(bc, Mapping) or face in bc or face[0] in bc}
    for face, old, new in zip(FACES, boundary.conditions, given.conditions, strict=True):
        if face in named and not new.alike(old):
            raise InputError(
                f"bc gives other values to conditions that stay: at face {face} it is {old}, not {new}: give update() "
                f"a whole problem with the other condition, which is set up anew"
            )
    pairs = zip(FACES, boundary.conditions, given.conditions, strict=True)
    return Boundary(tuple(new if face in named else old for face, old, new in pairs))


def _condition(bc: Any) -> Condition:
    if isinstance(bc, Condition):
        return bc
    if isinstance(bc, str) and bc.lower() in BY_NAME:
        return BY_NAME[bc.lower()]()
    raise InputError(
        f"unknown boundary condition {in_a_line(bc)}: use 'dirichlet', 'neumann', 'periodic', or Dirichlet(value), "
        f"Neumann(flux), Robin(alpha, value), Periodic() of dsolver.problems"
    )


def _in_words(value: FaceValue) -> str:
    """A condition's number for a line of text."""
    return "a function" if callable(value) else f"{value:g}" if isinstance(value, int | float) else "an array"


def check_unmasked(name: str, values: Any) -> None:
    """Refuse a masked array, which NumPy would take with what its mask hides.

    Raises:
        InputError: something is masked.
    """
    if np.ma.is_masked(values):
        raise InputError(f"{name}: a masked array, and what it hides would be taken for values: pass .filled(VALUE)")


def _checked(space: Embedding, cells: Cells, face: str, condition: Condition) -> Condition:
    """The condition with its values as floats, and arrays and functions of three axes."""
    values = {}
    for name, value in condition.values.items():
        values[name] = _face_value(space, face, name, value)
        across = [axis for axis in space.numbers if "xyz"[axis] != face[0]]
        cells.check(centers_of(f"{name} at face {face}", value, across))
    made = type(condition)(**values)
    made.check(face)
    return made


def _face_value(space: Embedding, face: str, name: str, value: Any) -> FaceValue:
    if type(value) is float and math.isfinite(value):
        return value
    shape = space.face("xyz".index(face[0]))
    check_computed(f"{name} at face {face}", value)
    value = without_package(f"{name} at face {face}", value)
    if callable(value):
        return space.function(value)  # what it returns is looked at where it is called
    dims, axes = tuple(getattr(value, "dims", ())), tuple(axis for axis in "xyz" if axis != face[0])
    if dims != axes and {*dims} == {*axes}:
        raise InputError(f"{name} at face {face} has the dimensions {dims}, but the order of the face's is {axes}")
    found = value.get() if hasattr(value, "get") else value.compute() if hasattr(value, "compute") else value
    check_unmasked(f"{name} at face {face}", found)
    array = np.asarray(found)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InputError(f"{name} at face {face} must be finite real numbers")
    if array.ndim == 0:
        return float(array)
    if array.shape != shape:
        raise InputError(f"{name} at face {face} has shape {array.shape}, but the face has {shape} cells")
    embedded: npt.NDArray[np.float64] = space.array(array.astype(np.float64))
    return embedded
