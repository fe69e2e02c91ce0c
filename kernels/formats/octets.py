"""Octets: eight rows side by side, of 64 that are sorted by length (SELL-C-σ, C = 8, σ = 64; Kreutzer et al. 2014).

For CPUs: the sums of eight rows are in registers, and a processor foresees where rows of similar lengths end. In
compressed rows it mistakes the end of most rows, which takes as long as several entries.

The rows are cut into windows of `WINDOW`, sorted in each by length, longest first, and cut into octets. An octet is as
wide as its longest row. Of each entry column it stores eight values, and eight columns: uint16 from a base where the
octet's columns lie within 65,536, else int32. Holes have value 0 and the column before them. That makes 10 or 12 bytes
an entry or hole, 2.5 a row.
"""

from dataclasses import dataclass
from typing import Final

from dsolver.kernels.formats.base import Format, stored_bytes
from dsolver.kernels.formats.layout import Array

LANES: Final = 8
WINDOW: Final = 64
"""Rows that are sorted together. Twice as many leave half the holes, but rows that lie far apart read more of x."""
NEAR_REACH: Final = 65535
NO_BASE: Final = 2**32 - 1  # base of an octet whose columns have 32 bits


@dataclass(frozen=True, kw_only=True)
class Octets(Format):
    """A matrix in octets. K is the number of entry columns of all octets, S that of octets."""

    shape: tuple[int, int]
    # uint32 (S + 1, 3): entry columns before it, where its columns begin in `indices` / `LANES`, and their base, or
    # `NO_BASE`. The last one is past the end.
    octets: Array
    # uint8 (S * LANES,), row of each lane, counted from the first one of its window; past the last row for none.
    lanes: Array
    indices: Array  # uint16, columns; int32 as two of them
    values: Array  # (K * LANES,) of the backend's value type

    @property
    def count(self) -> int:
        """Number of octets."""
        return len(self.octets) - 1

    @property
    def nbytes(self) -> int:
        return stored_bytes(self)


def count_of(rows: int) -> int:
    """Octets of so many rows."""
    return -(-rows // LANES)
