"""Set-up of smoothed aggregation: what is done with rows and nodes of a level, where their arrays lie."""

from __future__ import annotations

from typing import Any

from dsolver.kernels.cpu.amg.aggregation import nodes, roots, smoothing, spectrum, tentative
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr


class AggregationSetup:
    """Set-up of smoothed aggregation on the host. Methods are what the functions of their names are there.

    Args:
        team: shares the loops; the number of its threads changes no bit.
    """

    def __init__(self, team: Team) -> None:
        self.team = team

    # -- nodes and roots -----------------------------------------------------------------------------------------------

    def strong_nodes(self, a: Csr, below: int, scale: Any, size: int, node: Any, count: int, theta: float) -> Csr:
        """See `nodes.strong_nodes`."""
        return nodes.strong_nodes(a, below, scale, size, node, count, theta, self.team)

    def words(self, origin: Any, level: int) -> Any:
        """See `roots.words`."""
        return roots.words(origin, level)

    def first_words(self, graph: Csr, origin: Any, level: int) -> Any:
        """See `roots.first_words`."""
        return roots.first_words(graph, origin, level)

    def second_words(self, graph: Csr, below: int, found: Any, origin: Any, level: int) -> tuple[Any, Any]:
        """See `roots.second_words`."""
        return roots.second_words(graph, below, found, origin, level)

    def largest_around(self, graph: Csr, below: int, values: Any, open_: Any) -> Any:
        """See `roots.largest_around`."""
        return roots.largest_around(graph, below, values, open_, self.team)

    def decided(self, graph: Csr, below: int, own: Any, near: Any, open_: Any) -> tuple[Any, Any]:
        """See `roots.decided`."""
        return roots.decided(graph, below, own, near, open_, self.team)

    def settled(self, graph: Csr, own: Any, open_: Any) -> Any:
        """See `roots.settled`."""
        return roots.settled(graph, own, open_, self.team)

    def joined(self, graph: Csr, below: int, states: Any, numbers: Any, open_: Any, before: Any) -> Any:
        """See `roots.joined`."""
        return roots.joined(graph, below, states, numbers, open_, before, self.team)

    def strayed(self, graph: Csr, below: int, found: Any) -> Any:
        """See `roots.strayed`."""
        return roots.strayed(graph, below, found, self.team)

    def own_roots(self, led: Any, first: int) -> tuple[Any, Any, int]:
        """See `roots.own_roots`."""
        return roots.own_roots(led, first)

    # -- prolongation --------------------------------------------------------------------------------------------------

    def blocks_of_nodes(self, start: Any, order: Any, near: Any, vectors: int) -> tuple[Any, Any]:
        """See `tentative.blocks_of_nodes`."""
        return tentative.blocks_of_nodes(start, order, near, vectors, self.team)

    def kept_entries(self, a: Csr, below: int, graph: Csr) -> Any:
        """See `smoothing.kept_entries`."""
        return smoothing.kept_entries(a, below, graph, self.team)

    def prolongation_smoother(self, a: Csr, below: int, keep: Any, near: Any, damping: Any, diagonal: Any) -> Csr:
        """See `smoothing.prolongation_smoother`."""
        return smoothing.prolongation_smoother(a, below, keep, near, damping, diagonal, self.team)

    # -- the largest eigenvalue ----------------------------------------------------------------------------------------

    def sought(self, a: Csr, columns: int, size: int) -> Any:
        """Rows for `scaled_product` and `terms`, with so many columns; size: unknowns of a node."""
        return a

    def scaled_product(self, a: Any, diagonal: Any, x: Any) -> Any:
        """See `spectrum.scaled_product`."""
        return spectrum.scaled_product(a, diagonal, x, self.team)

    def terms(self, a: Any, below: int, diagonal: Any, x: Any) -> tuple[Any, tuple[float, float]]:
        """See `spectrum.terms`."""
        return spectrum.terms(a, below, diagonal, x, self.team)

    def scaled_sums(self, made: Any, shifts: tuple[int, int]) -> tuple[float, float]:
        """See `spectrum.scaled_sums`."""
        return spectrum.scaled_sums(made, shifts)
