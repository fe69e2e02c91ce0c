"""Floating-point operations that the benchmark counts, whatever an implementation really does."""

from dataclasses import dataclass
from math import prod

from dsolver.benchmarks.hpcg.levels import HPCG_LEVELS
from dsolver.grid.box import Triple

REFERENCE_ITERATIONS = 50  # CG iterations of the reference phase, and the fewest that an optimized set may count


@dataclass(frozen=True, kw_only=True)
class Flops:
    """Floating-point operations by kind."""

    ddot: int
    waxpby: int
    spmv: int
    mg: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.ddot + self.waxpby + self.spmv + self.mg


def nonzeros(grid: Triple) -> int:
    """Entries of the 27-point matrix on a grid: along an axis of n points there are 3 n - 2 pairs of neighbors."""
    return prod(3 * n - 2 for n in grid)


def per_call(grid: Triple) -> Flops:
    """Operations of one dot product, one vector update, one SpMV and one V-cycle.

    The V-cycle counts two SymGS (each 4 a matrix entry) and the residual (2) on each level but the last, which has
    one SymGS.
    """
    x, y, z = grid
    entries = [nonzeros((x >> level, y >> level, z >> level)) for level in range(HPCG_LEVELS)]
    vector = 2 * prod(grid)
    return Flops(ddot=vector, waxpby=vector, spmv=2 * entries[0], mg=10 * sum(entries[:-1]) + 4 * entries[-1])


def of_sets(grid: Triple, iterations: int, sets: int = 1) -> Flops:
    """Operations of sets of CG with so many iterations each; a set begins with one residual."""
    one = per_call(grid)
    return Flops(
        ddot=(3 * iterations + 1) * sets * one.ddot,
        waxpby=(3 * iterations + 1) * sets * one.waxpby,
        spmv=(iterations + 1) * sets * one.spmv,
        mg=iterations * sets * one.mg,
    )


def raw_gflops(flops: int, seconds: float) -> float:
    """GF/s: 1e9 operations a second."""
    return flops / seconds / 1e9


def rating(grid: Triple, iterations: int, sets: int, seconds: float, setup: float, optimize: float) -> float:
    """GF/s with what the rules take off: iterations beyond 50, and a tenth of set-up and optimization a set.

    Args:
        seconds: of all sets.
        setup: seconds of the plain set-up.
        optimize: seconds of coloring, reordering and conversion.
    """
    counted = of_sets(grid, iterations, sets).total * REFERENCE_ITERATIONS / iterations
    return counted / (seconds + sets * (optimize / 10 + setup / 10)) / 1e9
