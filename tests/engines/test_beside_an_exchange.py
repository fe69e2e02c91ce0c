"""Work beside an exchange may run before what is enqueued after it: what it writes has to be there before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.engines.base import Field, Halo, Operand, PartialSums, PerChunk
from dsolver.engines.eager.engine import EagerEngine
from dsolver.kernels import load
from dsolver.kernels.contract import Kernel
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.programs import advance, start


class Watching(EagerEngine):
    """An engine that knows what was made and sent when, and looks at it before work that follows an exchange."""

    def __init__(self, spec: SolveSpec) -> None:
        super().__init__(spec.partition, load("numpy"))
        self.clock, self.looked = count(), [0]
        self.made: dict[int, tuple[int, Any]] = {}  # by identity, with what it is: nothing else gets its identity then
        self.sent: dict[int, tuple[int, Any]] = {}

    def field(self, layout: PerChunk) -> Any:
        return self._noted(super().field(layout))

    def partial_sums(self) -> Any:
        return self._noted(super().partial_sums())

    def exchange(self, x: Field | PerChunk, halo: Halo) -> None:
        self.sent[id(halo)] = next(self.clock), halo
        super().exchange(x, halo)

    def run_after(self, halo: Halo, kernel: Kernel, *operands: Operand) -> None:
        written = operands[len(kernel.reads) :]
        assert written
        for operand in written:
            assert isinstance(operand, Field | PartialSums)
            assert self.made[id(operand)][0] < self.sent[id(halo)][0], f"{kernel.name} may write before it is made"
        self.looked[0] += 1
        super().run_after(halo, kernel, *operands)

    def _noted(self, made: Any) -> Any:
        self.made[id(made)] = next(self.clock), made
        return made


def of_hpcg() -> SolveSpec:
    return SolveSpec.plan(problems.hpcg((32, 16, 16)), (2, 1, 1), "color8", Hpcg())


def of_a_grid() -> SolveSpec:
    return SolveSpec.plan(problems.diffusion((13, 12, 11), lambda x, y, z: 1.0 + x + 2.0 * y * z), (2, 1, 1))


def of_a_star() -> SolveSpec:
    return SolveSpec.plan(problems.poisson7((24, 24, 24)), (2, 1, 1))


@pytest.mark.parametrize("make", [of_hpcg, of_a_grid, of_a_star])
def test_what_work_beside_an_exchange_writes_is_made_before(make: Callable[[], SolveSpec]) -> None:
    spec = make()
    engine = Watching(spec)
    program = Solve(engine, spec)
    program.fill("x", 1.0)
    program.b_from_x()
    program.fill("x", 0.0)
    start(program)
    (sample,) = advance(program, 1)
    assert np.isfinite(sample[0])
    assert engine.looked[0], "nothing ran beside an exchange"
