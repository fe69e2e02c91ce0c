"""Tables and arrays that follow from grids and offsets alone, brought to a device or made there once and kept.

Small tables of integers that kernels of set-up read: every level and Solver has the same ones again, 320 copies of 20
us each a set-up at 256³. And arrays of small boxes, storage orders, numbers and lists: these cost the GPU nothing, but
the host 40 launches and allocations a level.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array

T = TypeVar("T")

LARGEST = 1 << 16  # bytes of a table that is kept, at most
MOST = 1024
"""Tables that are kept, at most. None of them is ever given back: a kernel on some stream may still read it."""

MOST_ROWS: Final = 9 << 18
"""Rows of a small box, at most: 128³ with a frame. What larger ones need costs the GPU more than the host."""
TOGETHER: Final = 2 * MOST_ROWS
"""Rows of all that is kept of a kind: 4 to 12 bytes each. Nothing is ever given back, for a kernel on some stream may
still read it."""


_kept: dict[tuple[int, str, tuple[int, ...], bytes], Array] = {}
_streams: dict[int, Any] = {}
_made: Final[dict[Hashable, Any]] = {}
_rows: Final[dict[Hashable, int]] = {}
_owners: Final[set[int]] = set()
_addresses: Final[set[int]] = set()


def table(values: npt.NDArray[Any]) -> Array:
    """The values on the current device, not to be written to."""
    values = np.ascontiguousarray(values)
    if values.nbytes > LARGEST:
        return cupy.asarray(values)
    device = int(cupy.cuda.runtime.getDevice())
    key = device, values.dtype.str, values.shape, values.tobytes()
    found = _kept.get(key)
    if found is not None:
        return found
    if len(_kept) >= MOST:  # freed while kernels may still read it: right only on the stream that they are on
        return cupy.asarray(values)
    return _kept.setdefault(key, _brought(device, values))  # if two threads bring it, both get the one that is kept


def _brought(device: int, values: npt.NDArray[Any]) -> Array:
    """A copy that every stream may read: it waits for the copy, and on a stream of its own for nothing else."""
    stream = _streams.get(device) or _streams.setdefault(device, cupy.cuda.Stream(non_blocking=True))
    with stream:
        made = cupy.asarray(values)
    stream.synchronize()
    return made


def kept(kind: str, rows: int, key: Hashable, make: Callable[[], T]) -> T:
    """Result of `make`, kept for a device, a kind and a key, all that it follows from. It must not be written to."""
    if rows > MOST_ROWS:
        return make()
    room = int(cupy.cuda.runtime.getDevice()), kind
    found: T | None = _made.get((room, key))
    if found is not None:
        return found
    made = make()
    if _rows.get(room, 0) + rows <= TOGETHER:
        cupy.cuda.get_current_stream().synchronize()  # other streams will read it
        _rows[room] = _rows.get(room, 0) + rows
        made = _made.setdefault((room, key), made)  # if two threads make it, both get the one that is kept
        _owners.add(id(made))
        if isinstance(made, cupy.ndarray):
            _addresses.add(int(made.data.ptr))
    return made


def kept_with(owner: Any, kind: str, rows: int, key: Hashable, make: Callable[[], T]) -> T | None:
    """As `kept`, for what follows from a kept owner and a key; None if the owner is not kept, or there is no room."""
    room = int(cupy.cuda.runtime.getDevice()), kind
    known, both = id(owner) in _owners, (id(owner), key)
    if not known or ((room, both) not in _made and (rows > MOST_ROWS or _rows.get(room, 0) + rows > TOGETHER)):
        return None
    return kept(kind, rows, both, make)


def is_kept(owner: Any) -> bool:
    """Whether it is something that is kept."""
    return id(owner) in _owners


def kept_at(array: Array) -> int | None:
    """The address of an array that is kept, or a view that begins with it; None of others."""
    address = getattr(array.data, "ptr", None)  # of NumPy's there is none
    return address if address in _addresses else None


def kept_of(owner: Any, kind: str, rows: int, make: Callable[[], T]) -> T:
    """As `kept`, for what follows from an owner alone; made each time if the owner is not kept."""
    return kept(kind, rows, id(owner), make) if id(owner) in _owners else make()
