"""Cells that are left out, or where u is held, as flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dsolver.errors import InputError, check_computed, in_a_line
from dsolver.foreign_arrays import without_package
from dsolver.problems.coefficient_names import FIXED, MASK
from dsolver.problems.coordinates import check_order
from dsolver.problems.embedding import Embedding


def left_out(space: Embedding, mask: Any, active: Any) -> Any:
    """The cells to leave out as numbers, for fields, or a function; None for none. InputError: no flags, or both."""
    if mask is not None and active is not None:
        raise InputError("mask and active were given: leave out one of them, for each is what the other is not")
    if active is None:
        return _flags(space, MASK, mask, "to leave out")
    return _flags(space, "active", active, "to keep", negated=True)


def fixed_cells(space: Embedding, fixed: Any) -> tuple[Any, Any]:
    """Cells where u is held, as those left out, and the values; None and 0 for none. InputError for no such pair."""
    if fixed is None:
        return None, 0.0
    if not (isinstance(fixed, tuple | list) and len(fixed) == 2) or fixed[0] is None or fixed[1] is None:
        raise InputError(f"fixed must be a pair (where, values) of cells and u there, not {in_a_line(fixed)}")
    return _flags(space, FIXED, fixed[0], "where u is held"), fixed[1]


def _flags(space: Embedding, name: str, flags: Any, cells: str, *, negated: bool = False) -> Any:
    """Flags as numbers, or a function of them (negated if so); None for none. InputError: they are no flags."""
    if flags is None:
        return None
    check_computed(name, flags)
    check_order(name, flags, space.dimensions)
    flags = without_package(name, flags)
    if callable(flags):
        return Negated(flags) if negated else flags
    values = flags if hasattr(flags, "dtype") else np.asarray(flags)
    if np.dtype(values.dtype).kind not in "biu":
        raise InputError(f"{name} has dtype {values.dtype}: it must be True at the cells {cells}")
    if tuple(values.shape) not in ((), space.shape):
        raise InputError(
            f"{name} has shape {tuple(values.shape)}, but the grid is {space.shape}: it must be an array of the grid's "
            f"shape, True at the cells {cells}, or a function that is"
        )
    return ((values == 0) if negated else (values != 0)).astype(np.uint8)


@final
@dataclass(frozen=True)
class Negated:
    """A function that is true where another one is not; picklable if that is."""

    function: Callable[..., Any]

    def __call__(self, *points: Any) -> Any:
        """Flags of the points at which the function is false."""
        return self.function(*points) == 0
