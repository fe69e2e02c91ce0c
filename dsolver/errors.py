"""The exception tree.

::

    DsolverError
    ├── InputError (ValueError)        an argument cannot be right; nothing was started
    ├── DeviceError (RuntimeError)     a device or its software is missing
    │   └── DeviceMemoryError          a GPU's memory will not suffice, or has run out
    ├── ClusterError (RuntimeError)    the Dask cluster cannot be reached or cannot run the job
    │   └── RankError                  a rank of a running solve failed; every rank has stopped
    │       └── WorkerLostError        because its worker died, left or hangs
    └── OutputExistsError (FileExistsError)

A solve that does not converge is no exception: see `dsolver.Status`.
"""

from __future__ import annotations

import math
from typing import Any, Final

SHORT: Final = 100
"""Characters of an argument that a message repeats at most."""


class DsolverError(Exception):
    """Whatever this package raises on purpose."""


class InputError(DsolverError, ValueError):
    """An argument cannot be right. Nothing was started."""


class DeviceError(DsolverError, RuntimeError):
    """A device, or the software that drives it, is missing."""


class DeviceMemoryError(DeviceError):
    """The memory of a GPU will not suffice for its part of the system; nothing was started. Or it ran out."""


class ClusterError(DsolverError, RuntimeError):
    """The Dask cluster cannot be reached or cannot run the job."""


class RankError(ClusterError):
    """A rank of a running solve failed. Every rank has stopped."""


class WorkerLostError(RankError):
    """A worker with a rank of a running solve died, left or hangs. Every other rank has stopped."""


class OutputExistsError(DsolverError, FileExistsError):
    """The output is there already and was not to be overwritten."""


def check_computed(name: str, value: object) -> None:
    """Refuse what Dask has not computed: it passes for a function, and for whatever has an attribute.

    Raises:
        InputError: it is a Delayed.
    """
    if type(value).__module__ == "dask.delayed":
        raise InputError(
            f"{name} is a {type(value).__name__} of Dask: pass what it computes, or an array, as "
            f"dask.array.from_delayed makes"
        )


def float_of(number: Any) -> float:
    """A number as a float, infinite where an integer is beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def in_a_line(value: object) -> str:
    """An argument as a message of one line names it: as it would be typed where that is short, else by its type."""
    try:
        typed = repr(value)
    except Exception:  # of an integer with thousands of digits, say
        typed = "\n"
    return typed if len(typed) <= SHORT and typed.isprintable() else f"an object of type {type(value).__name__}"


class InconsistentWarning(UserWarning):
    """A system that fixes its solution only up to a constant was given a right-hand side that has no solution."""
