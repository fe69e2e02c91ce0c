"""Random numbers of the rows of a matrix: a hash of a row's number in the whole matrix."""

from typing import Any

import numpy as np


def keys_of(first: int, rows: int, count: int, xp: Any) -> Any:
    """Random numbers of each row: uint64 (count, rows), each time no two alike.

    The upper half of the hash SplitMix64 of the row's number in the whole matrix (Steele, Lea, Flood, OOPSLA 2014), and
    below it the number in the chunk.
    """
    place, seed = xp.arange(rows, dtype=np.uint64), xp.arange(count, dtype=np.uint64)
    z = (place[None, :] + np.uint64(first + 1)) * np.uint64(0x9E3779B97F4A7C15) + (seed[:, None] << np.uint64(40))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(32) << np.uint64(32)) | place
