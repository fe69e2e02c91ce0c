"""Compiler of the loops of a kind of solve, beside the process that has started this one and shares its cache.

It is run as a program, see `first_use`: `python -m dsolver.kernels.cpu.ahead NUMBER COUNT` reads the kind, and compiles
the share NUMBER of COUNT, from the last loop that a solve needs to the first, while that process begins with the first.
Until it is told it compiles the last loops of all kinds, which are the same. The types are those that a solve in
float64 calls the loops with; a test compares them. Where a call has other types, its process compiles for itself.
"""

import inspect
import select
import sys
from collections.abc import Callable
from typing import Any, Final

from numba import types

from dsolver.kernels.cpu import dense, half_sweeps, octets, stencil, vectors
from dsolver.kernels.cpu.amg import couplings, extended_interpolation, halves, pmis, points, products, transposes
from dsolver.kernels.cpu.block_slices import loops as blocks
from dsolver.kernels.cpu.csr import look
from dsolver.kernels.cpu.csr import loops as csr
from dsolver.kernels.cpu.lattice import galerkin, interpolation
from dsolver.kernels.cpu.loops.compiled import FIRST_USE
from dsolver.kernels.cpu.sell import assembly
from dsolver.kernels.cpu.sell import loops as sell
from dsolver.kernels.formats.csr import Csr

Loops = list[tuple[Any, tuple[Any, ...]]]  # loops and the types of their arguments

PATIENCE: Final = 20.0  # seconds in which a solve begins once it was imported, or is not waited for
INT: Final = types.int64
REAL: Final = types.float64
FLAG: Final = types.boolean
VECTOR: Final = REAL[::1]
MATRIX: Final = types.Array(REAL, 2, "C")
BOXES: Final = types.Array(REAL, 4, "C")
INDICES: Final = types.int32[::1]
STARTS: Final = types.int64[::1]
COUNTS: Final = types.Array(INT, 2, "C")
MARKS: Final = FLAG[::1]
BYTES: Final = types.uint8[::1]
STATES: Final = types.int8[::1]
WORDS: Final = types.uint16[::1]
KEYS: Final = types.uint64[::1]
ROWS: Final = types.NamedTuple((STARTS, INDICES, VECTOR), Csr)
CHUNKS: Final = types.Array(types.uint32, 2, "C")
SLICES: Final = types.Tuple((STARTS, STARTS, VECTOR, INDICES))
RANGE: Final = (INT, INT)
TRIPLE: Final = types.UniTuple(INT, 3)
FLAGS: Final = types.UniTuple(FLAG, 3)
AXES: Final = types.UniTuple(INDICES, 3)
KINDS: Final = types.UniTuple(STARTS, 3)
TABLE: Final = types.Array(REAL, 5, "C")


