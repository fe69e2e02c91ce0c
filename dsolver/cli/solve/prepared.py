"""Room for a system, and the store of its saves, before a solve."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import dsolver
import dsolver.benchmarks.hpcg  # whose V-cycle is one of the names of --precond
from dsolver.cluster import host_memory
from dsolver.cost.forecast import Estimate
from dsolver.cost.room import SMALL
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.problems import Problem
from dsolver.session.checkpoints.checkpoint import EVERY
from dsolver.units import amount


def check_room(problem: Problem, plan: Callable[..., Estimate]) -> None:
    """Refuse a system that memory will not hold, before its right-hand side is made; raises DeviceMemoryError."""
    size = 8 * prod(problem.grid)
    if size <= SMALL:
        return
    shortage = plan(bandwidth=1.0).shortage  # of which nothing is asked
    (own,) = host_memory.shares([host_memory.supplies()], [size])
    if shortage is None and own.free < size:
        shortage = (
            f"{amount(own.free)} are {own.what}, but b needs {amount(size)} in this process: give --rhs b.zarr, which "
            f"workers read themselves, or a smaller grid"
        )
    if shortage is not None:
        raise DeviceMemoryError(shortage)


def saves(folder: Path | None, every: float | None, *, resume: bool) -> dsolver.Checkpoint | None:
    """The store of --checkpoint. InputError: another option needs one, or it cannot be one."""
    if folder is None:
        if resume or every is not None:
            raise InputError(f"--{'resume' if resume else 'every'} needs --checkpoint FOLDER, the folder of the saves")
        return None
    return dsolver.Checkpoint(folder, every=EVERY if every is None else every)
