"""Coordinates of the centers of cells, which arrays of xarray bring along, and the cell sizes that follow from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.problems.embedding import AXES, own_dims

F64 = npt.NDArray[np.float64]

SAME: Final = 1e-6  # the difference of two coordinates that counts as rounding, in cells


@dataclass(frozen=True, kw_only=True, eq=False)
class Centers:
    """Coordinates along an axis of the grid."""

    of: str  # the argument that brought them
    dim: str  # the axis' name there
    at: F64  # float64 (n,)
    slack: float  # the difference that counts as rounding

    def like(self, at: F64) -> bool:
        """Whether coordinates are the same but for rounding."""
        return bool((abs(at - self.at) <= self.slack).all())

    def sizes(self) -> F64:
        """Sizes of cells with these centers, equal or growing by one factor; InputError where they tell no sizes."""
        self.check_increasing()
        steps, count = np.diff(self.at), len(self.at)
        if not len(steps):
            return np.ones(1)
        even = float(steps.mean())
        if self.like(self.at[0] + even * np.arange(count)):
            return np.full(count, even)
        factor = float(steps[-1] / steps[0]) ** (1.0 / (count - 2))
        graded: F64 = 2.0 * steps[0] / (1.0 + factor) * factor ** np.arange(count)
        if not self.like(self.at[0] + centers(graded) - 0.5 * graded[0]):
            raise InputError(
                f"{self.of} has coordinates along {self.dim!r} whose distances are neither equal nor grow by one "
                f"factor, and centers alone do not tell such cells: pass their sizes along each axis as spacing=, for "
                f"instance numpy.diff of the faces' coordinates"
            )
        return graded

    def check_increasing(self) -> None:
        """Refuse coordinates that do not increase from cell to cell; raises InputError."""
        if not (np.isfinite(self.at).all() and (np.diff(self.at) > 0.0).all()):
            raise InputError(
                f"{self.of} has coordinates along {self.dim!r} that do not increase from cell to cell: "
                f"{self.of}.sortby({self.dim!r}) puts them in order"
            )


def check_order(name: str, values: Any, dimensions: int, *, several: bool = False) -> None:
    """Refuse (InputError) a DataArray whose dimensions x, y and z stand in another order, or not at the end.

    Of several right-hand sides they stand in front. dimensions: of the grid: in a plane x and y are looked at.
    """
    dims, axes = tuple(getattr(values, "dims", ())), tuple(AXES[:dimensions])
    others = [dim for dim in dims if dim not in axes]
    wanted = (*axes, *others) if several else (*others, *axes)
    if {*axes} <= {*dims} and dims != wanted:
        raise InputError(
            f"{name} has the dimensions {dims}, but the order of a grid's is {', '.join(axes)}: pass "
            f"{name}.transpose({', '.join(map(repr, wanted))})"
        )


def check_agreement(arrays: Mapping[str, Any], dimensions: Mapping[str, int]) -> None:
    """Refuse (InputError) DataArrays that have a dimension in common, each along another axis of the grid.

    `arrays`: with the grid's axes, or with one axis more in front, by the names of their arguments. `dimensions`: how
    many axes those of a name have.
    """
    found: dict[Any, tuple[int, str]] = {}
    for name, values in arrays.items():
        dims = getattr(values, "dims", ())  # what Dask has delayed has any attribute
        for axis, dim in enumerate(dims[-dimensions[name] :] if isinstance(dims, tuple) else ()):
            along, other = found.setdefault(dim, (axis, name))
            if along != axis:
                first, second = (own_dims(arrays[each]) for each in (other, name))
                raise InputError(
                    f"{other} has the dimensions {first}, but {name} has {second}: transpose one, so that {dim!r} is "
                    f"the same axis of both"
                )


def centers(sizes: F64) -> F64:
    """Centers of cells whose first one begins at 0."""
    ends: F64 = np.cumsum(sizes)
    return ends - 0.5 * sizes


def centers_of(name: str, values: Any, axes: Sequence[int]) -> dict[int, Centers]:
    """Numeric coordinates of an array of any kind by axis of the grid, whose last axes are these; or none."""
    if not (hasattr(values, "dims") and hasattr(values, "coords")):
        return {}
    found: dict[int, Centers] = {}
    for axis, dim in zip(axes, tuple(values.dims)[-len(axes) :], strict=False):
        if dim not in values.coords or values.coords[dim].dtype.kind not in "iuf":
            continue
        given = values.coords[dim].values
        at = given.astype(np.float64)
        rounding = 4.0 * float(np.finfo(given.dtype).eps) * float(abs(at).max()) if given.dtype.kind == "f" else 0.0
        least = float(abs(np.diff(at)).min()) if len(at) > 1 else 1.0
        found[axis] = Centers(of=name, dim=str(dim), at=at, slack=SAME * least + rounding)
    return found


def agreed(arrays: Iterable[Mapping[int, Centers]]) -> dict[int, Centers]:
    """The coordinates along each axis that arrays have in common; InputError where two have different ones."""
    found: dict[int, Centers] = {}
    for each in arrays:
        for axis, mine in each.items():
            first = found.setdefault(axis, mine)
            if mine is not first and mine.at.shape == first.at.shape and not first.like(mine.at):
                raise InputError(
                    f"{first.of} and {mine.of} have different coordinates along {mine.dim!r} ({_range(first.at)} and "
                    f"{_range(mine.at)}): they are not of the same cells; bring one to the other's, or drop them by "
                    f"{mine.of}.drop_vars({mine.dim!r})"
                )
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Sizes and places of a grid's cells."""

    sizes: tuple[F64, F64, F64]  # along x, y, z, float64 (nx,), (ny,), (nz,)
    # coordinates of the faces x-, y-, z-; None where nothing told them, and they count as 0.
    starts: tuple[float | None, float | None, float | None] = (None, None, None)

    def centers(self, axis: int) -> F64:
        """Coordinates of the centers along an axis."""
        return centers(self.sizes[axis]) + (self.starts[axis] or 0.0)

    def face(self, axis: int, side: int) -> float:
        """The coordinate of the face at one end (0 or 1) of an axis."""
        return (self.starts[axis] or 0.0) + side * float(self.sizes[axis].sum())

    def check(self, found: Mapping[int, Centers]) -> None:
        """Refuse coordinates of an argument, by axis, that are not those of these cells; raises InputError."""
        for axis, mine in found.items():
            mine.check_increasing()
            at, sizes = self.centers(axis), self.sizes[axis]
            if self.starts[axis] is None:
                at += mine.at[0] - at[0]
            if mine.at.shape == at.shape and not mine.like(at):
                array = mine.of if mine.of.isidentifier() else "array"
                raise InputError(
                    f"{mine.of} has coordinates along {mine.dim!r} ({_range(mine.at)}) that are not those of the "
                    f"problem's cells ({_range(at)}, of size {_sizes(sizes)}): make the problem with "
                    f"spacing={array}, for the cells that its coordinates tell, or drop them by "
                    f"{array}.drop_vars({mine.dim!r})"
                )


def _range(at: F64) -> str:
    return f"{len(at)} from {at[0]:g} to {at[-1]:g}"


def _sizes(sizes: F64) -> str:
    low, high = float(sizes.min()), float(sizes.max())
    return f"{low:g}" if high <= low * (1.0 + SAME) else f"{low:g} to {high:g}"
