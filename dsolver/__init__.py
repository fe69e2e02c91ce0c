"""Distributed Krylov methods with multigrid, for grids and any sparse matrix, on Dask, on CPUs and GPUs.

Names are loaded when they are used, so that a command, or a process that wants one of them, need not wait for all.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from dsolver import preconditioners, problems
    from dsolver.api import solve
    from dsolver.autodiff import jax as jax
    from dsolver.autodiff import torch as torch
    from dsolver.cluster.rows.file_rows import read_matrix
    from dsolver.cluster.rows.row_blocks import matrix_from_blocks
    from dsolver.conduction import Conduction, Tortuosity, effective_conductivity, tortuosity
    from dsolver.cost.estimate import estimate
    from dsolver.cost.forecast import Estimate
    from dsolver.eigen.eigsh import eigsh
    from dsolver.eigen.pairs import Eigenpairs
    from dsolver.errors import (
        ClusterError,
        DeviceError,
        DeviceMemoryError,
        DsolverError,
        InconsistentWarning,
        InputError,
        NotConvergedError,
        OutputExistsError,
        RankError,
        WorkerLostError,
    )
    from dsolver.least_squares.linalg import cgls, lsmr
    from dsolver.least_squares.solution import LeastSquaresSolution, LeastSquaresSolutions
    from dsolver.linalg import bicgstab, cg, cocg, fcg, fgmres, gmres, minres
    from dsolver.matrices.composed.blocks import block
    from dsolver.matrices.composed.operators import operator
    from dsolver.matrices.matrix import matrix
    from dsolver.matrices.null_vectors import rigid_body_modes
    from dsolver.monitor.pages.notebook import Live
    from dsolver.monitor.state import State
    from dsolver.problems import Problem
    from dsolver.problems.functions import by_chunk
    from dsolver.session.checkpoints.checkpoint import Checkpoint
    from dsolver.solution import Solution, Solutions
    from dsolver.solver import Solver
    from dsolver.status import Status

__version__ = "0.1.0"

_HOMES = {
    "api": ("solve",),
    "cluster.rows.file_rows": ("read_matrix",),
    "cluster.rows.row_blocks": ("matrix_from_blocks",),
    "conduction": ("Conduction", "Tortuosity", "effective_conductivity", "tortuosity"),
    "cost.estimate": ("estimate",),
    "cost.forecast": ("Estimate",),
    "eigen.eigsh": ("eigsh",),
    "eigen.pairs": ("Eigenpairs",),
    "errors": (
        "ClusterError",
        "DeviceError",
        "DeviceMemoryError",
        "DsolverError",
        "InconsistentWarning",
        "InputError",
        "NotConvergedError",
        "OutputExistsError",
        "RankError",
        "WorkerLostError",
    ),
    "least_squares.linalg": ("cgls", "lsmr"),
    "linalg": ("bicgstab", "cg", "cocg", "fcg", "fgmres", "gmres", "minres"),
    "matrices.matrix": ("matrix",),
    "matrices.null_vectors": ("rigid_body_modes",),
    "matrices.composed.blocks": ("block",),
    "matrices.composed.operators": ("operator",),
    "monitor.pages.notebook": ("Live",),
    "monitor.state": ("State",),
    "problems": ("Problem",),
    "problems.functions": ("by_chunk",),
    "session.checkpoints.checkpoint": ("Checkpoint",),
    "least_squares.solution": ("LeastSquaresSolution", "LeastSquaresSolutions"),
    "solution": ("Solution", "Solutions"),
    "solver": ("Solver",),
    "status": ("Status",),
}
"""Public names by the module that has them; type checkers read the imports above."""
_OPTIONAL = ("jax", "torch")
"""Modules for packages that may be absent: `from dsolver import *` names neither."""
_TAKING_M = ("api", "conduction", "cost.estimate", "eigen.eigsh", "linalg", "preconditioners", "solver")
"""Modules for which the benchmark's V-cycle needs its name."""

__all__ = [
    "Checkpoint",
    "ClusterError",
    "Conduction",
    "DeviceError",
    "DeviceMemoryError",
    "DsolverError",
    "Eigenpairs",
    "Estimate",
    "InconsistentWarning",
    "InputError",
    "LeastSquaresSolution",
    "LeastSquaresSolutions",
    "Live",
    "NotConvergedError",
    "OutputExistsError",
    "Problem",
    "RankError",
    "Solution",
    "Solutions",
    "Solver",
    "State",
    "Status",
    "Tortuosity",
    "WorkerLostError",
    "bicgstab",
    "block",
    "by_chunk",
    "cg",
    "cgls",
    "cocg",
    "effective_conductivity",
    "eigsh",
    "estimate",
    "fcg",
    "fgmres",
    "gmres",
    "lsmr",
    "matrix",
    "matrix_from_blocks",
    "minres",
    "operator",
    "preconditioners",
    "problems",
    "read_matrix",
    "rigid_body_modes",
    "solve",
    "tortuosity",
]


def __dir__() -> list[str]:
    """The public names, which are all that tab completion is to show."""
    return [*__all__, *_OPTIONAL, "__version__"]


def __getattr__(name: str) -> _Any:
    """A public name, a module, or `dsolver.torch` and `dsolver.jax`, whose packages are large, and may be absent."""
    for module, names in _HOMES.items():
        if name in names:
            _name_hpcg(module)
            found = globals()[name] = getattr(_import_module(f"dsolver.{module}"), name)
            return found
    if name in _OPTIONAL:
        try:
            return _import_module(f"dsolver.autodiff.{name}")
        except ModuleNotFoundError as error:
            from dsolver.errors import installing

            raise ImportError(f"dsolver.{name} cannot be loaded ({error}): {installing(name)} brings it") from error
    if name.startswith("_") or _find_spec(f"dsolver.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _name_hpcg(name)
    return _import_module(f"dsolver.{name}")


def _name_hpcg(module: str) -> None:
    """Load what gives M="hpcg" its meaning, from above the rooms that take it, where a module takes M."""
    if module in _TAKING_M:
        _import_module("dsolver.benchmarks.hpcg")
