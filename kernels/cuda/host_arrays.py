"""Arrays of the host, copied to a GPU and back at the speed of the link between them.

The driver copies memory that is not page-locked by one core, at a third of that speed and less. Here several threads
copy pieces to or from page-locked buffers, which are kept, while other pieces are under way: 134 MB take 5 ms in place
of 18 to the GPU, and of 46 from it, where half was the first touch of new pages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from math import prod
from typing import Any, Final, NamedTuple

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.copying import HostRoom, copying_team
from dsolver.kernels.lending.arrays import Cut, LentArray, cuts_of

STAGED: Final = 1 << 20  # bytes from where on an array is copied in pieces: below, one copy by the driver takes as long
PIECE: Final = 1 << 22  # bytes of a page-locked buffer
_LONG: Final = {"g": np.float64, "G": np.complex128}  # types of GPUs in place of long doubles, by codes of NumPy
_TO_GPU: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost


def to_gpu(arrays: Sequence[Any]) -> list[Any]:
    """Arrays on the current device: CuPy's as they are, others with the order of axes that they have without gaps.

    Kernels on the current stream find them complete. The host's memory may be written to when this returns. Threads
    that are done with one array go on with the next, whose first pieces travel with the last ones of the other.

    `arrays`: of NumPy of any real or complex dtype, byte order and strides, in this process or lent by another one; of
    long doubles float64 is made, and complex128.
    """
    made, staged = [], []
    for values in arrays:
        if not isinstance(values, np.ndarray | LentArray):
            made.append(cupy.asarray(values))
            continue
        kind = np.dtype(_LONG.get(values.dtype.char, values.dtype)).newbyteorder("=")
        if values.nbytes < STAGED:
            made.append(cupy.asarray(np.asarray(values).astype(kind, copy=False)))
            continue
        axes = sorted(range(values.ndim), key=lambda axis: -values.strides[axis])
        if not _gapless(values.transpose(axes)):
            axes = list(range(values.ndim))
        host = values.transpose(axes)
        there = cupy.empty(host.shape, kind)
        staged.append((host, there))
        made.append(there.transpose(np.argsort(axes).tolist()))
    if staged:
        current = cupy.cuda.get_current_stream()
        for arrived in _in_pieces(_up, staged):
            current.wait_event(arrived)
    return made


def to_host(values: Any, room: HostRoom | None = None) -> npt.NDArray[Any]:
    """An array of CuPy as a new one of NumPy, in C order, in a `room` made ready for it; waits. NumPy's stay."""
    if values.nbytes < STAGED or isinstance(values, np.ndarray):
        return cupy.asnumpy(values)
    values = cupy.ascontiguousarray(values)
    made = None if room is None else room.taken(values.shape, values.dtype)
    made = np.empty(values.shape, values.dtype) if made is None else made
    _in_pieces(_down, [(made, values)])
    return made


def _gapless(host: npt.NDArray[Any] | LentArray) -> bool:
    return host.gapless if isinstance(host, LentArray) else host.flags.c_contiguous


class _Piece(NamedTuple):
    """A part of an array of the host, and its place on the device, where it is gapless."""

    host: npt.NDArray[Any] | LentArray
    cut: Cut
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # on the device
    nbytes: int
    address: int


def _pieces(host: npt.NDArray[Any] | LentArray, there: Any) -> Iterator[_Piece]:
    """All pieces of an array, which is in C order on the device."""
    address, size = there.data.ptr, there.dtype.itemsize
    for cut in cuts_of(there.shape, PIECE // size):
        shape = tuple(part.stop - part.start for part in cut)
        nbytes = size * prod(shape)
        yield _Piece(host, cut, shape, there.dtype, nbytes, address)
        address += nbytes


class _Buffer:
    """Page-locked memory for a piece, and the stream on which it travels."""

    def __init__(self) -> None:
        self._memory = cupy.cuda.alloc_pinned_memory(PIECE)
        self._bytes = np.frombuffer(self._memory, np.uint8, PIECE)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def like(self, piece: _Piece) -> npt.NDArray[Any]:
        """First bytes as an array of the shape and dtype of a piece on the device."""
        return self._bytes[: piece.nbytes].view(piece.dtype).reshape(piece.shape)

    def send(self, piece: _Piece) -> None:
        """Begin to copy it to the device."""
        cupy.cuda.runtime.memcpyAsync(piece.address, self._memory.ptr, piece.nbytes, _TO_GPU, self.stream.ptr)

    def receive(self, piece: _Piece) -> None:
        """Begin to copy it from the device."""
        cupy.cuda.runtime.memcpyAsync(self._memory.ptr, piece.address, piece.nbytes, _TO_HOST, self.stream.ptr)


Buffers = tuple[_Buffer, _Buffer]


class _CopyBuffers(threading.local):
    """A thread's buffers for each device: one is written or read while the other one travels."""

    def __init__(self) -> None:
        self._of: dict[int, Buffers] = {}

    def on(self, device: int) -> Buffers:
        """Buffers for a device, which is the current one."""
        if device not in self._of:
            self._of[device] = _Buffer(), _Buffer()
        return self._of[device]


_kept: Final = _CopyBuffers()


def _in_pieces(
    way: Callable[[Sequence[_Piece], Buffers], None], pairs: Sequence[tuple[npt.NDArray[Any] | LentArray, Any]]
) -> list[Any]:
    """Have threads copy pieces of arrays, by `way`, from or to the device in C order; events behind the last ones."""
    team, device = copying_team(), cupy.cuda.Device().id
    pieces = [piece for host, there in pairs for piece in _pieces(host, there)]
    ready = _event(cupy.cuda.get_current_stream())  # the memory may have been another array's

    def several(number: int) -> list[Any]:
        with cupy.cuda.Device(device):
            buffers = _kept.on(device)
            for buffer in buffers:
                buffer.stream.wait_event(ready)
            way(pieces[number :: team.threads], buffers)
            return [_event(buffer.stream) for buffer in buffers]

    return [event for events in team.each(several, min(team.threads, len(pieces))) for event in events]


def _event(stream: Any) -> Any:
    event = cupy.cuda.Event(disable_timing=True)
    event.record(stream)
    return event


def _up(pieces: Sequence[_Piece], buffers: Buffers) -> None:
    for piece, buffer in zip(pieces, cycle(buffers), strict=False):
        buffer.stream.synchronize()
        if isinstance(piece.host, LentArray):
            piece.host[piece.cut].read_into(buffer.like(piece))
        else:
            np.copyto(buffer.like(piece), piece.host[piece.cut], casting="same_kind")
        buffer.send(piece)


def _down(pieces: Sequence[_Piece], buffers: Buffers) -> None:
    under_way: tuple[_Piece, _Buffer] | None = None
    for piece, buffer in zip(pieces, cycle(buffers), strict=False):
        buffer.receive(piece)
        if under_way is not None:
            _arrived(*under_way)
        under_way = piece, buffer
    if under_way is not None:
        _arrived(*under_way)


def _arrived(piece: _Piece, buffer: _Buffer) -> None:
    buffer.stream.synchronize()
    assert isinstance(piece.host, np.ndarray)
    piece.host[piece.cut] = buffer.like(piece)
