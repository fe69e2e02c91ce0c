"""Rounds: sums over all chunks that ranks wait for, and what all of them make of these alike."""

import math
import zlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.reductions import tree_sum

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Numbers of which each chunk has a part, float64 on its device, and their sum, of this shape, is wanted."""

    parts: PerChunk
    shape: tuple[int, ...]


class RoundedOtherwiseError(ArithmeticError):
    """Ranks have not made the same of the same numbers: vectors that follow from it do not fit together."""


class Rounds:
    """Sums, the same bits on all ranks, and small problems that each rank solves by them.

    Ranks with the same libraries on the same machine make the same bits of the same numbers, and then need not tell
    each other. Until that was seen, and where it is not so, the first chunk's owner tells them. Each round compares
    digests of all that was made so far.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._digest, self._alike, self._trusted = 0, True, len(engine.partition) == 1

    def sums(self, *wanted: Numbers) -> list[F64]:
        """Sums over all chunks, in one round. RoundedOtherwiseError: ranks have rounded otherwise, which ends now."""
        numbers = self._engine.per_chunk(partial(_gathered, self._digest), *(each.parts for each in wanted))
        self._engine.read()  # a wait that looks at the other ranks meanwhile
        table = np.array(self._engine.known(numbers))
        self._compare(table[:, 0])
        total: F64 = tree_sum(list(table[:, 1:]))
        ends = np.cumsum([math.prod(each.shape) for each in wanted])[:-1]
        return [part.reshape(each.shape) for part, each in zip(np.split(total, ends), wanted, strict=True)]

    def agreed(self, *values: F64) -> list[F64]:
        """Arrays that follow from sums, as all ranks go on with them."""
        flat = np.concatenate([array.ravel() for array in values])
        self._digest = zlib.crc32(flat.tobytes(), self._digest)
        if self._trusted:
            return list(values)
        found = np.array(self._engine.known(self._engine.per_chunk(partial(_of_first, tuple(flat.tolist()))))[0])
        ends = np.cumsum([array.size for array in values])[:-1]
        return [part.reshape(array.shape) for part, array in zip(np.split(found, ends), values, strict=True)]

    def _compare(self, digests: F64) -> None:
        """Take notice of whether all ranks have made the same so far."""
        trusted, self._alike = self._trusted, self._alike and bool((digests == digests[0]).all())
        self._trusted = self._alike and (trusted or digests[0] != 0.0)
        if trusted and not self._trusted:
            raise RoundedOtherwiseError("ranks have made different bits of the same numbers")


def _gathered(digest: int, backend: Backend, _: int, *parts: Any) -> tuple[float, ...]:
    """A rank's digest, and all numbers of a chunk in one copy."""
    flat = [part.ravel() for part in parts]
    return (float(digest), *backend.to_host(backend.xp.concatenate(flat)).tolist())


def _of_first(values: tuple[float, ...], _: Backend, number: int) -> tuple[float, ...]:
    return values if number == 0 else (0.0,) * len(values)
