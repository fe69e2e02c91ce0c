"""Maps of arrays on a GPU, from which kernels copy boxes into shared memory: the driver encodes them."""

import ctypes
from functools import lru_cache
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.streams import driver_function

Triple = tuple[int, int, int]

MOST = 256  # values of a box along an axis at most

_BYTES, _ALIGNMENT = 128, 64  # of a CUtensorMap
_TYPES = {"float32": 7, "float64": 8}  # CU_TENSOR_MAP_DATA_TYPE_FLOAT32 and FLOAT64


def available() -> bool:
    """Whether the driver encodes maps: CUDA 12.0 and later."""
    return driver_function("cuTensorMapEncodeTiled") is not None


@lru_cache(maxsize=256)
def tensor_map(address: int, dtype: str, shape: Triple, box: Triple) -> npt.NDArray[np.uint8]:
    """`TensorMap` in bulk.cuh. It says where an array is and nothing of what is there, so it never gets old.

    Args:
        address: of the first value, a multiple of 16.
        shape: values along x, y, z, x fastest; lines are multiples of 16 bytes.
        box: of one copy, at most `MOST` along an axis; lines are multiples of 16 bytes.
    """
    encode = driver_function("cuTensorMapEncodeTiled")
    room = ctypes.create_string_buffer(_BYTES + _ALIGNMENT)
    place = -(-ctypes.addressof(room) // _ALIGNMENT) * _ALIGNMENT
    line = shape[0] * np.dtype(dtype).itemsize
    status = encode(
        ctypes.c_void_p(place),
        _TYPES[dtype],
        3,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * 3)(*shape),
        (ctypes.c_uint64 * 2)(line, line * shape[1]),
        (ctypes.c_uint32 * 3)(*box),
        (ctypes.c_uint32 * 3)(1, 1, 1),
        *_PLAIN,
    )
    if status != 0:
        raise cupy.cuda.driver.CUDADriverError(status)
    return np.frombuffer(ctypes.string_at(place, _BYTES), dtype=np.uint8)


_PLAIN: tuple[Any, ...] = (0, 0, 0, 0)
"""Not interleaved, not swizzled, nothing more of memory into L2, zeros from outside."""
