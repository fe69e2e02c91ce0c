"""Distributed Krylov methods with multigrid, for grids and any sparse matrix, on Dask, on CPUs and GPUs."""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

from dsolver import preconditioners, problems
from dsolver.api import solve
from dsolver.benchmarks.hpcg import Hpcg as _Hpcg
from dsolver.cluster.file_rows import read_matrix
from dsolver.cluster.row_blocks import matrix_from_blocks
from dsolver.cost.estimate import Estimate, estimate
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
from dsolver.errors import installing as _installing
from dsolver.linalg import bicgstab, cg, fcg, fgmres, gmres, minres
from dsolver.matrices.matrix import matrix
from dsolver.matrices.null_vectors import rigid_body_modes
from dsolver.monitor.notebook import Live
from dsolver.problems import Problem
from dsolver.session.checkpoint import Checkpoint
from dsolver.session.follower import State
from dsolver.solution import Solution, Solutions
from dsolver.solver import Solver
from dsolver.status import Status

__version__ = "0.1.0"

preconditioners.register("hpcg", _Hpcg)

if _TYPE_CHECKING:
    from dsolver.autodiff import jax as jax
    from dsolver.autodiff import torch as torch

__all__ = [
    "Checkpoint",
    "ClusterError",
    "DeviceError",
    "DeviceMemoryError",
    "DsolverError",
    "Estimate",
    "InconsistentWarning",
    "InputError",
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
    "WorkerLostError",
    "bicgstab",
    "cg",
    "estimate",
    "fcg",
    "fgmres",
    "gmres",
    "matrix",
    "matrix_from_blocks",
    "minres",
    "preconditioners",
    "problems",
    "read_matrix",
    "rigid_body_modes",
    "solve",
]


def __dir__() -> list[str]:
    """The public names, which are all that tab completion is to show."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> _ModuleType:
    """`dsolver.torch` and `dsolver.jax`, which load packages that are large, and may be absent, when they are named."""
    if name not in ("jax", "torch"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _import_module(f"dsolver.autodiff.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(f"dsolver.{name} cannot be loaded ({error}): {_installing(name)} brings it") from error
