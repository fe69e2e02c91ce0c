"""Small tables of integers that kernels of set-up read, each brought to a device once and kept there.

They tell of grids and offsets alone, so every level and Solver has the same ones again: 320 copies of 20 us each a
set-up at 256³.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array

LARGEST = 1 << 16
"""Bytes of a table that is kept, at most."""
MOST = 1024
"""Tables that are kept, at most. None of them is ever given back: a kernel on some stream may still read it."""

_kept: dict[tuple[int, str, tuple[int, ...], bytes], Array] = {}
_streams: dict[int, Any] = {}


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
