"""Set-up of sweeps over the rows of any sparse matrix on the host."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np

from dsolver.kernels.colorings.factors import Factors
from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.colorings.setup import SweepSetup
from dsolver.kernels.cpu.colorings import colors, factors
from dsolver.kernels.formats.csr import Csr


@final
class HostSweeps(SweepSetup):
    """Set-up of sweeps by compiled loops over one row after the other."""

    xp: ClassVar[Any] = np

    def graph_of(self, a: Csr) -> Graph:
        return colors.graph_of(a)

    def rows_of(self, graph: Graph) -> Any:
        return colors.rows_of(graph)

    def first_fit(self, graph: Graph) -> Any:
        return colors.first_fit(graph)

    def levels(self, graph: Graph, block: int) -> Any:
        return colors.levels_inside(graph, block)

    def sets(self, graph: Graph, keys: Any, *, smallest: bool) -> Any:
        return colors.sets(graph, keys, smallest=smallest)

    def sweep_factors(self, a: Csr, color: Any) -> Factors:
        return factors.sweep_factors(a, color)

    def incomplete_factors(self, a: Csr, color: Any, *, shift: float = 0.0, positive: bool = False) -> Factors:
        return factors.incomplete_factors(a, color, shift=shift, positive=positive)
