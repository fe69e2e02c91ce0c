"""Arrays of the user's kind, to blocks by chunk and back.

NumPy in, NumPy out; CuPy in, CuPy out; a Dask array in, a Dask array out with one block a chunk, never gathered; an
array of another package that knows DLPack in, one of the same package out; an xarray DataArray of any of these in, one
with the same dimensions and coordinates out. Outside vectors have the problem's shape, inside that of its grid.
"""

from __future__ import annotations

import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise, product
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from dsolver.engines.redistribution import BlocksInBoxes
from dsolver.engines.running_program import PartsOfArray
from dsolver.errors import InputError, check_block, check_real, in_a_line
from dsolver.foreign_arrays import is_foreign, opened
from dsolver.grid.partition import Box, Partition
from dsolver.problems import Problem
from dsolver.problems.coordinates import check_order
from dsolver.problems.embedding import own_dims

if TYPE_CHECKING:
    from distributed import Client


Vectors = type[np.float64] | type[np.complex128] | np.dtype[Any]
"""Value types of vectors outside."""


MANY: Final = 1 << 20
"""Values from where on none is looked at before a solve begins: a pass over 134 MB takes longer than to bring them to a
GPU, where their norm tells as much."""


class Container(ABC):
    """The kind of array that a right-hand side came in.

    Args:
        name: of the argument, for messages.
        values: the array.
        partition: how it is cut.
        dtype: of vectors: float64, or complex128, whose values may be real.

    Attributes:
        wrappers: what makes of `like`'s array that of the user, one after the other.

    Raises:
        InputError: the shape is not the grid's, or the dtype is not real.
    """

    def __init__(self, name: str, values: Any, partition: Partition, dtype: Vectors = np.float64) -> None:
        if tuple(values.shape) != partition.grid:
            raise InputError(_misshapen(name, tuple(values.shape), partition.grid))
        check_real(name, np.dtype(values.dtype), "fiuc" if np.dtype(dtype).kind == "c" else "fiu")
        self._name = name
        self._dtype = dtype
        self._values = values
        self._partition = partition
        self.wrappers: list[Callable[[Any], Any]] = []

    @abstractmethod
    def blocks(self) -> Mapping[int, Any]:
        """A block for each chunk by number."""

    def boxes(self) -> Mapping[int, Any]:
        """The blocks, of which a program may take the array as it lies in memory: `BlocksInBoxes`, where it differs."""
        return self.blocks()

    def check(self) -> None:  # noqa: B027  # values that are not here yet are looked at by their norm
        """Look at the values that are in this process.

        Raises:
            InputError: one is NaN or infinite.
        """

    def examine(self) -> None:  # noqa: B027  # likewise
        """Look at all values, of which something is wrong.

        Raises:
            InputError: one is NaN or infinite.
        """

    @property
    def host(self) -> bool:
        """Whether `like` wants NumPy blocks, not the device's."""
        return True

    def is_zero(self) -> bool:
        """Whether every value is zero."""
        return not bool((self._values != 0).any())

    @property
    def here(self) -> bool:
        """Whether `like` wants arrays of this process, not futures of such."""
        return True

    def like(self, blocks: Mapping[int, Any]) -> Any:
        """An array of this kind from blocks by chunk number."""
        made = self._like(blocks)
        for wrapped in self.wrappers:
            made = wrapped(made)
        return made

    @abstractmethod
    def _like(self, blocks: Mapping[int, Any]) -> Any:
        """An array of the grid's shape, of NumPy, CuPy or Dask."""


