"""Boundary conditions of all six faces of the grid, as a user names them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self, final

import numpy as np

from dsolver.errors import InputError, check_computed, in_a_line
from dsolver.foreign_arrays import on_host, without_package
from dsolver.grid.box import Flags
from dsolver.problems.boundaries.conditions import ALPHA, FACES, Condition, Dirichlet, FaceValue, Neumann, Periodic
from dsolver.problems.coordinates import Cells, centers_of
from dsolver.problems.embedding import Embedding

BY_NAME: Final[Mapping[str, Callable[[], Condition]]] = {
    "dirichlet": Dirichlet,
    "neumann": Neumann,
    "periodic": Periodic,
}


@final
@dataclass(frozen=True, eq=False)
class Boundary:
    """The conditions of all faces, in the order of `FACES`. Make it with `boundary_of`."""

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
    def has_complex(self) -> bool:
        """Whether a value is complex."""
        values = [value for condition in self.conditions for value in condition.values.values()]
        return any(not callable(value) and np.iscomplexobj(value) for value in values)

    @property
    def homogeneous(self) -> Self:
        """The conditions of the same kinds that add nothing to right-hand sides."""
        return Boundary(tuple(condition.homogeneous for condition in self.conditions))

    def at(self, axis: int, side: int) -> Condition:
        """The condition at one end (0 or 1) of an axis."""
        return self.conditions[2 * axis + side]


def boundary_of(space: Embedding, bc: Any, cells: Cells) -> Boundary:
    """The conditions that a user has named. Nothing flows through faces across an axis that the grid does not have.

    `bc`: None for u = 0 on all faces; one condition, or its name, for all faces; or a mapping from faces ("x-") and
    axes ("x", for both ends) to conditions; nothing flows through faces that it does not name. InputError: a face or a
    condition is unknown, only one end of an axis is periodic, or a value does not fit.
    """
    if isinstance(bc, list | tuple):
        raise InputError(f"bc must be one condition, or a mapping such as {{'x-': 'neumann'}}, not {in_a_line(bc)}")
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

    `bc`: as of `boundary_of`; faces that a mapping does not name keep their values. InputError: as of `boundary_of`, or
    a condition is of another kind, or has another alpha.
    """
    given = boundary_of(space, bc, cells)
    named = {face for face in FACES if not isinstance(bc, Mapping) or face in bc or face[0] in bc}
    for face, old, new in zip(FACES, boundary.conditions, given.conditions, strict=True):
        if face in named and not new.alike(old):
            alpha = ", with another alpha" if type(new) is type(old) else ""
            raise InputError(
                f"bc gives other values to conditions that stay: at face {face} it is {old}, not {new}{alpha}: give "
                f"update() a whole problem with the other condition, which is set up anew"
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


def check_unmasked(name: str, values: Any) -> None:
    """Refuse a masked array, which NumPy would take with what its mask hides; raises InputError."""
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
    found = on_host(value)
    check_unmasked(f"{name} at face {face}", found)
    array = np.asarray(found)
    if array.dtype.kind not in ("fiu" if name == ALPHA else "fiuc") or not np.isfinite(array).all():
        raise InputError(f"{name} at face {face} must be finite{' real' * (name == ALPHA)} numbers")
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    if array.ndim == 0:
        return complex(array) if kind is np.complex128 else float(array)
    if array.shape != shape:
        raise InputError(f"{name} at face {face} has shape {array.shape}, but the face has {shape} cells")
    return space.array(array.astype(kind))
