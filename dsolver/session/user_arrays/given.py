"""Arrays that users give, of any package, as containers, and what makes arrays of their kind of results."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dsolver.dask_types import Client
from dsolver.errors import InputError, in_a_line
from dsolver.foreign_arrays import is_foreign, opened
from dsolver.grid.partition import Partition
from dsolver.problems import Problem
from dsolver.problems.coordinates import check_order
from dsolver.session.user_arrays.containers import Container, InMemory, Vectors, misshapen
from dsolver.session.user_arrays.dask_arrays import InDask, InLocalDask, check_dask


def container_of(
    name: str,
    values: Any,
    partition: Partition,
    client: Client | None,
    problem: Problem | None = None,  # whose right-hand side it is; None for arrays of the grid's shape in any case
    *,
    dtype: Vectors = np.float64,  # of vectors, where there is no problem that tells it
) -> Container:
    """The container of an argument.

    InputError: it is no array, or cannot be a right-hand side for this problem. DeviceError: it lies on a GPU, and CuPy
    is not installed.
    """
    module = type(values).__module__.partition(".")[0]
    if module == "xarray":
        if not isinstance(values, sys.modules["xarray"].DataArray):
            raise InputError(f"{name} is a {type(values).__name__}: pass a DataArray, such as a variable of a Dataset")
        check_order(name, values, 3 if problem is None else problem.dimensions)
        made = container_of(name, values.data, partition, client, problem, dtype=dtype)
        made.wrappers.append(lambda x: labeled(values, x))
        return made
    if not isinstance(values, np.ndarray) and is_foreign(values):
        array, back = opened(name, values)
        made = container_of(name, array, partition, client, problem, dtype=dtype)
        made.wrappers.append(back)
        return made
    array = array_of(name, values, partition.grid if problem is None else problem.shape)
    if problem is not None and problem.complex:
        dtype = np.complex128
    if problem is None or problem.shape == partition.grid:
        return _contained(name, array, partition, client, dtype)
    _check_shape(name, tuple(array.shape), problem)
    made = _contained(name, problem.to_grid(array), partition, client, dtype)
    made.wrappers.append(problem.from_grid)
    return made


def vector_of(
    name: str, values: Any, partition: Partition, client: Client | None
) -> tuple[Container, Callable[[Any], Any]]:
    """A user's vector in chunks, and what makes NumPy, CuPy or Dask arrays of its kind. InputError: it is none."""
    size = partition.grid[0]
    if is_complex(values):
        raise InputError(f"{name} is complex and A real: pass {name}.real and {name}.imag, each by itself")
    array, back = _opened(name, values, size)
    if tuple(array.shape) not in ((size,), (size, 1)):
        of = "row" if name == "b" else "column"
        raise InputError(f"{name} has shape {tuple(array.shape)}, but must be ({size},): an item for each {of} of A")
    return container_of(name, array.reshape(partition.grid), partition, client), back


def alike(name: str, values: Any, partition: Partition, client: Client | None) -> Container:
    """A container of vectors of another length, of a user's kind."""
    array, _ = _opened(name, values, partition.grid[0])
    match type(array).__module__.partition(".")[0]:
        case "dask":
            import dask.array as da

            made = da.zeros(partition.grid, chunks=partition.sizes, meta=array._meta)
        case "cupy":
            made = sys.modules["cupy"].zeros(partition.grid)
        case _:
            made = np.broadcast_to(np.zeros(1), partition.grid)
    return container_of(name, made, partition, client)


def _opened(name: str, values: Any, size: int) -> tuple[Any, Callable[[Any], Any]]:
    """An array of NumPy, CuPy or Dask, and what makes such arrays of a user's kind."""
    if type(values).__module__.partition(".")[0] == "xarray":
        return values.data, _same
    if not isinstance(values, np.ndarray) and is_foreign(values):
        return opened(name, values)
    return array_of(name, values, (size,)), _same


def _same(x: Any) -> Any:
    return x


def _contained(name: str, array: Any, partition: Partition, client: Client | None, dtype: Vectors) -> Container:
    """The container of an array of NumPy, CuPy or Dask."""
    match type(array).__module__.partition(".")[0]:
        case "dask" if client is not None:
            return InDask(name, array, partition, client, dtype)
        case "dask":
            return InLocalDask(name, array, partition, dtype)
        case "cupy":
            return InMemory(name, array, partition, sys.modules["cupy"], client, dtype)
    return InMemory(name, array, partition, np, client, dtype)


def array_of(name: str, values: Any, shape: tuple[int, ...]) -> Any:
    """An array of NumPy, CuPy or Dask, of this shape if it is right. InputError: it is masked, or no array."""
    module = type(values).__module__.partition(".")[0]
    if module == "dask":
        check_dask(name, values)
        return values
    if module == "cupy":
        return values
    if np.ma.is_masked(values):
        raise InputError(
            f"{name} is a masked array, and what its mask hides would be taken for values: pass {name}.filled(0.0); "
            f"cells are left out by the mask= of dsolver.problems.diffusion"
        )
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no array: {error}") from error
    if array.ndim == 0:
        dense = f": pass {name}.toarray()" if hasattr(values, "toarray") else ""
        raise InputError(f"{name} must be an array of shape {shape}, not {in_a_line(values)}{dense}")
    return array


def _check_shape(name: str, shape: tuple[int, ...], problem: Problem) -> None:
    """Refuse what is no vector of a problem; a column will do for a matrix, and what a checkpoint has saved for any."""
    if shape in (problem.shape, problem.grid):
        return
    if not problem.flat or any(map(math.isnan, shape)):
        raise InputError(misshapen(name, shape, problem.shape))
    (rows,) = problem.shape
    if shape == (rows, 1):
        return
    raise InputError(f"{name} has shape {shape}, but must be ({rows},): A has {rows} rows")


def is_complex(values: Any) -> bool:
    """Whether an array of any package has complex values."""
    dtype = getattr(values, "dtype", "")  # other packages' types have no kind, and what Dask delays has any attribute
    return str(getattr(dtype, "kind", "")) == "c" or "complex" in str(dtype)


def labeled(like: Any, values: Any) -> Any:
    """A DataArray with the labels of another one, without what its file says of how numbers are packed."""
    return type(like)(values, coords=like.coords, dims=like.dims, name=like.name, attrs=like.attrs)
