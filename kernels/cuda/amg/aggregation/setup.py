"""Set-up of smoothed aggregation on a GPU."""

from __future__ import annotations

from typing import Any, final

from dsolver.kernels.cpu.amg.aggregation.setup import AggregationSetup
from dsolver.kernels.cuda.amg.aggregation import nodes, roots, smoothing, spectrum, tentative
from dsolver.kernels.formats.csr import Csr


@final
class CudaAggregation(AggregationSetup):
    """Set-up of smoothed aggregation on the device: the bits of the host's loops."""

    # -- nodes and roots -----------------------------------------------------------------------------------------------

    def strong_nodes(self, a: Csr, below: int, scale: Any, size: int, node: Any, nodes_: int, theta: float) -> Csr:
        return nodes.strong_nodes(a, below, scale, size, node, nodes_, theta)

    def words(self, origin: Any, level: int) -> Any:
        return roots.words(origin, level)

    def first_words(self, graph: Csr, origin: Any, level: int) -> Any:
        return roots.first_words(graph, origin, level)

    def second_words(self, graph: Csr, below: int, found: Any, origin: Any, level: int) -> tuple[Any, Any]:
        return roots.second_words(graph, below, found, origin, level)

    def largest_around(self, graph: Csr, below: int, values: Any, open_: Any) -> Any:
        return roots.largest_around(graph, below, values, open_)

    def decided(self, graph: Csr, below: int, own: Any, near: Any, open_: Any) -> tuple[Any, Any]:
        return roots.decided(graph, below, own, near, open_)

    def settled(self, graph: Csr, own: Any, open_: Any) -> Any:
        return roots.settled(graph, own, open_)

    def joined(self, graph: Csr, below: int, states: Any, numbers: Any, open_: Any, before: Any) -> Any:
        return roots.joined(graph, below, states, numbers, open_, before)

    def strayed(self, graph: Csr, below: int, found: Any) -> Any:
        return roots.strayed(graph, below, found)

    def own_roots(self, led: Any, first: int) -> tuple[Any, Any, int]:
        return roots.own_roots(led, first)

    # -- prolongation --------------------------------------------------------------------------------------------------

    def blocks_of_nodes(self, start: Any, order: Any, near: Any, vectors: int) -> tuple[Any, Any]:
        return tentative.blocks_of_nodes(start, order, near, vectors)

    def kept_entries(self, a: Csr, below: int, graph: Csr) -> Any:
        return smoothing.kept_entries(a, below, graph)

    def prolongation_smoother(self, a: Csr, below: int, keep: Any, near: Any, damping: Any, diagonal: Any) -> Csr:
        return smoothing.prolongation_smoother(a, below, keep, near, damping, diagonal)

    # -- the largest eigenvalue ----------------------------------------------------------------------------------------

    def sought(self, a: Csr, columns: int, size: int) -> Any:
        return spectrum.sought(a, columns, size)

    def scaled_product(self, a: Any, diagonal: Any, x: Any) -> Any:
        return spectrum.scaled_product(a, diagonal, x)

    def terms(self, a: Any, below: int, diagonal: Any, x: Any) -> tuple[Any, tuple[float, float]]:
        return spectrum.terms(a, below, diagonal, x)

    def scaled_sums(self, made: Any, shifts: tuple[int, int]) -> tuple[float, float]:
        return spectrum.scaled_sums(made, shifts)
