"""Hash tables of the stages of a product: how many slots, and lanes of a row (product.cu)."""

import math
from typing import Any, Final, NamedTuple, Self

import numpy as np

from dsolver.kernels.cuda.sparse.stages.stages import WARP

LEAST_BITS, MOST_BITS = 5, 10  # tables have 32 to 1024 slots, three quarters of which are used at most
LONGEST: Final = 1 << 12  # longest row of A that is multiplied so: its entries are taken one after the other
COUNTED, SUMMED = 4, 14  # bytes of shared memory of a slot, where columns are counted and where they are added up
OF_WARP: Final = 8192  # bytes of shared memory of a warp, where fewer rows at a time would need more


class Tables(NamedTuple):
    """Tables of a stage: lanes of a row, 1 << bits slots of each, most columns of a row, and the longest row of A."""

    lanes: int
    bits: int
    most: int
    longest: int

    @classmethod
    def of(cls, lanes: int, bits: int, longest: int = LONGEST) -> Self:
        return cls(lanes, bits, 3 << bits >> 2, longest)

    @property
    def limits(self) -> tuple[Any, ...]:
        """Arguments of kernels: bits, most columns, longest row of A."""
        return np.int32(self.bits), np.int32(self.most), np.int64(self.longest)


def tables_of(slots: float, mean: float, number: int = 0) -> list[Tables]:
    """The stages of a pass whose first tables have about so many slots, from a number on; always the last one.

    mean: entries of a row of B.

    A row of B is one batch of lanes as a rule, and tables leave room for 28 warps on a multiprocessor, since waiting
    is what takes the time: rows of 8 entries and 128 slots took 8.4 ms with 16 lanes on an H200, and 10.7 with 8.
    """
    bits = min(max(math.ceil(math.log2(max(slots, 1.0))), LEAST_BITS), MOST_BITS)
    lanes = 4 if mean <= 4.5 else 8 if mean <= 6.5 else 16 if mean <= 16.0 else WARP
    bits = max(bits, lanes.bit_length() + 1)  # a batch of columns must find room behind those that are allowed
    while lanes < WARP and (SUMMED * WARP // lanes) << bits > OF_WARP:
        lanes *= 2
    stages = [Tables.of(lanes, bits, min(64 * lanes, LONGEST)), Tables.of(WARP, bits + 3)]
    return [*[tables for tables in stages if tables.bits < MOST_BITS][number:], Tables.of(WARP, MOST_BITS)]
