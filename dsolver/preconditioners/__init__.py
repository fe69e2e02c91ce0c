"""Preconditioners of Krylov methods: what ``M=`` of `dsolver.solve` and `dsolver.Solver` takes.

Each is a module with its options, the matrices that it builds, what it costs and how it is applied; `base` is their
interface, `builder` builds matrices for them, `registry` names them.
"""

from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.auto import Auto
from dsolver.preconditioners.base import Preconditioner
from dsolver.preconditioners.blocks.methods import (
    BlockDiagonal,
    BlockTriangular,
    LeastSquaresCommutator,
    PressureConvectionDiffusion,
    Schur,
)
from dsolver.preconditioners.direct.preconditioner import Direct
from dsolver.preconditioners.function import Function, FunctionByChunk
from dsolver.preconditioners.multigrid import Multigrid
from dsolver.preconditioners.registry import register
from dsolver.preconditioners.relaxation.block_jacobi import BlockJacobi
from dsolver.preconditioners.relaxation.chebyshev import Chebyshev
from dsolver.preconditioners.relaxation.jacobi import Identity, Jacobi
from dsolver.preconditioners.relaxation.l1_jacobi import L1Jacobi
from dsolver.preconditioners.relaxation.sweeps import IC0, ILU0, SymGS
from dsolver.preconditioners.square_block import PreconditionedSquareBlock

__all__ = [
    "IC0",
    "ILU0",
    "Algebraic",
    "Auto",
    "BlockDiagonal",
    "BlockJacobi",
    "BlockTriangular",
    "Chebyshev",
    "Direct",
    "Function",
    "FunctionByChunk",
    "Identity",
    "Jacobi",
    "L1Jacobi",
    "LeastSquaresCommutator",
    "Multigrid",
    "PreconditionedSquareBlock",
    "Preconditioner",
    "PressureConvectionDiffusion",
    "Schur",
    "SymGS",
    "register",
]


def __dir__() -> list[str]:
    """The public names, which are all that tab completion is to show."""
    return list(__all__)
