"""Distributed multigrid-preconditioned conjugate gradients for 3D grids, on Dask, on CPUs and GPUs."""

from dsolver import preconditioners, problems
from dsolver.api import cg, solve
from dsolver.checkpoint import Checkpoint
from dsolver.errors import (
    ClusterError,
    DeviceError,
    DeviceMemoryError,
    DsolverError,
    InconsistentWarning,
    InputError,
    OutputExistsError,
    RankError,
    WorkerLostError,
)
from dsolver.estimation import Estimate, estimate
from dsolver.iteration import State
from dsolver.monitor.notebook import Live
from dsolver.problems import Problem
from dsolver.solution import Solution, Solutions, Status
from dsolver.solver import Solver

__version__ = "0.1.0"

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
    "OutputExistsError",
    "Problem",
    "RankError",
    "Solution",
    "Solutions",
    "Solver",
    "State",
    "Status",
    "WorkerLostError",
    "cg",
    "estimate",
    "preconditioners",
    "problems",
    "solve",
]
