"""Coefficients of a diffusion problem, and sets of its cells, as they are given: numbers, arrays and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from numbers import Number, Real
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, check_computed, float_of, in_a_line
from dsolver.foreign_arrays import on_host, without_package
from dsolver.problems.coefficient_names import CROSS, FIXED, KAPPA, LEAST_KAPPA, MASK, SIGMA, VELOCITY
from dsolver.problems.coordinates import Cells, check_order
from dsolver.problems.discretization import evaluated
from dsolver.problems.embedding import WORDS, Embedding
from dsolver.units import counted

ROUNDED: Final = 1e-12  # part of an entry of a tensor by which the one across the diagonal may differ
Coefficient = Any
"""A number; an array of the grid's shape, of NumPy, CuPy, Dask, xarray or a package that knows DLPack; or a function
f(x, y, z) of the cells' centers, in a plane f(x, y)."""


def check_numbers(numbers: Mapping[str, Any]) -> None:
    """Refuse coefficients that are numbers and cannot be; raises InputError."""
    for called, value in numbers.items():
        if called in (MASK, FIXED):
            raise InputError(f"{called} must be an array of the grid's shape, or a function of its coordinates")
        if isinstance(value, complex):
            if not (np.isfinite(value) and (value != 0.0 or called == SIGMA)):
                raise InputError(f"{called} must be finite{'' if called == SIGMA else ' and not 0'}, not {value}")
        elif not (np.isfinite(value) and value >= (0.0 if called == SIGMA else LEAST_KAPPA)):
            least = "not negative" if called == SIGMA else f"> 0, {LEAST_KAPPA:g} or more"
            alone = "; 1e-30 leaves lines of cells alone" if called in KAPPA and value == 0.0 else ""
            raise InputError(f"{called} must be finite and {least}, not {value}{alone}")


def diagonal_and_cross(space: Embedding, kappa: Any) -> tuple[Any, list[Any]]:
    """κ along the axes, and the rest of a full tensor in the order of `CROSS`. InputError: it is not symmetric."""
    check_computed("kappa", kappa)
    count = space.dimensions
    rows = _rows_of_tensor(space, kappa)
    if rows is None:
        return kappa, []
    found: dict[tuple[int, int], Any] = {}
    for i, j in combinations(range(count), 2):
        if not _equal(rows[i][j], rows[j][i]):
            raise InputError(f"kappa must be a symmetric tensor: entries [{i}, {j}] and [{j}, {i}] differ")
        found[i, j] = on_axes(space, CROSS[i + j - 1], rows[i][j])
    cross = [found.get(pair, 0.0) for pair in combinations(range(3), 2)]
    return [rows[axis][axis] for axis in range(count)], cross


def _rows_of_tensor(space: Embedding, kappa: Any) -> Sequence[Sequence[Any]] | None:
    """Entries of a tensor; None where κ is none."""
    count = space.dimensions
    if count > 1 and isinstance(kappa, list | tuple) and len(kappa) == count:
        every = all(isinstance(row, list | tuple) and len(row) == count for row in kappa)
        return kappa if every else None
    shape = tuple(getattr(kappa, "shape", ()))
    if count == 1 or shape == space.shape or shape not in ((count, count), (*space.shape, count, count)):
        return None
    values = np.asarray(on_host(without_package("kappa", kappa)))
    return [[values[..., i, j].copy() for j in range(count)] for i in range(count)]


def _equal(one: Any, other: Any) -> bool:
    """Whether two entries are the same but for rounding."""
    if one is other or callable(one) or callable(other):
        return one is other
    first, second = np.asarray(one), np.asarray(other)
    return first.shape == second.shape and bool((abs(first - second) <= ROUNDED * abs(first)).all())


def per_axis(space: Embedding, kappa: Any) -> list[tuple[str, Any]]:
    """One κ, or three, with their names; 1 along an axis that is missing."""
    check_computed("kappa", kappa)
    count, shape = space.dimensions, getattr(kappa, "shape", None)
    if not isinstance(kappa, list | tuple) and (shape != (count,) or shape == space.shape):
        return [("kappa", kappa)]
    if len(kappa) != count:
        each = f"{WORDS[count]}, along {space.listed}"
        raise InputError(f"kappa has {counted(len(kappa), 'entry', 'entries')}: give one for all axes, or {each}")
    return list(zip(KAPPA, space.entries(list(kappa), 1.0), strict=True))


