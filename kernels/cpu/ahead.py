"""Compiles the loops of multigrid's iterations on lattices into the cache, for the process that has started this one.

It is run as a program, see `first_use`. The types are those that a solve in float64 calls the loops with; a test
compares them. Where a call has other types, its process compiles for itself.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from dsolver.kernels.cpu import dense, stencil, vectors
from dsolver.kernels.cpu.loops.compiled import FIRST_USE
from dsolver.kernels.cpu.sell import loops as sell

INT: Final = types.int64
REAL: Final = types.float64
FLAG: Final = types.boolean
VECTOR: Final = REAL[::1]
MATRIX: Final = types.Array(REAL, 2, "C")
INDICES: Final = types.int32[::1]
STARTS: Final = types.int64[::1]
SLICES: Final = types.Tuple((STARTS, STARTS, VECTOR, INDICES))
RANGE: Final = (INT, INT)
TRIPLE: Final = types.UniTuple(INT, 3)
FLAGS: Final = types.UniTuple(FLAG, 3)
KINDS: Final = types.UniTuple(STARTS, 3)
TABLE: Final = types.Array(REAL, 5, "C")


def loops() -> list[tuple[Any, tuple[Any, ...]]]:
    """The loops and the types of their arguments, in the order in which a solve needs them."""
    half = (SLICES, INDICES, VECTOR)
    return [
        (vectors.block_dots, (*RANGE, VECTOR, VECTOR, VECTOR)),
        (vectors.in_order, (VECTOR,)),
        (stencil._spmv, (*RANGE, TRIPLE, FLAGS, VECTOR, VECTOR, VECTOR, VECTOR)),
        (vectors._waxpby, (*RANGE, REAL, VECTOR, REAL, VECTOR, VECTOR)),
        (stencil._half_sweep, (*RANGE, TRIPLE, FLAGS, TRIPLE, VECTOR, VECTOR, REAL, REAL, VECTOR, VECTOR, VECTOR)),
        (stencil._restrict, (*RANGE, TRIPLE, FLAGS, KINDS, TRIPLE, TRIPLE, TABLE, INDICES, VECTOR, VECTOR)),
        (sell.forward_from_zero, (*RANGE, *half, VECTOR, VECTOR)),
        (sell.upper_residual, (*RANGE, SLICES, INDICES, VECTOR, VECTOR)),
        (sell.product, (*RANGE, SLICES, INDICES, VECTOR, REAL, VECTOR)),
        (dense.eliminate, (MATRIX, REAL)),
        (dense._product, (INDICES, MATRIX, VECTOR, VECTOR)),
        (vectors._move, (INDICES, INDICES, VECTOR, VECTOR)),
        (sell.lower_residual, (*RANGE, SLICES, INDICES, VECTOR, VECTOR, VECTOR)),
        (sell.backward_solve, (*RANGE, STARTS, *half, VECTOR, VECTOR)),
        (stencil._prolong, (*RANGE, TRIPLE, KINDS, TRIPLE, FLAGS, TRIPLE, TABLE, VECTOR, VECTOR)),
        (vectors._update_p, (*RANGE, VECTOR, REAL, VECTOR)),
        (vectors._update_x_r, (*RANGE, VECTOR, VECTOR, REAL, FLAG, VECTOR, VECTOR, VECTOR)),
        (sell.spmv, (*RANGE, SLICES, VECTOR, VECTOR, VECTOR)),
    ]


def main() -> None:
    """Compile what is not in the cache."""
    FIRST_USE.alone()
    FIRST_USE.unheard()
    for loop, signature in loops():
        loop.compile(signature)


if __name__ == "__main__":
    main()
