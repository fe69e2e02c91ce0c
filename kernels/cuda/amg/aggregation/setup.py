"""Set-up of smoothed aggregation on a GPU."""

from __future__ import annotations

from typing import final

from dsolver.kernels.cpu.amg.aggregation.setup import AggregationSetup
from dsolver.kernels.cuda.amg.aggregation import nodes, roots, smoothing, spectrum, tentative


@final
class CudaAggregation(AggregationSetup):
    """Set-up of smoothed aggregation on the device: the bits of the host's loops."""

    # -- nodes and roots -----------------------------------------------------------------------------------------------

    strong_nodes = staticmethod(nodes.strong_nodes)
    words = staticmethod(roots.words)
    first_words = staticmethod(roots.first_words)
    second_words = staticmethod(roots.second_words)
    largest_around = staticmethod(roots.largest_around)
    decided = staticmethod(roots.decided)
    settled = staticmethod(roots.settled)
    joined = staticmethod(roots.joined)
    strayed = staticmethod(roots.strayed)
    own_roots = staticmethod(roots.own_roots)

    # -- prolongation --------------------------------------------------------------------------------------------------

    blocks_of_nodes = staticmethod(tentative.blocks_of_nodes)
    kept_entries = staticmethod(smoothing.kept_entries)
    prolongation_smoother = staticmethod(smoothing.prolongation_smoother)

    # -- the largest eigenvalue ----------------------------------------------------------------------------------------

    sought = staticmethod(spectrum.sought)
    scaled_product = staticmethod(spectrum.scaled_product)
    terms = staticmethod(spectrum.terms)
    scaled_sums = staticmethod(spectrum.scaled_sums)
