"""Set-up of smoothed aggregation: what is done with rows and nodes of a level, where their arrays lie."""

from typing import Any

from dsolver.kernels.cpu.amg.aggregation import nodes, roots, smoothing, spectrum, tentative
from dsolver.kernels.cpu.loops.team import Team, of_team
from dsolver.kernels.formats.csr import Csr


class AggregationSetup:
    """Set-up of smoothed aggregation on the host. Methods are the functions of their names."""

    def __init__(self, team: Team) -> None:
        self.team = team

    # -- nodes and roots -----------------------------------------------------------------------------------------------

    strong_nodes = of_team(nodes.strong_nodes)
    words = staticmethod(roots.words)
    first_words = staticmethod(roots.first_words)
    second_words = staticmethod(roots.second_words)
    largest_around = of_team(roots.largest_around)
    decided = of_team(roots.decided)
    settled = of_team(roots.settled)
    joined = of_team(roots.joined)
    strayed = of_team(roots.strayed)
    own_roots = staticmethod(roots.own_roots)

    # -- prolongation --------------------------------------------------------------------------------------------------

    blocks_of_nodes = of_team(tentative.blocks_of_nodes)
    kept_entries = of_team(smoothing.kept_entries)
    prolongation_smoother = of_team(smoothing.prolongation_smoother)

    # -- the largest eigenvalue ----------------------------------------------------------------------------------------

    def sought(self, a: Csr, columns: int, size: int) -> Any:
        """Rows for `scaled_product` and `terms`, with so many columns; size: unknowns of a node."""
        return a

    scaled_product = of_team(spectrum.scaled_product)
    terms = of_team(spectrum.terms)
    scaled_sums = staticmethod(spectrum.scaled_sums)
