"""The threads of a process that copy between arrays: NumPy lets go of the interpreter meanwhile."""

from functools import cache
from math import prod
from threading import Thread
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from dsolver.kernels import usable_cpus
from dsolver.kernels.cpu.loops.team import Team

THREADS: Final = 8  # threads at most: 134 MB from page-locked memory took 18.7, 10.1, 5.6 and 4.7 ms with 1, 2, 4 and 8

ROOMY: Final = 1 << 24  # bytes from where on new memory is worth threads that touch it beforehand: half a ms
TOUCHED: Final = 1 << 22  # bytes that a thread touches at a time
PAGE: Final = 1 << 12  # bytes of a page of the host's memory, or a part of one


@cache
def copying_team() -> Team:
    """The team of copies, made once."""
    return Team(min(THREADS, usable_cpus()))


class HostRoom:
    """Memory of the host for an array that others will have made, whose pages threads touch meanwhile.

    A copy of 134 MB to new pages takes 10 ms, to pages that were touched 5, and of 512 MB 34 and 15.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._array: npt.NDArray[Any] | None = np.empty(shape, dtype)
        self._touching = Thread(target=_touch, args=(self._array,), daemon=True)
        self._touching.start()

    @staticmethod
    def pays(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
        """Whether so much memory is worth threads."""
        return prod(shape) * dtype.itemsize >= ROOMY

    @classmethod
    def worthwhile(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Self | None:
        """Room where that pays; else None."""
        return cls(shape, dtype) if cls.pays(shape, dtype) else None

    def parts(self) -> list[Self]:
        """Room for each part of the array along its first axis, in its place."""
        made = []
        for array in () if self._array is None else self._array:
            part = object.__new__(type(self))
            part._array, part._touching = array, self._touching
            made.append(part)
        return made

    def taken(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """The array, once; None where one of another shape or dtype is wanted."""
        self._touching.join()
        array, self._array = self._array, None
        return array if array is not None and array.shape == shape and array.dtype == dtype else None


def _touch(array: npt.NDArray[Any]) -> None:
    """Write to each page of an array."""
    team, whole = copying_team(), array.reshape(-1).view(np.uint8)
    starts = range(0, whole.size, TOUCHED)

    def touch(number: int) -> None:
        for start in starts[number :: team.threads]:
            whole[start : start + TOUCHED : PAGE] = 0  # without the GIL

    team.each(touch, min(team.threads, len(starts)))