def on_axes(space: Embedding, name: str, value: Any) -> Any:
    """A coefficient on three axes: number, array or function. InputError: it is none, or of another shape."""
    check_computed(name, value)
    if isinstance(value, Number) or (value is None and name not in ("kappa", *KAPPA)):
        return value
    check_order(name, value, space.dimensions)
    value = without_package(name, value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if tuple(value.shape) not in ((), space.shape):
            raise InputError(
                f"{name} has shape {tuple(value.shape)}, but the grid is {space.shape}: they must be equal"
                f"{_axes_beside(name, tuple(value.shape), space)}"
            )
        if np.dtype(value.dtype).kind not in ("fiu" if name in (MASK, FIXED) else "fiuc"):
            flags = ": an image of the cells to keep is active=" if value.dtype == bool else ": real numbers are needed"
            raise InputError(f"{name} has dtype {value.dtype}{flags}")
        if np.ma.is_masked(value):
            raise InputError(f"{name} is a masked array: pass {name}.filled(1.0), and its mask as mask=")
        return space.array(value) if value.shape else value
    if callable(value):
        return space.function(value)
    raise InputError(
        f"{name} must be a number, an array of shape {space.shape} (NumPy, CuPy, Dask) or a function of "
        f"{', '.join(space.axes)}, not {in_a_line(value)}"
    )


def _axes_beside(name: str, shape: tuple[int, ...], space: Embedding) -> str:
    """Advice on an array of κ with axes that count the grid's axes; nothing on others."""
    count = space.dimensions
    if name == "kappa" and shape == (*space.shape, count):
        return "; pass list(numpy.moveaxis(kappa, -1, 0)) for one along each axis"
    if name != "kappa" or shape[-count:] != space.shape:
        return ""
    if shape[:-count] == (count,):
        return "; pass list(kappa) for one along each axis"
    if shape[:-count] == (count, count):
        return "; pass numpy.moveaxis(kappa, (0, 1), (-2, -1)) for a full tensor in each cell"
    return ""


@dataclass(frozen=True)
class Kinds:
    """Coefficients by their kinds."""

    numbers: dict[str, Any]
    arrays: dict[str, Any]
    functions: dict[str, Callable[..., Any]]

    @classmethod
    def of(cls, named: Iterable[tuple[str, Any]]) -> Kinds:
        """Coefficients with their names; None is none."""
        found = cls({}, {}, {})
        for name, value in named:
            if isinstance(value, Number) or getattr(value, "shape", None) == ():
                is_real = isinstance(value, Real) or not np.iscomplexobj(value)
                found.numbers[name] = float_of(value) if is_real else complex(value)
            elif value is not None:
                (found.arrays if hasattr(value, "shape") else found.functions)[name] = value
        return found

    @property
    def complex(self) -> bool:
        """Whether a number, or an array's type, is complex."""
        of_numbers = any(isinstance(value, complex) for value in self.numbers.values())
        return of_numbers or any(np.dtype(getattr(v, "dtype", np.float64)).kind == "c" for v in self.arrays.values())


def left_out(space: Embedding, mask: Any, active: Any) -> Any:
    """The cells to leave out as numbers, for fields, or a function; None for none. InputError: no flags, or both."""
    if mask is not None and active is not None:
        raise InputError("mask and active were given: leave out one of them, for each is what the other is not")
    if active is None:
        return _flags(space, MASK, mask, "to leave out")
    return _flags(space, "active", active, "to keep", negated=True)


def fixed_cells(space: Embedding, fixed: Any) -> tuple[Any, Any]:
    """Cells where u is held, as those left out, and the values; None and 0 for none. InputError for no such pair."""
    if fixed is None:
        return None, 0.0
    if not (isinstance(fixed, tuple | list) and len(fixed) == 2) or fixed[0] is None or fixed[1] is None:
        raise InputError(f"fixed must be a pair (where, values) of cells and u there, not {in_a_line(fixed)}")
    return _flags(space, FIXED, fixed[0], "where u is held"), fixed[1]


def _flags(space: Embedding, name: str, flags: Any, cells: str, *, negated: bool = False) -> Any:
    """Flags as numbers, or a function of them (negated if so); None for none. InputError: they are no flags."""
    if flags is None:
        return None
    check_computed(name, flags)
    check_order(name, flags, space.dimensions)
    flags = without_package(name, flags)
    if callable(flags):
        return Negated(flags) if negated else flags
    values = flags if hasattr(flags, "dtype") else np.asarray(flags)
    if np.dtype(values.dtype).kind not in "biu":
        raise InputError(f"{name} has dtype {values.dtype}: it must be True at the cells {cells}")
    if tuple(values.shape) not in ((), space.shape):
        raise InputError(
            f"{name} has shape {tuple(values.shape)}, but the grid is {space.shape}: it must be an array of the grid's "
            f"shape, True at the cells {cells}, or a function that is"
        )
    return (true_in(name, values) != negated).astype(np.uint8)


def true_in(name: str, values: Any) -> Any:
    """Cells where an array of flags or integers is not 0. InputError: these are labels; of Dask, once it is read."""
    if hasattr(values, "dims"):
        return values.copy(data=true_in(name, values.data))
    found = values != 0
    if np.dtype(values.dtype).kind == "b":
        return found
    if hasattr(values, "map_blocks"):  # each block may have one kind, and all of them more
        ends = np.iinfo(values.dtype)
        kinds = np.where(found, values, ends.max).min(), np.where(found, values, ends.min).max()
        return values.map_blocks(partial(_true_in_block, name), *kinds, dtype=np.bool_, meta=found._meta)
    if found.any() and bool((found & (values != (one := values.ravel()[found.argmax()]))).any()):
        raise _labels(name, one)
    return found


def _true_in_block(name: str, values: Any, least: Any, most: Any) -> Any:
    """Cells of a block where integers are not 0; least, most: of all blocks' that are not. InputError: these differ."""
    if least < most:
        raise _labels(name, least)
    return values != 0


def _labels(name: str, one: Any) -> InputError:
    """The error that integers are labels, of which one may be what is meant."""
    return InputError(
        f"{name} has integers of more than two kinds, as labels are, where one that is not 0 stands for True: "
        f"pass flags, such as {name} == {one}"
    )


@dataclass(frozen=True)
class Negated:
    """A function that is true where another one is not; picklable if that is."""

    function: Callable[..., Any]

    def __call__(self, *points: Any) -> Any:
        """Flags of the points at which the function is false."""
        return self.function(*points) == 0


F64 = npt.NDArray[np.float64]


def velocities_of(space: Embedding, cells: Cells, velocity: Any) -> Sequence[float | F64]:
    """Velocities along x, y, z, numbers or arrays at centers or faces; () for none. InputError: one cannot be right."""
    if velocity is None:
        return ()
    check_computed("velocity", velocity)
    given = without_package("velocity", velocity)
    if not isinstance(given, list | tuple) and tuple(getattr(given, "shape", ()))[:1] != (space.dimensions,):
        given = ()
    if len(given) != space.dimensions:
        raise InputError(f"velocity must be {WORDS[space.dimensions]}, along {space.listed}, not {in_a_line(velocity)}")
    found = [_along(space, cells, axis, value) for axis, value in enumerate(given)]
    return space.entries(found, 0.0)


def _along(space: Embedding, cells: Cells, axis: int, value: Any) -> float | F64:
    name = VELOCITY[axis]
    check_computed(name, value)
    value = without_package(name, value)
    if isinstance(value, Real) or getattr(value, "shape", None) == ():
        found = np.asarray(float_of(value))
    elif callable(value) and not hasattr(value, "shape"):
        return _finite(name, _at_faces(space, cells, axis, value))
    else:
        value = value.data if hasattr(value, "dims") else value
        found = np.asarray(on_host(value))
        at_faces = tuple(n + (other == axis) for other, n in enumerate(space.shape))
        if found.shape not in (space.shape, at_faces) or found.dtype.kind not in "fiu":
            raise InputError(
                f"{name} must be a number, a function, or real numbers at the cells' centers, {space.shape}, or at "
                f"their faces, {at_faces}, not {in_a_line(value)}"
            )
        embedded: F64 = space.array(found.astype(np.float64))
        return _finite(name, embedded)
    return float(_finite(name, found))


def _at_faces(space: Embedding, cells: Cells, axis: int, function: Any) -> F64:
    """Values of a function at the centers of faces along an axis."""
    points = [cells.centers(other) for other in range(3)]
    points[axis] = cells.face(axis, 0) + np.concatenate([[0.0], np.cumsum(cells.sizes[axis])])
    shape = [len(along) for along in points]
    x, y, z = (along.reshape([-1 if a == b else 1 for b in range(3)]) for a, along in enumerate(points))
    values = evaluated(np, VELOCITY[axis], space.function(function), (x, y, z), shape)
    return np.array(values, dtype=np.float64)


def _finite(name: str, values: F64) -> F64:
    if not np.isfinite(values).all():
        raise InputError(f"{name} has values that are NaN or infinite")
    return values