def on_lattices() -> Loops:
    """Loops of multigrid on lattices, in the order in which a solve needs them."""
    half = (SLICES, INDICES, VECTOR)
    rows = (INDICES, types.UniTuple(INT, 5), INDICES, STARTS)
    places = (types.Array(types.int8, 2, "C"), types.Array(types.int32, 2, "C"))
    return [
        (assembly.storage_order, (INDICES, STARTS, INDICES, INDICES)),
        (vectors.gather, (*RANGE, INDICES, VECTOR, VECTOR)),
        (interpolation.take_own, (*RANGE, STARTS, AXES, BOXES)),
        (interpolation.interpolate, (*RANGE, INT, INT, STARTS, COUNTS, BOXES, AXES, AXES, BOXES)),
        (galerkin.regular_weights, (*RANGE, COUNTS, BOXES, BOXES, AXES, AXES, COUNTS, STARTS, BOXES)),
        (assembly._fill_diagonal, (*rows, MATRIX, VECTOR)),
        (assembly._take, (*RANGE, *rows, INDICES, MARKS, INDICES, INT, *places)),
        (assembly._measure, (*RANGE, *places, COUNTS, MARKS)),
        (assembly._fill, (*RANGE, INDICES, MATRIX, *places, COUNTS, MARKS, STARTS, STARTS, VECTOR, INDICES)),
        (dense.eliminate, (MATRIX, REAL)),
        (half_sweeps.half_sweep, (*RANGE, TRIPLE, FLAGS, TRIPLE, VECTOR, VECTOR, REAL, REAL, VECTOR, VECTOR, VECTOR)),
        (stencil._restrict, (*RANGE, TRIPLE, FLAGS, KINDS, TRIPLE, TRIPLE, TABLE, INDICES, VECTOR, VECTOR)),
        (stencil._prolong, (*RANGE, TRIPLE, KINDS, TRIPLE, FLAGS, TRIPLE, TABLE, VECTOR, VECTOR)),
        (stencil._spmv, (*RANGE, TRIPLE, FLAGS, VECTOR, VECTOR, VECTOR, VECTOR)),
        (sell.forward_from_zero, (*RANGE, *half, VECTOR, VECTOR)),
        (sell.upper_residual, (*RANGE, SLICES, INDICES, VECTOR, VECTOR)),
        (sell.product, (*RANGE, SLICES, INDICES, VECTOR, REAL, VECTOR)),
        (dense._product, (INDICES, MATRIX, VECTOR, VECTOR)),
        (vectors._move, (INDICES, INDICES, VECTOR, VECTOR)),
        (sell.lower_residual, (*RANGE, SLICES, INDICES, VECTOR, VECTOR, VECTOR)),
        (sell.backward_solve, (*RANGE, STARTS, *half, VECTOR, VECTOR)),
        (sell.spmv, (*RANGE, SLICES, VECTOR, VECTOR, VECTOR)),
        *_of_conjugate_gradients(),
    ]


def algebraic() -> Loops:
    """Loops of algebraic multigrid, in the order in which a solve needs them."""
    entries = (STARTS, INDICES, VECTOR)
    interpolated = (ROWS, VECTOR, INDICES, INT, INT, REAL)
    return [
        (look._look_at_rows, (*RANGE, *entries, KEYS, REAL)),
        (blocks.measure_rows, (*RANGE, INT, INT, STARTS, INDICES, INT, INT, INT, COUNTS)),
        (couplings._measure, (*RANGE, ROWS, INT, VECTOR, VECTOR, VECTOR)),
        (points._shares, (*RANGE, VECTOR, VECTOR, VECTOR)),
        (blocks.fill_rows, (*RANGE, *entries, INT, CHUNKS, WORDS, INDICES, MATRIX)),
        (csr.find_chunks, (STARTS, FLAG, CHUNKS)),
        (csr.fill_chunks, (*RANGE, STARTS, INDICES, CHUNKS, WORDS, WORDS)),
        (points._damped, (*RANGE, VECTOR, REAL, REAL, REAL, VECTOR)),
        (couplings._couple, (*RANGE, ROWS, INT, VECTOR, REAL, BYTES, STARTS)),
        (pmis._begin, (*RANGE, STARTS, STARTS, types.uint64, INT, KEYS, STATES)),
        (pmis._rank, (*RANGE, KEYS, STATES, KEYS)),
        (pmis._settle, (*RANGE, STARTS, ROWS, INT, BYTES, KEYS, STARTS, STATES, KEYS)),
        (points._count_up, (*RANGE, STATES, STARTS)),
        (points._number, (*RANGE, STATES, STARTS, INT, STARTS)),
        (points._tell, (*RANGE, STARTS, INDICES, STATES)),
        (extended_interpolation._coarse, (*RANGE, ROWS, BYTES, STATES, INT, INDICES, FLAG, *entries)),
        (points._choose, (*RANGE, STARTS, INT, COUNTS, COUNTS)),
        (couplings._most_paths, (*RANGE, STARTS, ROWS, ROWS)),
        (couplings._paths, (*RANGE, STARTS, ROWS, INT, BYTES, INDICES, ROWS, INT, INT, *entries)),
        (points._lead, (*RANGE, STARTS, VECTOR, BYTES, STARTS)),
        (points._go_through, (*RANGE, STARTS, INT, STARTS, STARTS)),
        (extended_interpolation._rename, (*RANGE, ROWS, STARTS, *entries)),
        (extended_interpolation._add_up, (*RANGE, ROWS, VECTOR)),
        (extended_interpolation._interpolate, (*RANGE, STARTS, ROWS, BYTES, STATES, INT, *interpolated, *entries)),
        (extended_interpolation._multiply, (*RANGE, ROWS, ROWS, INT, INT, *entries)),
        (products._most, (*RANGE, ROWS, ROWS)),
        (products._product, (*RANGE, ROWS, ROWS, INT, FLAG, INT, *entries)),
        (transposes.count_columns, (*RANGE, ROWS, INT)),
        (transposes.fill_mirrored, (*RANGE, STARTS, ROWS, INT, ROWS)),
        (products._largest, (*RANGE, VECTOR)),
        (products._fill_lost, (*RANGE, ROWS, INT, ROWS, VECTOR, REAL, REAL)),
        (halves._lengths, (*RANGE, ROWS, STARTS, STARTS, STARTS, STARTS)),
        (halves._copy, (*RANGE, ROWS, STARTS, INT, ROWS)),
        (csr.find_diagonal, (*RANGE, *entries, VECTOR)),
        (octets._measure, (*RANGE, STARTS, INDICES, BYTES, COUNTS)),
        (octets._fill, (*RANGE, *entries, CHUNKS, BYTES, WORDS, INDICES, VECTOR)),
        (dense.eliminate, (MATRIX, REAL)),
        (vectors.jacobi, (*RANGE, VECTOR, VECTOR, REAL, VECTOR)),
        (blocks.spmv, (*RANGE, CHUNKS, WORDS, INDICES, VECTOR, INT, VECTOR, VECTOR)),
        (csr.transfer, (*RANGE, *entries, VECTOR, REAL, VECTOR, VECTOR)),
        (octets.spmv, (*RANGE, INT, CHUNKS, BYTES, WORDS, INDICES, VECTOR, VECTOR, REAL, VECTOR, VECTOR)),
        (csr.spmv, (*RANGE, CHUNKS, WORDS, WORDS, INDICES, VECTOR, VECTOR, VECTOR, VECTOR)),
        (dense._product, (INDICES, MATRIX, VECTOR, VECTOR)),
        (vectors.jacobi_step, (*RANGE, VECTOR, VECTOR, VECTOR, VECTOR)),
        *_of_conjugate_gradients(),
    ]


