"""Entries of a matrix by coordinates, and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Place = tuple[int, int]
"""Row and column, from 1."""


class Entries(NamedTuple):
    """Entries of a matrix by coordinates.

    Attributes:
        shape: of the matrix.
        row: (entries,), from 0.
        column: (entries,), from 0.
        values: float64 (entries,).
        lines: of the file that they come from; mirrored ones have none of their own.
        sides: the places of an entry below and of one above the diagonal, of those that were mirrored.
    """

    shape: tuple[int, int]
    row: npt.NDArray[Any]
    column: npt.NDArray[Any]
    values: npt.NDArray[np.float64]
    lines: int = 0
    sides: tuple[Place | None, Place | None] = (None, None)


def joined(parts: Sequence[Entries]) -> Entries:
    """The entries of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    row, column, values = (np.concatenate([part[k] for part in parts]) for k in (1, 2, 3))
    return Entries(parts[0].shape, row, column, values)
