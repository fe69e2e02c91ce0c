"""Options of a run of the benchmark."""

import math
from dataclasses import dataclass
from typing import final

from dsolver import problems
from dsolver.benchmarks.hpcg.preconditioner import Hpcg
from dsolver.errors import InputError
from dsolver.grid.box import Triple
from dsolver.grid.coloring import BEST_CLASSES, Order
from dsolver.program.spec import SolveSpec

COLOR8 = Order(BEST_CLASSES)  # the order of the smoother where none is asked for: eight colors


@final
@dataclass(frozen=True, kw_only=True)
class HpcgOptions:
    """Options of a run. InputError: a value cannot be right."""

    grid: Triple = (104, 104, 104)
    chunks: Triple | None = None
    order: Order = COLOR8
    seconds: float = 10.0  # how long the timed sets should take together; at least one set is run
    iterations: int | None = None  # run exactly so many iterations and nothing else; None for the whole procedure
    precond_dtype: str = "float64"  # the value type of multigrid in the wanted order. With "float32" no run is valid.

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0.0):
            raise InputError(f"the time for the sets must be a number of seconds, 0 or more, not {self.seconds}")
        if self.iterations is not None and self.iterations < 1:
            raise InputError(f"{self.iterations} iterations: ask for at least 1")
        SolveSpec.plan(problems.hpcg(self.grid), self.chunks or (1, 1, 1), self.order, Hpcg())
