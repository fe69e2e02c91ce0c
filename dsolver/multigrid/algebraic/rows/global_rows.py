"""Rows of a matrix with columns by global number, as chunks send them to each other: start, columns and values.

Arrays are of the chunk's device.
"""

from typing import Any, Final

import numpy as np

from dsolver.kernels.formats.csr import Csr, of_entries
from dsolver.multigrid.algebraic.rows.window import I64

ROWS: Final = ("int64", "int64", "float64")  # value types of a message with rows


def ascending(rows: Csr) -> Csr:
    """Rows with ascending columns."""
    order = np.lexsort(np.stack((rows.columns, of_entries(rows.start, len(rows.columns)))))
    return rows._replace(columns=rows.columns[order], values=rows.values[order])


def starts(lengths: Any) -> I64:
    """Begins of rows of these lengths, and the end of the last one: int64 (rows + 1,)."""
    out = np.zeros_like(lengths, dtype=np.int64, shape=len(lengths) + 1)
    np.cumsum(lengths, out=out[1:])
    return out
