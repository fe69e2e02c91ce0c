"""Several right-hand sides in one array, whose last axis counts them, and their solutions in one of the same order.

Outside that is SciPy's order, (n, k), and that of pictures, (height, width, 3). Inside each is an array of its own
without gaps, which is what kernels read: arrays are turned where they come in and where x goes out, in the memory of
the device where they lie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from dsolver.dask_types import Client
from dsolver.errors import InputError
from dsolver.foreign_arrays import is_foreign, module_of, opened
from dsolver.matrices.matrix import is_matrix
from dsolver.problems import Problem
from dsolver.problems.coordinates import check_order
from dsolver.problems.problem import check_problem
from dsolver.session.user_arrays.containers import misshapen
from dsolver.session.user_arrays.dask_arrays import as_promised, computed
from dsolver.session.user_arrays.given import array_of, labeled

SLAB: Final = {"numpy": 1 << 17, "cupy": 1 << 24}
"""Bytes that are turned at a time, by the module of an array: all columns of a slab lie in a cache, so that memory is
read and written once."""

Pairs = Sequence[tuple[Any, Any]]  # right-hand sides, each with its first guess


@dataclass(frozen=True, kw_only=True)
class RightHandSides:
    """One right-hand side, or several, with first guesses."""

    pairs: Pairs  # each with its guess, an array without gaps
    given: Sequence[Any]  # each as a part of what was given: a view, where its package has views
    b: Any  # what was given: an array, or a list of such
    several: bool  # whether these are several, or one in an array that could have more

    @classmethod
    def of(cls, problem: Problem, b: Any, x0: Any, client: Client | None = None) -> Self:
        """Right-hand sides and guesses as users give them.

        Args:
            b: an array of the problem's shape, or with one more axis, the last; or a list of such of its shape.
            x0: the same; or None, or a name, for all.

        Raises:
            InputError: there are no right-hand sides, not as many guesses, or arrays whose last axis does not count
                them; or the problem is none.
        """
        check_problem(problem)
        if not are_several(problem, b):
            if isinstance(b, list | tuple):  # of numbers, which may be complex
                b = array_of("b", b, problem.shape)
            return cls(pairs=[(b, x0)], given=[b], b=b, several=False)
        if not isinstance(b, list | tuple) and not hasattr(b, "dims") and not is_foreign(b):
            b = array_of("b", b, problem.shape)  # of a table, or a file that is open
        right = columns(problem, "b", b, client)
        if not right:
            raise InputError("b has no right-hand side: its last axis has length 0")
        guesses = [x0] * len(right)
        if x0 is not None and not isinstance(x0, str):
            guesses = columns(problem, "x0", x0, client) if are_several(problem, x0) else []
        given = b if isinstance(b, list | tuple) else [b[..., number] for number in range(len(right))]
        return cls(pairs=paired(right, guesses), given=given, b=b, several=True)


def paired(right: Sequence[Any], guesses: Sequence[Any]) -> Pairs:
    """Right-hand sides, each with its first guess. InputError: there are not as many guesses."""
    if len(guesses) != len(right):
        raise InputError(f"x0 must be {len(right)} guesses like b: a list, or an array whose last axis counts them")
    return list(zip(right, guesses, strict=True))


def are_several(problem: Problem, values: Any) -> bool:
    """Whether it is several vectors of a problem; a column (n, 1) of a matrix is one."""
    if isinstance(values, list | tuple):
        axes = [len(_shape(each)) for each in values]
        return bool(axes) and min(axes) >= len(problem.shape)
    shape = _shape(values)
    if len(shape) != len(problem.shape) + 1:
        return False
    return not (problem.flat and (shape[1] == 1 or is_matrix(values)))


def _shape(values: Any) -> tuple[int, ...]:
    """The shape of an array; () of what is none, such as a delayed value of Dask, which has any attribute."""
    try:
        return tuple(getattr(values, "shape", ()))
    except TypeError:
        return ()


def columns(problem: Problem, name: str, values: Any, client: Client | None = None) -> list[Any]:
    """Vectors of a problem, each of the given kind of array; values: `are_several`. InputError: a wrong last axis."""
    if isinstance(values, list | tuple):
        return list(values)
    check_order(name, values, problem.dimensions, several=not problem.flat)
    check_axes(name, values, problem.shape, rows=problem.flat)
    return separated(name, values, client)


def separated(name: str, values: Any, client: Client | None) -> list[Any]:
    """The arrays that the last axis counts, each of the same kind; arguments and errors as of `columns`."""
    count = range(values.shape[-1])
    module = type(values).__module__.partition(".")[0]
    if module == "xarray":
        each = separated(name, values.data, client)
        return [values[..., number].copy(data=each[number]) for number in count]
    if not isinstance(values, np.ndarray) and is_foreign(values):
        array, back = opened(name, values)
        writable = [each if getattr(each.flags, "writeable", True) else each.copy() for each in turned(array)]
        return [back(column) for column in writable]  # packages take no others
    array = array_of(name, values, tuple(values.shape))
    return list(turned(array)) if module != "dask" else _of_dask(name, array, client)


def _of_dask(name: str, values: Any, client: Client | None) -> list[Any]:
    """Columns of a Dask array, computed once for all of them; blocks are turned where they are."""
    import dask.array as da

    whole = as_promised(name, values.rechunk({values.ndim - 1: -1}))
    if client is None:
        return [da.from_array(column, chunks=-1) for column in turned(computed(whole))]
    moved = da.moveaxis(whole, -1, 0)
    return list(client.persist(moved.map_blocks(_in_c_order, dtype=moved.dtype, meta=moved._meta)))


def _in_c_order(moved: Any) -> Any:
    """A block (k, ...) without gaps, of one whose first axis was the last."""
    return turned(moved.transpose(*range(1, moved.ndim), 0))


def turned(array: Any) -> Any:
    """(k, ...) in C order of an array (..., k) of NumPy or CuPy.

    Each item is read and written once, twice the bytes of the array; nothing is moved where columns lie so already.
    """
    moved = array.transpose(array.ndim - 1, *range(array.ndim - 1))
    if moved.flags.c_contiguous or not array.size:
        return moved
    made = module_of(array).empty(moved.shape, array.dtype)
    rows, flat = array.reshape(-1, array.shape[-1]), made.reshape(array.shape[-1], -1)
    for part in _slabs(rows):
        flat[:, part] = rows[part].T
    return made


def together(x: list[Any], b: Any) -> Any:
    """Solutions as their right-hand sides came: a list, or an array whose last axis counts them."""
    return x if isinstance(b, list | tuple) else stacked(x, b)


def stacked(vectors: list[Any], like: Any) -> Any:
    """Arrays of one kind as one with a last axis more, which a DataArray `like` names; items are moved once."""
    module = type(like).__module__.partition(".")[0]
    if module == "xarray":
        return labeled(like, stacked([x.data for x in vectors], like.data))
    if module == "dask":
        import dask.array as da

        last = vectors[0].ndim
        return da.stack(vectors, last).rechunk({last: -1})
    if not isinstance(like, np.ndarray) and is_foreign(like):
        _, back = opened("b", like)
        inner = [opened("x", x)[0] if is_foreign(x) else x for x in vectors]
        return back(stacked(inner, inner[0]))
    package = module_of(vectors[0])
    made = package.empty((*vectors[0].shape, len(vectors)), np.result_type(*(x.dtype for x in vectors)))
    rows, flat = made.reshape(-1, len(vectors)), [x.reshape(-1) for x in vectors]
    for part in _slabs(rows):
        package.stack([x[part] for x in flat], axis=1, out=rows[part])
    return made


def _slabs(rows: Any) -> list[slice]:
    """Parts of the rows of an array (rows, k), each as many bytes as a cache has."""
    step = max(1, SLAB[module_of(rows).__name__] // (rows.shape[1] * rows.itemsize))
    return [slice(first, first + step) for first in range(0, len(rows), step)]


def check_axes(name: str, values: Any, one: tuple[int, ...], *, rows: bool) -> None:
    """Refuse (InputError) an array whose last axis does not count vectors, such as one whose first axis does.

    `rows`: whether it has an item for each row of a matrix, else for each point of a grid.
    """
    shape = tuple(values.shape)
    if shape[:-1] == one:
        return
    if any(map(math.isnan, shape)):
        raise InputError(misshapen(name, shape, one))
    if rows:
        what = f"several for {one[0]} rows have ({one[0]}, k), each a column"
    else:
        axes = ", ".join(("nx", "ny", "nz")[: len(one)])
        what = f"several for the grid {one} have ({axes}, k): the axis that counts them is the last"
    turn = f"; pass {with_first_axis_last(name, values)}" if shape[1:] == one else ""
    raise InputError(f"{name} has shape {shape}, but {what}{turn}")


def with_first_axis_last(name: str, values: Any) -> str:
    """The expression that turns an array of a kind."""
    if hasattr(values, "dims"):
        return f"{name}.transpose(..., {values.dims[0]!r})"
    return f"{name}.movedim(0, -1)" if hasattr(values, "movedim") else f"numpy.moveaxis({name}, 0, -1)"
