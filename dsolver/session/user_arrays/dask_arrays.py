"""Dask arrays as blocks by chunk and back: never gathered on a cluster, computed here where there is none."""

import uuid
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np

from dsolver.dask_types import Client
from dsolver.engines.redistribution import BlocksInBoxes
from dsolver.errors import InputError, check_block
from dsolver.foreign_arrays import module_of
from dsolver.grid.box import Box
from dsolver.grid.partition import Partition
from dsolver.session.user_arrays.containers import Container, InMemory, Vectors, assembled


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
        return BlocksInBoxes(boxes, lambda: self._held(values.chunks, places), self.blocks)

    def blocks(self) -> Mapping[int, Any]:
        places = {chunk.number: self._partition.place(chunk.number) for chunk in self._partition}
        return dict(zip(places, self._held(self._partition.sizes, list(places.values())), strict=True))

    def _held(self, sizes: Sequence[Sequence[int]], places: Sequence[tuple[int, ...]]) -> list[Any]:
        """Futures of blocks of such sizes, at these places of the array, computed where they are not yet."""
        from distributed import Future

        whole = self._values.rechunk(sizes)
        held, keys = dict(whole.dask), [(whole.name, *place) for place in places]
        if not all(isinstance(held[key], Future) and held[key].client is self._client for key in keys):
            whole = as_promised(self._name, self._values).rechunk(sizes)
            held = dict(self._client.persist(whole).dask)  # costs a question to the scheduler, and its answer
        return [held[whole.name, *place] for place in places]

    def _like(self, blocks: Mapping[int, Any]) -> Any:
        if not any(hasattr(block, "key") for block in blocks.values()):  # futures have one
            blocks = {number: self._client.scatter(block) for number, block in blocks.items()}
        return dask_array(self._partition, blocks, self._values._meta, self._dtype)

    def is_zero(self) -> bool:
        return not bool(self._client.compute((self._values != 0).any()).result())


def _sides(extents: Sequence[int]) -> list[tuple[int, int]]:
    """Begins and ends of blocks of these extents along an axis."""
    return list(pairwise(accumulate(extents, initial=0)))


class InLocalDask(Container):
    """A Dask array without a cluster: computed here, and given back with the chunks of the partition."""

    @property
    def host(self) -> bool:
        return module_of(self._values._meta) is np

    def blocks(self) -> Mapping[int, Any]:
        values = computed(as_promised(self._name, self._values))
        here = InMemory(self._name, values, self._partition, module_of(values), None, self._dtype)
        here.check()
        return here.blocks()

    def _like(self, blocks: Mapping[int, Any]) -> Any:
        import dask.array as da

        whole = assembled(module_of(self._values._meta), self._partition, blocks, self._dtype)
        return da.from_array(whole, chunks=self._partition.sizes)


def computed(values: Any) -> Any:
    """A Dask array in this process: an array of NumPy, or of CuPy where its blocks are."""
    found = values.compute()
    return found if module_of(found) is not np else np.asarray(found)


def check_dask(name: str, values: Any) -> None:
    """Refuse what Dask has beside arrays, and arrays whose blocks are masked."""
    import dask.array as da

    if not isinstance(values, da.Array):
        table = hasattr(type(values), "to_dask_array")
        array = f"{name}.to_dask_array(lengths=True)" if table else "an array, as of dask.array.from_delayed"
        raise InputError(f"{name} is a {type(values).__name__} of Dask: pass {array}")
    if isinstance(values._meta, np.ma.MaskedArray):
        raise InputError(
            f"{name} is a Dask array of masked arrays, and what their masks hide would be taken for values: pass "
            f"dask.array.ma.filled({name}, VALUE)"
        )


def as_promised(name: str, values: Any) -> Any:
    """A Dask array whose blocks are looked at where they are computed: they may be something else than it says."""
    return values.map_blocks(_block_as_promised, name, values.dtype, dtype=values.dtype, meta=values._meta)


def _block_as_promised(block: Any, name: str, dtype: Any, *, block_info: Any = None) -> Any:
    """A block as it is. InputError: it is masked, of another shape, or in less than the array's precision."""
    check_block(block, "fiubc" if np.dtype(dtype).kind == "c" else "fiub")
    shape = tuple(high - low for low, high in block_info[0]["array-location"])
    if tuple(block.shape) != shape:
        raise InputError(f"a block of {name} has shape {tuple(block.shape)}, where the Dask array says {shape}")
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
