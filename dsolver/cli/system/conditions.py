"""Values and boundary conditions as the command line and case files write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from dsolver.cli import files, labeled
from dsolver.errors import InputError, float_of
from dsolver.problems import Condition, Dirichlet, Neumann, Periodic, Robin

Value = float | Path
"""A number, or the file of an array."""

KINDS: Final[Mapping[str, Callable[..., Condition]]] = {
    "dirichlet": Dirichlet,
    "neumann": Neumann,
    "robin": Robin,
    "periodic": Periodic,
}
MOST: Final = {"dirichlet": 1, "neumann": 1, "robin": 2, "periodic": 0}
"""Most values of a condition."""
HOW: Final = "use dirichlet:VALUE, neumann:FLUX, robin:ALPHA:VALUE or periodic, each VALUE a number or a .npy file"


def value_of(text: Any, folder: Path) -> Value:
    """A number, or the name of a file in a folder."""
    try:
        return float_of(text)
    except (TypeError, ValueError):
        return folder / str(text)


def values_of(given: Any, folder: Path) -> tuple[Value, ...]:
    """One value, or a list of one for each axis."""
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return tuple(value_of(text, folder) for text in several)


def opened(value: Value, *, small: bool = False) -> Any:
    """A number, or a file's array: NumPy's, xarray's, or Dask's of .zarr, whose blocks workers read; or InputError."""
    if isinstance(value, float):
        return value
    if not value.suffix and not value.exists():
        raise InputError(f"{value} is neither a number nor a file")
    if labeled.is_labeled(value) and not small:
        return labeled.read(value)
    array = files.opened(value)
    if isinstance(array, np.ndarray) or small:
        return np.asarray(array[...]) if small else array
    from dask import array as dask_array

    return dask_array.from_array(array, chunks=array.chunks)


def condition_of(face: str, text: Any, folder: Path) -> Condition:
    """The condition that a text such as "robin:2:0.5" names. InputError: it names none, or an unreadable file."""
    kind, *given = str(text).split(":")
    if kind.lower() not in KINDS or len(given) > MOST[kind.lower()] or (kind.lower() == "robin" and not given):
        raise InputError(f"bc {face}={text}: {HOW}")
    return KINDS[kind.lower()](*(opened(value_of(number, folder), small=True) for number in given))
