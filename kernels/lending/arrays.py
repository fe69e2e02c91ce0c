"""Arrays that stay in the memory of one process and are read by others of the same host and user, where they lie.

A reader has the kernel copy from there to where the values are needed (cross memory attach, ``process_vm_readv``), so
nothing is shared, nothing is left behind by a process that is killed, and no folder has to be large enough. Who may
read is the kernel's rule for debuggers: processes of the same user and, where Yama is on, only while `open_to_readers`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.copying import copying_team
from dsolver.kernels.lending.memory import Lender, LendingError, here, run

WORTH: Final = 1 << 18  # bytes from which on an array is lent: fewer travel as well in a message
RUN: Final = 512  # bytes without a gap that an array is made of at least: its owner puts shorter ones together first
PIECE: Final = 1 << 22  # bytes that a thread reads at a time: eight read 39, 46 and 26 GB/s in pieces of 1, 4 and 16 MB

Cut = tuple[slice, ...]


@dataclass(frozen=True, kw_only=True)
class LentArray:
    """An array of NumPy in another process. It is read as often as it is asked for."""

    lender: Lender
    address: int  # of its first item
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes from an item to the next one along each axis
    dtype: np.dtype[Any]  # real, in the byte order of this host

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of items."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all items."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def transpose(self, axes: Sequence[int]) -> Self:
        """This array with its axes in another order."""
        shape, strides = (tuple(of[axis] for axis in axes) for of in (self.shape, self.strides))
        return replace(self, shape=shape, strides=strides)

    def __getitem__(self, cut: Cut) -> Self:
        """A part of it; slices have no steps."""
        address, shape = self.address, list(self.shape)
        for axis, part in enumerate(cut):
            first, last, _ = part.indices(shape[axis])
            address += first * self.strides[axis]
            shape[axis] = max(0, last - first)
        return replace(self, address=address, shape=tuple(shape))

    def read_into(self, out: npt.NDArray[Any]) -> None:
        """Fill an array in C order, of the same shape and dtype. LendingError: the lender cannot be read."""
        if out.size:
            self.lender.read(self._runs(), out.ctypes.data, out.nbytes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The array, read by several threads."""
        made = np.empty(self.shape, self.dtype)
        self.fill(made)
        return made if dtype is None else made.astype(dtype, copy=False)

    def fill(self, out: npt.NDArray[Any]) -> None:
        """Fill an array of the same shape and dtype and any strides, by several threads. Raises as `read_into`."""
        team, cuts = copying_team(), list(cuts_of(self.shape, PIECE // self.dtype.itemsize))

        def read(number: int) -> None:
            for cut in cuts[number :: team.threads]:
                part = out[cut]
                gapless = part if part.flags.c_contiguous else np.empty(part.shape, part.dtype)
                self[cut].read_into(gapless)
                if gapless is not part:
                    part[...] = gapless

        team.each(read, min(team.threads, len(cuts)))

    @property
    def gapless(self) -> bool:
        """Whether it lies in C order without gaps."""
        return self._run[0] == 0

    @property
    def short(self) -> bool:
        """Whether its parts without a gap are too short to be read one by one."""
        return self._run[1] < RUN

    def _runs(self) -> bytes:
        """Parts without a gap in C order, each packed by `run`."""
        axis, length = self._run
        if not axis:
            return run(self.address, length)
        places = np.full(1, self.address, dtype=np.int64)
        for extent, stride in zip(self.shape[:axis], self.strides[:axis], strict=True):
            places = np.add.outer(places, stride * np.arange(extent)).ravel()
        return np.stack([places, np.full_like(places, length)], axis=1).tobytes()

    @property
    def _run(self) -> tuple[int, int]:
        """The first of the axes along which there is no gap, and their bytes."""
        axis, length = self.ndim, self.dtype.itemsize
        while axis and (self.strides[axis - 1] == length or self.shape[axis - 1] == 1):
            axis -= 1
            length *= self.shape[axis]
        return axis, length


def lent(array: npt.NDArray[Any]) -> tuple[LentArray, Any] | None:
    """An array of this process for others to read, and what must live until they have; None where it had better travel.

    That is of small ones, of those that are no numbers, and of memory that only this process can read, such as what a
    driver has mapped.
    """
    if type(array) is not np.ndarray or array.nbytes < WORTH or array.dtype.kind not in "fiub":
        return None
    if array.dtype.char == "g" or not array.dtype.isnative:
        return None
    lender, held = here(), array
    made = _lent_by(lender, array)
    if made.short:
        held = np.ascontiguousarray(array)
        made = _lent_by(lender, held)
    corners = (made[tuple(slice(end, end + 1 or None) for _ in made.shape)] for end in (0, -1))
    try:
        for corner in corners:
            corner.read_into(np.empty(corner.shape, corner.dtype))
    except LendingError:
        return None
    return made, held


def _lent_by(lender: Lender, array: npt.NDArray[Any]) -> LentArray:
    return LentArray(
        lender=lender, address=array.ctypes.data, shape=array.shape, strides=array.strides, dtype=array.dtype
    )


def cuts_of(shape: Sequence[int], most: int) -> Iterator[Cut]:
    """Parts of at most so many items that an array in C order is made of, each without gaps."""
    inner = prod(shape[1:])
    if inner > most:
        for index in range(shape[0]):
            yield from ((slice(index, index + 1), *inside) for inside in cuts_of(shape[1:], most))
        return
    rows = max(1, most // max(1, inner))
    for first in range(0, shape[0], rows):
        yield (slice(first, min(first + rows, shape[0])), *(slice(0, extent) for extent in shape[1:]))