def _of_conjugate_gradients() -> Loops:
    return [
        (vectors.block_dots, (*RANGE, VECTOR, VECTOR, VECTOR)),
        (vectors.in_order, (VECTOR,)),
        (vectors._waxpby, (*RANGE, REAL, VECTOR, REAL, VECTOR, VECTOR)),
        (vectors._update_p, (*RANGE, VECTOR, REAL, VECTOR)),
        (vectors._update_x_r, (*RANGE, VECTOR, VECTOR, REAL, FLAG, VECTOR, VECTOR, VECTOR)),
    ]


def _as_called(loops: Callable[[], Loops]) -> Callable[[], Loops]:
    """Loops with types of arguments as numba has them, which takes those behind the named ones for one."""

    def folded(loop: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        code = loop.py_func.__code__
        named = code.co_argcount
        starred = code.co_flags & inspect.CO_VARARGS
        return (*kinds[:named], types.BaseTuple.from_types(kinds[named:])) if starred else kinds

    return lambda: [(loop, folded(loop, kinds)) for loop, kinds in loops()]


LOOPS: Final[dict[str, Callable[[], Loops]]] = {"lattice": _as_called(on_lattices), "algebraic": _as_called(algebraic)}
"""Loops by the kinds of `first_use.KINDS`."""


def main(number: str, count: str) -> None:
    """Compile what is not in the cache."""
    FIRST_USE.alone()
    FIRST_USE.unheard()
    _compile(_as_called(_of_conjugate_gradients), int(number), int(count))
    if kind := _told():
        _compile(LOOPS[kind], int(number), int(count))


def _compile(loops: Callable[[], Loops], number: int, count: int) -> None:
    for loop, signature in loops()[::-1][number::count]:
        loop.compile(signature)


def _told() -> str:
    """The kind that is read from stdin; empty where no solve begins for a while."""
    ready, _, _ = select.select([sys.stdin], [], [], PATIENCE)
    return sys.stdin.readline().strip() if ready else ""


if __name__ == "__main__":
    main(*sys.argv[1:])
