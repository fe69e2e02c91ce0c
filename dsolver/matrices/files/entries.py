"""Entries of a matrix by coordinates, and their parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError

Place: TypeAlias = tuple[int, int]  # row and column, from 1
Sides: TypeAlias = tuple[Place | None, Place | None]  # the places of an entry below and of one above the diagonal


class Entries(NamedTuple):
    """Entries of a matrix by coordinates."""

    shape: tuple[int, int]
    row: npt.NDArray[Any]  # (entries,), from 0
    column: npt.NDArray[Any]
    values: npt.NDArray[Any]  # float64 or complex128 (entries,)
    lines: int = 0  # of the file that they come from; mirrored ones have none of their own
    sides: Sides = (None, None)  # of the entries that were mirrored


def joined(parts: Sequence[Entries]) -> Entries:
    """The entries of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    row, column, values = (np.concatenate([part[k] for part in parts]) for k in (1, 2, 3))
    return Entries(parts[0].shape, row, column, values)


def mirrored(lower: Entries, symmetry: str) -> Entries:
    """Entries with those that they stand for. ValueError: a skew-symmetric or Hermitian matrix has a wrong diagonal."""
    row, column = lower.row, lower.column
    if symmetry == "skew-symmetric" and (lower.values[row == column] != 0.0).any():
        place = int(row[(row == column) & (lower.values != 0.0)][0]) + 1
        raise ValueError(f"it is skew-symmetric, and has an entry on its diagonal, at {(place, place)}")
    if symmetry == "hermitian" and (lower.values.imag[row == column] != 0.0).any():
        place = int(row[(row == column) & (lower.values.imag != 0.0)][0]) + 1
        raise ValueError(f"it is hermitian, and has an entry on its diagonal that is not real, at {(place, place)}")
    below, above = np.flatnonzero(row > column), np.flatnonzero(row < column)
    off = np.flatnonzero(row != column)
    values = -lower.values[off] if symmetry == "skew-symmetric" else lower.values[off]
    values = values.conj() if symmetry == "hermitian" else values
    return lower._replace(
        row=np.concatenate([row, column[off]]),
        column=np.concatenate([column, row[off]]),
        values=np.concatenate([lower.values, values]),
        sides=(_first(lower, below), _first(lower, above)),
    )


def _first(entries: Entries, found: npt.NDArray[np.int64]) -> Place | None:
    return (int(entries.row[found[0]]) + 1, int(entries.column[found[0]]) + 1) if len(found) else None


def check_sides(path: Path, symmetry: str, parts: Sequence[Sides]) -> None:
    """Refuse a file whose entries that stand for two are on both sides of the diagonal; raises InputError."""
    below, above = (next((sides[k] for sides in parts if sides[k]), None) for k in (0, 1))
    if below and above:
        raise InputError(
            f"{path} is {symmetry} by its header, and has entries on both sides of the diagonal, such as at {below} "
            f"and {above}: write 'general', or leave the entries of one side out"
        )
