"""Grids of one or two dimensions as grids of three, with one point along each axis that is missing.

Functions that make problems look at users' arguments here; what they make has three axes, and nothing below knows of
fewer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from operator import index
from typing import Any, Final, Self

import numpy as np

from dsolver.errors import InputError, in_a_line
from dsolver.grid.box import Flags, Triple, three
from dsolver.grid.partition import Cut, cut_of

AXES: Final = "xyz"
MISSING: Final = "axis {} of the grid"  # the dimension of a DataArray along an axis that its grid does not have
WORDS: Final = {1: "one", 2: "two", 3: "three"}


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """A grid as its user wrote it, points along one, two or three axes, and as one of three axes."""

    shape: tuple[int, ...]

    @classmethod
    def of(cls, grid: Any) -> Self:
        """The embedding of one, two or three integers; of one that stands by itself, a line. InputError for others."""
        try:
            shape = (index(grid),) if isinstance(grid, Integral) else tuple(index(n) for n in grid)
        except TypeError:
            shape = ()
        if len(shape) not in WORDS:
            kind, given = type(grid).__name__, tuple(getattr(grid, "shape", ()))
            found = (
                f"a {kind} of shape {given}: its shape is the grid, and comes before it" if given else in_a_line(grid)
            )
            raise InputError(f"grid must be one to three integers, along x, y and z, not {found}")
        return cls(shape=shape)

    @property
    def dimensions(self) -> int:
        """Number of axes that the user gave."""
        return len(self.shape)

    @property
    def axes(self) -> str:
        """Names of the axes, such as "xy"."""
        return AXES[: self.dimensions]

    @property
    def numbers(self) -> range:
        """Numbers of the axes."""
        return range(self.dimensions)

    @property
    def grid(self) -> Triple:
        """Points along x, y and z."""
        return three("grid", (*self.shape, *self._more(1)))

    def cut(self, chunks: Any) -> Cut | None:
        """Chunk counts, or extents, along all three axes; None stays. InputError: not one for each axis."""
        if chunks is None or self.dimensions == 3:
            return None if chunks is None else cut_of(chunks)
        along = self._each("chunks", chunks)
        return cut_of((*along, *self._more(1 if hasattr(along[0], "__index__") else (1,))))

    def periodic(self, flags: Any) -> Flags:
        """One flag for all axes, or for each, along all three; False along missing ones. InputError for others."""
        every = isinstance(flags, bool | np.bool_)
        try:
            found = [bool(flag) for flag in ([flags] * self.dimensions if every else flags)]
            x, y, z = found + [False] * (3 - self.dimensions)
        except (TypeError, ValueError) as error:
            raise InputError(f"periodic must be True, False or one for each axis, not {in_a_line(flags)}") from error
        return x, y, z

    def offset(self, values: Any) -> Triple:
        """A step along the grid's axes as one along all three. InputError: it is not one integer for each axis."""
        try:
            steps = tuple(index(value) for value in values)
        except TypeError:
            steps = ()
        if len(steps) != self.dimensions:
            raise InputError(
                f"offset must be {WORDS[self.dimensions]} integers, along {self.listed}, not {in_a_line(values)}"
            )
        return three("offset", (*steps, *self._more(0)))

    def entries(self, values: Sequence[Any], missing: Any) -> list[Any]:
        """One entry for each of the three axes, from one for each of the grid's."""
        return [*values, *self._more(missing)]

    def array(self, values: Any) -> Any:
        """An array of the grid's shape, or of a face's, with an axis of length 1 for each that is missing."""
        if self.dimensions == 3:
            return values
        if hasattr(values, "dims"):  # of xarray, which has a name for each axis; a plane may well have x and z
            for number in range(self.dimensions, 3):
                values = values.expand_dims(MISSING.format(number), axis=-1)
            return values
        return values[(..., *self._more(None))]

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the grid's coordinates as one of x, y and z."""
        return function if self.dimensions == 3 else _Embedded(function, self.dimensions)

    def face(self, axis: int) -> tuple[int, ...]:
        """Cells of the faces at the ends of an axis, along the grid's other axes."""
        return tuple(n for other, n in enumerate(self.shape) if other != axis)

    def _more(self, value: Any) -> tuple[Any, ...]:
        return (value,) * (3 - self.dimensions)

    @property
    def listed(self) -> str:
        """The names of the axes in a sentence."""
        return " and ".join(self.axes) if self.dimensions < 3 else "x, y and z"

    def _each(self, name: str, values: Any) -> tuple[Any, ...]:
        """One value for each axis of the grid."""
        found = tuple(values) if hasattr(values, "__iter__") and not isinstance(values, str) else ()
        if len(found) != self.dimensions:
            raise InputError(f"{name} needs one entry for each axis of the grid {self.shape}, not {in_a_line(values)}")
        return found


@dataclass(frozen=True)
class _Embedded:
    """A function of fewer coordinates, called with x, y and z; picklable if the function is."""

    function: Callable[..., Any]
    dimensions: int

    def __call__(self, *points: Any) -> Any:
        missing = 3 - self.dimensions
        values = self.function(*(x.reshape(x.shape[: self.dimensions]) for x in points[: self.dimensions]))
        values = values if hasattr(values, "ndim") else np.asarray(values)
        return values[(..., *(None,) * missing)] if values.ndim else values


def own_dims(values: Any) -> tuple[Any, ...]:
    """The dimensions that a DataArray came with, before `Embedding.array` gave it those of missing axes."""
    missing = {MISSING.format(number) for number in range(3)}
    return tuple(dim for dim in values.dims if dim not in missing)
