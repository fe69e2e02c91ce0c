"""Bytes that algebraic multigrid keeps, moves and needs for set-up, forecast from the matrix."""

from math import prod
from typing import Final

from dsolver.distributed.forecast import F64, I32, Part
from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.algebraic.methods import MOST, Aggregation, CoarsePoints, Method
from dsolver.multigrid.algebraic.setup import LATE
from dsolver.preconditioners.algebraic.making import SETUP_ENTRY, SETUP_ROW, making_of
from dsolver.preconditioners.base import Forecast

COMPLEXITY: Final = (2.8, 1.9, 3.5)
"""Entries of all levels over those of A, without and with aggressive coarsening, and of "air", for a forecast: 2.3 to
2.8, 1.4 to 2.7 and 2.4 to 5.0 were seen. With aggregation they were 1.4 to 2.1."""
GRIDS: Final = (1.45, 1.2, 1.5)  # rows of all levels over those of A, of the same
AIR: Final = 2  # place of "air" in these
AGGREGATES: Final = 4  # aggregates that a row of a smoothed P reads: 3 to 5 were seen
SETUP_FLOW: Final = 250
"""Bytes of an entry by "air", whose first coarse level has up to twice as many: 64³ cells took 0.6 to 1.1 times as much
as is counted so, 400² cells 0.5 to 0.7."""
SETUP_ON_GPU: Final = (480, 340, 2)
"""Bytes of each row of a matrix that is alone on a GPU, of one with fewer rows than `LATE` and of a larger one, and of
each entry beside the diagonal, by "pmis". With the finest matrix it was 0.6 to 1.0 and 0.7 to 1.0 times as much for 7
and 27 points, rough coefficients, layers and tetrahedra."""
ACROSS: Final = (1.0, 2.0)
"""Times as much where there are several chunks, whose rows travel to others, on CPUs (0.9 to 1.1) and on GPUs (2.0)."""
OUTBOX: Final = 32
"""Bytes of each entry that leaves its box for a range of rows: twice those of the message, in an outbox that stays. All
others are of planes between chunks: 450 bytes of a plane's row for each neighbor, which are left out."""


def of_levels(part: Part, method: Method, *, chebyshev: bool) -> Forecast:
    """Levels that a method makes, as far as that is known without them."""
    a, value = part.stored(), part.value
    if isinstance(method, CoarsePoints):
        kind, width = int(method.aggressive_levels != 0), method.max_elements
    elif isinstance(method, Aggregation):
        kind, width = 1, AGGREGATES * method.vectors
    else:
        kind, width = AIR, MOST
    both = 1 + (isinstance(part.problem, MatrixProblem) and part.problem.quadrant is not None)  # parts of each level
    coarse = both * (COMPLEXITY[kind] - 1.0) * a.entries * (value + I32)
    transfers = 2 * width * a.rows * (value + I32)
    vectors = value * (3 + 5 * (GRIDS[kind] - 1.0)) * a.size
    products = 4 if chebyshev else 3 if kind == AIR else 2
    swept = 0 if chebyshev else 2 * COMPLEXITY[kind] * a.halo_matrix  # `SweptGhosts`
    passes = products * (both * a.stored(value) + coarse) + transfers
    row, late, entry, alone = SETUP_ROW, SETUP_ROW, SETUP_ENTRY, len(part.partition) == 1
    if isinstance(part.problem, MatrixProblem) and isinstance(method, CoarsePoints) and part.cuda and alone:
        row, late, entry = SETUP_ON_GPU
    if kind == AIR:
        entry = SETUP_FLOW
    of_row = row if a.rows < LATE else late
    setup = (of_row * a.rows + entry * a.entries) * (1 if alone else ACROSS[part.cuda])
    outboxes = part.cuda * OUTBOX * (a.entries + a.rows) * (1.0 - 1.0 / prod(part.partition.counts[:2]))
    return Forecast(
        levels=(a,),
        making=making_of(part, a) if isinstance(method, CoarsePoints) and method.aggressive_levels else None,
        exact=part.exact(a, shared=part.problem.lattice),
        vectors=int(vectors),
        shared=int(coarse + transfers + swept + outboxes + (both * a.stored(value) if both > 1 and value < F64 else 0)),
        rows=int(setup),  # of all chunks of a worker at once
        temporary=0,
        moved=int(passes + 14 * value * GRIDS[kind] * a.rows),
    )
