"""A look at all entries of a matrix on a CPU."""

from __future__ import annotations

from math import fsum

import numpy as np

from dsolver.kernels.cpu.loops.look import compare_with_transpose, do_columns_cancel, look_at_rows
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.look import CANCELED, Look, counted

ROWS_WORTH_A_THREAD = 8192


def look(rows: Csr, allowed: float, team: Team) -> Look:
    """Findings about the entries of a square matrix: 12 bytes of each are read twice.

    Args:
        rows: real and finite; their columns ascend.
        allowed: difference of mirrored entries up to which nobody asks for its place, as a part of the largest entry.
        team: threads that share the rows.
    """
    arrays = tuple(np.require(part, requirements="W") for part in rows)  # loops are compiled for such
    parts = team.run(look_at_rows, 0, rows.size, *arrays, CANCELED, worth=ROWS_WORTH_A_THREAD)
    empty, hollow, negative, opened, largest, sums = zip(*parts, strict=True)
    mirrored, (difference, i, j) = compare_with_transpose(*arrays)
    rows_cancel = not any(opened)
    return Look(
        empty=counted(empty),
        hollow=counted(hollow),
        negative=sum(negative),
        rows_cancel=rows_cancel,
        # Of a symmetric matrix they have the same entries as the rows.
        columns_cancel=rows_cancel and (difference == 0.0 or columns_cancel(rows)),
        largest=max(largest),
        mirrored=mirrored,
        difference=difference,
        place=(int(i), int(j)) if difference > allowed * max(largest) else None,
        positive=fsum(number for of in sums for number in of[:2]),
        dominance=fsum(number for of in sums for number in of[2:]),
    )


def columns_cancel(rows: Csr) -> bool:
    """Whether the entries of each column add up to zero."""
    start, columns, values = (np.require(part, requirements="W") for part in rows)
    return bool(do_columns_cancel(start, columns, values, CANCELED))
