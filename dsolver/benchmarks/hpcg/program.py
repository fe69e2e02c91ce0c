"""Program of the benchmark on an engine: a solve, the two checks and single operations to time."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.nullspace import dots
from dsolver.engines.base import Engine, Field
from dsolver.grid.box import Box
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD, WAXPBY
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec

SEED: Final = 20
MATRIX_NORM: Final = 52.0  # twice the diagonal: the bound of A's norm that HPCG's symmetry test uses
PER_STEP: Final = {"ddot": 1, "waxpby": 2, "spmv": 2, "mg": 2}  # operations in a step of `Benchmark.repeat`
STEPS: Final = 50  # steps after which the numbers start anew: 52^100 is still finite


def scaled_diagonal(partition: Partition, backend: Backend, number: int) -> Any:
    """Block that TestCG multiplies a chunk's diagonal and b by: (id + 2) 1e6 at global rows below 9, else 1e6."""
    nx, ny, _ = partition.grid
    i, j, k = np.ogrid[partition[number].box.slices]
    row = i + nx * (j + ny * k)
    return backend.asarray(np.where(row < 9, (row + 2) * 1e6, 1e6))


def scaled_rhs(partition: Partition, backend: Backend, number: int) -> Any:
    """Block of TestCG's b: 26 - (entries of the row - 1), times what the diagonal is multiplied by."""
    plain = 27.0 - _entries(partition, partition[number].box)
    return backend.asarray(plain) * scaled_diagonal(partition, backend, number)


def random_block(partition: Partition, seed: int, backend: Backend, number: int) -> Any:
    """A chunk's random numbers in [1, 2), the same wherever and on whatever device the chunk is."""
    random = np.random.default_rng((seed, number))
    return backend.asarray(random.uniform(1.0, 2.0, partition[number].box.shape))


def _entries(partition: Partition, box: Box) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Entries of the 27-point rows of a box: 3 along each axis, one less for each end of the domain."""
    along = []
    for low, high, n in zip(box.lo, box.hi, partition.grid, strict=True):
        i = np.arange(low, high)
        along.append(3.0 - (i == 0) - (i == n - 1))
    x, y, z = along
    return x[:, None, None] * y[None, :, None] * z[None, None, :]


class Benchmark:
    """One system of the benchmark, and what is done with it."""

    def __init__(self, engine: Engine, spec: SolveSpec) -> None:
        self._engine = engine
        self._spec = spec
        self._solve = Solve(engine, spec)
        self._norm_b = 0.0
        self._operations = _operations(engine, self._solve)

    def set_rhs(self) -> float:
        """b = A 1 (scaled as TestCG wants, if the matrix is); returns ‖b‖, so it has waited for the set-up."""
        if self._spec.diagonal is not None:
            self._fill(self._solve.method.b, partial(scaled_rhs, self._spec.partition))
        else:
            self._solve.fill("x", 1.0)
            self._solve.b_from_x()
        self._norm_b = self._solve.columns.each[0].norms()[0]
        return self._norm_b

    def start(self, freeze: float = 0.0) -> float:
        """Begin at x = 0; returns ‖r0‖. Iterations change nothing any more once ‖r‖ <= freeze ‖b‖."""
        self._solve.fill("x", 0.0)
        return self._solve.columns.start({0: freeze * self._norm_b})[0]

    def advance(self, steps: int, measured: bool = False) -> list[float]:
        """‖r‖ after each of so many iterations, of which the last one may be measured."""
        return [norm for ((norm, _),) in self._solve.columns.advance(steps, measured)]

    def departures(self) -> tuple[float, float]:
        """Departures of A and M from symmetry, in units of what rounding may do. Destroys b and x."""
        cg, preconditioner = self._solve.method, self._solve.preconditioner
        assert preconditioner is not None
        x, y, work = cg.x, cg.b, cg.r
        for seed, field in enumerate((x, y), start=SEED):
            self._fill(field, partial(random_block, self._engine.partition, seed))
        bound = 2.0 * MATRIX_NORM * self._dot(x, x) * self._dot(y, y) * float(np.finfo(np.float64).eps)
        of_matrix = self._asymmetry(self._solve.operator.multiply, x, y, work)
        of_preconditioner = self._asymmetry(preconditioner.apply, x, y, work)
        return of_matrix / bound, of_preconditioner / bound

    def repeat(self, operation: str, steps: int) -> None:
        """Run so many steps of "ddot", "waxpby", "spmv" or "mg", and wait for the last. Destroys b, x and r.

        A step is `PER_STEP` operations. Each reads what the one before has written, because an engine need not compute
        what is not read; the numbers grow or shrink on the way and so start anew after `STEPS` steps.
        """
        engine, cg, parts = self._engine, self._solve.method, self._engine.partial_sums()
        for first in range(0, steps, STEPS):
            self._solve.fill("b", 1.0)
            engine.repeat(self._operations[operation], min(STEPS, steps - first), (cg.rr,))
            engine.dot(cg.b, cg.b, parts, cg.rr)
            engine.read(cg.rr)

    def _fill(self, field: Field, make: Callable[[Backend, int], Any]) -> None:
        self._engine.run(LOAD, self._solve.layout, self._engine.per_chunk(make), field)

    def _asymmetry(self, apply: Callable[[Field, Field], None], x: Field, y: Field, work: Field) -> float:
        apply(y, work)
        forward = self._dot(x, work)
        apply(x, work)
        return abs(forward - self._dot(y, work))

    def _dot(self, x: Field, y: Field) -> float:
        return dots(self._engine, self._engine.partial_sums(), (x, y))[0]


def _there_and_back(operation: Callable[[Field, Field], None], b: Field, r: Field) -> None:
    operation(b, r)
    operation(r, b)


def _operations(engine: Engine, solve: Solve) -> dict[str, Callable[[], None]]:
    """The steps to time. They hold handles but not the program, so that its end frees the memory at once."""
    cg = solve.method
    applied: dict[str, Callable[[Field, Field], None]] = {
        "waxpby": partial(engine.run, WAXPBY, 0.5, cg.x, 0.5),
        "spmv": solve.operator.multiply,
    }
    if solve.preconditioner is not None:
        applied["mg"] = solve.preconditioner.apply
    steps: dict[str, Callable[[], None]] = {
        name: partial(_there_and_back, operation, cg.b, cg.r) for name, operation in applied.items()
    }
    return steps | {"ddot": partial(engine.dot, cg.x, cg.b, engine.partial_sums(), cg.rr)}
