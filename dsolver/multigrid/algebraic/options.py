"""Options of an algebraic hierarchy, and the sizes at which its coarse levels are gathered and inverted."""

from dataclasses import dataclass
from typing import Final

from dsolver.multigrid.algebraic.methods import Method

COARSE_ROWS: Final = (300, 1500)
"""Most rows of a level that is solved by its inverse, made on a host and on a GPU. There a level of 400 rows takes 3 ms
to set up and 18 us in each cycle, its inverse 1 ms and 3 us; inverses of 1100 to 1450 rows let set-ups and later solves
take 0.97 of their time, one of 2000 rows took as long as a level more. On a CPU that of 1000 rows takes a second."""
GATHERED_ROWS: Final = (25_000, 1_000_000)
"""Most rows of a coarse level that every owner has whole, on hosts and on GPUs: exchanges would take longer than its
work. A GPU takes 25 us in a cycle for a level of 23,000 rows with 90 entries each; four exchanges take 15 us each and
more. A level of 10⁶ rows takes one of them about 4 ms to set up, by the time of 3.4·10⁷, and waits as many. Where a
level of 3·10⁵ rows was whole, set-up of 3.4·10⁷ cells on two H200s took .21 s in place of .26, and a
later solve as long as before: half of it is not halved, and what is below is made without a message. On hosts set-up of
64³ rows in 2, 4 and 8 chunks, whose second level has 20,758, takes .95, .92 and .89 of the processor time of 4000."""


@dataclass(frozen=True, kw_only=True)
class HierarchyOptions:
    """Options of a hierarchy."""

    method: Method
    smoother: str  # "jacobi", "l1-jacobi" or "chebyshev"
    coarse_rows: int
    gathered_rows: int  # most rows of a coarse level that every owner has whole; at least `coarse_rows`
