"""Values on their way from a GPU to the host, in page-locked memory."""

from collections.abc import Sequence
from typing import Any, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array

Host = npt.NDArray[Any]

ROOM: Final = 1 << 14  # bytes of page-locked memory that are asked for at once, for answers on their way
CLOSE: Final = 512  # bytes between values that one copy brings
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost


class PinnedValues:
    """Page-locked memory for values on their way to the host."""

    def __init__(self) -> None:
        self._rest: Host = np.empty(0, np.uint8)

    def sent(self, values: Sequence[Array]) -> list[Host]:
        """Arrays that will have the values when the current stream has come here: by one copy if they lie close."""
        places = [int(value.data.ptr) for value in values]
        first = min(places)
        span = max(place + value.nbytes for place, value in zip(places, values, strict=True)) - first
        if len(values) > 1 and span <= CLOSE and len({id(value.data.mem) for value in values}) == 1:
            whole = self._copied(first, span)
            parts = [whole[place - first :] for place in places]
        else:
            parts = [self._copied(place, value.nbytes) for place, value in zip(places, values, strict=True)]
        return [
            part[: value.nbytes].view(value.dtype).reshape(value.shape)
            for part, value in zip(parts, values, strict=True)
        ]

    def _copied(self, source: int, size: int) -> Host:
        room = -(-size // 8) * 8
        if len(self._rest) < room:
            memory = cupy.cuda.alloc_pinned_memory(max(room, ROOM))
            self._rest = np.frombuffer(memory, np.uint8, max(room, ROOM))
        out, self._rest = self._rest[:size], self._rest[room:]
        stream = cupy.cuda.get_current_stream().ptr
        cupy.cuda.runtime.memcpyAsync(out.ctypes.data, source, size, _TO_HOST, stream)
        return out
