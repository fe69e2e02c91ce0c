"""Set-up of sweeps over the rows of any sparse matrix: which rows read each other, their colors, and factors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dsolver.kernels.colorings import graph, independent_sets, row_order
from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.cpu.csr import incomplete
from dsolver.kernels.cpu.csr.incomplete import Factors
from dsolver.kernels.formats.csr import Csr


class SweepSetup:
    """Set-up of sweeps on the host. Methods are what the functions of their names are there.

    Attributes:
        xp: the array module of what it takes and makes.
    """

    xp: ClassVar[Any] = np

    def graph_of(self, a: Csr) -> Graph:
        """See `graph.graph_of`."""
        return graph.graph_of(a)

    def rows_of(self, of: Graph) -> Any:
        """See `Graph.rows`."""
        return of.rows

    def first_fit(self, of: Graph) -> Any:
        """See `row_order.first_fit`."""
        return row_order.first_fit(of)

    def levels(self, of: Graph, block: int) -> Any:
        """See `row_order.levels_inside`."""
        return row_order.levels_inside(of, block)

    def sets(self, of: Graph, keys: Any, *, smallest: bool) -> Any:
        """See `independent_sets.sets`."""
        return independent_sets.sets(of, keys, smallest=smallest)

    def sweep_factors(self, a: Csr, color: Any) -> Factors:
        """See `incomplete.sweep_factors`."""
        return incomplete.sweep_factors(a, color)

    def incomplete_factors(self, a: Csr, color: Any, *, shift: float = 0.0, positive: bool = False) -> Factors:
        """See `incomplete.incomplete_factors`."""
        return incomplete.incomplete_factors(a, color, shift=shift, positive=positive)