@final
class InMemory(Container):
    """A NumPy or CuPy array in this process."""

    def __init__(
        self,
        name: str,
        values: Any,
        partition: Partition,
        xp: Any,
        client: Client | None,
        dtype: Vectors = np.float64,
    ) -> None:
        super().__init__(name, values, partition, dtype)
        self._xp = xp
        self._client = client

    def check(self) -> None:
        if self._values.size > MANY or (self._xp is not np and self._client is None):  # its norm will tell
            return
        self.examine()

    def examine(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(complex(self._values.sum())):  # in one pass; too large a sum tells nothing
                return
        bad = int((~self._xp.isfinite(self._values)).sum())
        if bad:
            raise InputError(f"{self._name} has {bad} values that are NaN or infinite")

    def blocks(self) -> Mapping[int, Any]:
        return {chunk.number: self._values[chunk.box.slices] for chunk in self._partition}

    def boxes(self) -> Mapping[int, Any]:
        """Layers along x of arrays of NumPy in C order, which have no gaps in memory, where chunks have."""
        parts, (nx, ny, nz) = len(self._partition), self._partition.grid
        large = self._values.size > MANY and self._values.dtype.kind in "fiu"
        gaps = large and self._partition.counts[1] * self._partition.counts[2] > 1
        if self._client is None or self._xp is not np or not gaps or not self._values.flags.c_contiguous or nx < parts:
            return self.blocks()
        cuts = [nx * part // parts for part in range(parts + 1)]
        boxes = [Box(lo=(low, 0, 0), hi=(high, ny, nz)) for low, high in pairwise(cuts)]
        return BlocksInBoxes(boxes, [self._values[box.slices] for box in boxes], self.blocks)

    @property
    def host(self) -> bool:
        return self._xp is np or self._client is not None  # blocks of a cluster travel by way of the host

    def _like(self, blocks: Mapping[int, Any]) -> Any:
        if isinstance(blocks, PartsOfArray) and self._xp is np:
            return blocks.whole
        if self._client is None and len(blocks) == 1:
            (block,) = blocks.values()
            if isinstance(block, self._xp.ndarray) and block.flags.c_contiguous:  # it was made for this alone
                return block
        return assembled(self._xp, self._partition, blocks, self._dtype)


@final
class InDask(Container):
    """A Dask array on a cluster."""

    def __init__(
        self, name: str, values: Any, partition: Partition, client: Client, dtype: Vectors = np.float64
    ) -> None:
        super().__init__(name, values, partition, dtype)
        self._client = client

    @property
    def host(self) -> bool:
        return isinstance(self._values._meta, np.ndarray)

    @property
    def here(self) -> bool:
        return False

    def boxes(self) -> Mapping[int, Any]:
        """The array's own blocks, where they are not those of the chunks."""
        values = self._values
        if values.chunks == self._partition.sizes or values.dtype.kind not in "fiu":
            return self.blocks()
        boxes = [
            Box(lo=lo, hi=hi) for lo, hi in (zip(*sides, strict=True) for sides in product(*map(_sides, values.chunks)))
        ]
        places = list(product(*map(range, values.numblocks)))
        return BlocksInBoxes(boxes, self._held(values.chunks, places), self.blocks)

    def blocks(self) -> Mapping[int, Any]:
        places = {chunk.number: self._partition.place(chunk.number) for chunk in self._partition}
        return dict(zip(places, self._held(self._partition.sizes, list(places.values())), strict=True))

    def _held(self, sizes: Sequence[Sequence[int]], places: Sequence[tuple[int, ...]]) -> list[Any]:
        """Futures of blocks of such sizes, at these places of the array, computed where they are not yet."""
        from distributed import Future

        whole = self._values.rechunk(sizes)
        held, keys = dict(whole.dask), [(whole.name, *place) for place in places]
        if not all(isinstance(held[key], Future) and held[key].client is self._client for key in keys):
            whole = _as_promised(self._name, self._values).rechunk(sizes)
            held = dict(self._client.persist(whole).dask)  # costs a question to the scheduler, and its answer
        return [held[whole.name, *place] for place in places]

    def _like(self, blocks: Mapping[int, Any]) -> Any:
        if not _has_futures(blocks):
            blocks = {number: self._client.scatter(block) for number, block in blocks.items()}
        return dask_array(self._partition, blocks, self._values._meta, self._dtype)

    def is_zero(self) -> bool:
        return not bool(self._client.compute((self._values != 0).any()).result())


def _sides(extents: Sequence[int]) -> list[tuple[int, int]]:
    """Begins and ends of blocks of these extents along an axis."""
    return list(pairwise(accumulate(extents, initial=0)))


@final
class InLocalDask(Container):
    """A Dask array without a cluster: computed here, and given back with the chunks of the partition."""

    def blocks(self) -> Mapping[int, Any]:
        values = np.asarray(_as_promised(self._name, self._values).compute())
        here = InMemory(self._name, values, self._partition, np, None, self._dtype)
        here.check()
        return here.blocks()

    def _like(self, blocks: Mapping[int, Any]) -> Any:
        import dask.array as da

        return da.from_array(assembled(np, self._partition, blocks, self._dtype), chunks=self._partition.sizes)


def container_of(
    name: str,
    values: Any,
    partition: Partition,
    client: Client | None,
    problem: Problem | None = None,
    *,
    dtype: Vectors = np.float64,
) -> Container:
    """The container of an argument.

    Args:
        name: of the argument, for messages.
        values: the array.
        partition: how it is cut.
        client: of a cluster that is to have it, or None.
        problem: whose right-hand side it is; None for arrays of the grid's shape in any case.
        dtype: of vectors, where there is no problem that tells it.

    Raises:
        InputError: it is no array, or cannot be a right-hand side for this problem.
        DeviceError: it lies on a GPU, and CuPy is not installed.
    """
    module = type(values).__module__.partition(".")[0]
    if module == "xarray":
        if not isinstance(values, sys.modules["xarray"].DataArray):
            raise InputError(f"{name} is a {type(values).__name__}: pass a DataArray, such as a variable of a Dataset")
        check_order(name, values, 3 if problem is None else problem.dimensions)
        made = container_of(name, values.data, partition, client, problem, dtype=dtype)
        made.wrappers.append(lambda x: _labeled(values, x))
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
    """A vector of a user in chunks, and what makes arrays of NumPy, CuPy or Dask arrays of its kind.

    Raises:
        InputError: it is no vector of this length.
    """
    size = partition.grid[0]
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
    """An array of NumPy, CuPy or Dask, of this shape if it is right.

    Raises:
        InputError: it is masked, or no array.
    """
    module = type(values).__module__.partition(".")[0]
    if module == "dask":
        _check_dask(name, values)
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
    if not problem.flat:
        raise InputError(_misshapen(name, shape, problem.shape))
    (rows,) = problem.shape
    if shape == (rows, 1):
        return
    what = f"{name} has shape {shape}, but must be ({rows},): A has {rows} rows"
    if len(shape) == 2 and shape[0] == rows:
        what += "; several right-hand sides are solved by the solve of a dsolver.Solver"
    raise InputError(what)


def is_complex(values: Any) -> bool:
    """Whether an array of any package has complex values."""
    return "complex" in str(getattr(values, "dtype", ""))


def check_agreement(arrays: Mapping[str, Any], dimensions: Mapping[str, int]) -> None:
    """Refuse DataArrays that have a dimension in common, each along another axis of the grid.

    Args:
        arrays: with the grid's axes, or with one axis more in front, by the names of their arguments.
        dimensions: how many axes those of a name have.

    Raises:
        InputError: two of them have.
    """
    found: dict[Any, tuple[int, str]] = {}
    for name, values in arrays.items():
        for axis, dim in enumerate(tuple(getattr(values, "dims", ()))[-dimensions[name] :]):
            along, other = found.setdefault(dim, (axis, name))
            if along != axis:
                first, second = (own_dims(arrays[each]) for each in (other, name))
                raise InputError(
                    f"{other} has the dimensions {first}, but {name} has {second}: transpose one, so that {dim!r} is "
                    f"the same axis of both"
                )


def _check_dask(name: str, values: Any) -> None:
    """Refuse what Dask has beside arrays, and arrays whose blocks are masked."""
    import dask.array as da

    if not isinstance(values, da.Array):
        raise InputError(
            f"{name} is a {type(values).__name__} of Dask: pass an array, as dask.array.from_delayed makes"
        )
    if isinstance(values._meta, np.ma.MaskedArray):
        raise InputError(
            f"{name} is a Dask array of masked arrays, and what their masks hide would be taken for values: pass "
            f"dask.array.ma.filled({name}, VALUE)"
        )


def _misshapen(name: str, shape: tuple[int, ...], grid: tuple[int, ...]) -> str:
    what = f"{name} has shape {shape}, but the grid is {grid}"
    if shape[1:] == grid:
        return f"{what}: several right-hand sides are solved by the solve of a dsolver.Solver"
    return f"{what}: they must be equal"


def _as_promised(name: str, values: Any) -> Any:
    """A Dask array whose blocks are looked at where they are computed: they may be something else than it says."""
    return values.map_blocks(_block_as_promised, name, values.dtype, dtype=values.dtype, meta=values._meta)


def _block_as_promised(block: Any, name: str, dtype: Any) -> Any:
    """A block that is neither masked nor in less than the array's precision.

    Raises:
        InputError: it is one.
    """
    check_block(block, "fiubc" if np.dtype(dtype).kind == "c" else "fiub")
    if block.dtype.kind in "fc" and block.dtype.itemsize < np.dtype(dtype).itemsize:
        raise InputError(
            f"a block of {name} has dtype {block.dtype}, where the Dask array says {dtype}, and less digits: have it "
            f"computed in {dtype}, or say {name}.astype({str(block.dtype)!r})"
        )
    return block


def dask_array(partition: Partition, blocks: Mapping[int, Any], meta: Any, dtype: Vectors = np.float64) -> Any:
    """A Dask array of futures by chunk number, which its graph has as that of an array that was persisted."""
    import dask.array as da

    name = f"dsolver-{uuid.uuid4().hex}"
    graph = {(name, *partition.place(number)): block for number, block in blocks.items()}
    return da.Array(graph, name, partition.sizes, meta=meta.astype(dtype))


def stacked(solutions: list[Any], like: Any, axis: int = 0) -> Any:
    """Arrays of one kind as one array with one more dimension, which a DataArray `like` names."""
    match type(like).__module__.partition(".")[0]:
        case "xarray":
            whole = stacked([x.data for x in solutions], like.data, axis)
            return _labeled(like, whole)
        case "dask":
            import dask.array as da

            return da.stack(solutions, axis)
        case "cupy":
            return sys.modules["cupy"].stack(solutions, axis)
    if is_foreign(like):
        _, back = opened("b", like)
        inner = [opened("x", x)[0] if is_foreign(x) else x for x in solutions]
        return back(stacked(inner, inner[0], axis))
    return np.stack(solutions, axis)


def _labeled(like: Any, values: Any) -> Any:
    """A DataArray with the labels of another one, without what its file says of how numbers are packed."""
    return type(like)(values, coords=like.coords, dims=like.dims, name=like.name, attrs=like.attrs)


def assembled(xp: Any, partition: Partition, blocks: Mapping[int, Any], dtype: Vectors = np.float64) -> Any:
    """One array of the module xp from a block for each chunk."""
    x = xp.empty(partition.grid, dtype)
    for chunk in partition:
        x[chunk.box.slices] = xp.asarray(blocks[chunk.number])
    return x


def _has_futures(blocks: Mapping[int, Any]) -> bool:
    return any(hasattr(block, "key") for block in blocks.values())
