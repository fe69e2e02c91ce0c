"""Set-up of smoothed aggregation on a GPU."""

from __future__ import annotations

from typing import final

from dsolver.kernels.cpu.amg.aggregation.setup import AggregationSetup
from dsolver.kernels.cuda.amg.aggregation.nodes import strong_nodes
from dsolver.kernels.cuda.amg.aggregation.roots import (
    decided,
    first_words,
    joined,
    largest_around,
    own_roots,
    second_words,
    settled,
    strayed,
    words,
)
from dsolver.kernels.cuda.amg.aggregation.smoothing import kept_entries, prolongation_smoother
from dsolver.kernels.cuda.amg.aggregation.spectrum import scaled_product, scaled_sums, sought, terms
from dsolver.kernels.cuda.amg.aggregation.tentative import blocks_of_nodes


@final
class CudaAggregation(AggregationSetup):
    """Set-up of smoothed aggregation on the device: the bits of the host's loops."""

    # -- nodes and roots -----------------------------------------------------------------------------------------------

    strong_nodes = staticmethod(strong_nodes)
    words = staticmethod(words)
    first_words = staticmethod(first_words)
    second_words = staticmethod(second_words)
    largest_around = staticmethod(largest_around)
    decided = staticmethod(decided)
    settled = staticmethod(settled)
    joined = staticmethod(joined)
    strayed = staticmethod(strayed)
    own_roots = staticmethod(own_roots)

    # -- prolongation --------------------------------------------------------------------------------------------------

    blocks_of_nodes = staticmethod(blocks_of_nodes)
    kept_entries = staticmethod(kept_entries)
    prolongation_smoother = staticmethod(prolongation_smoother)

    # -- the largest eigenvalue ----------------------------------------------------------------------------------------

    sought = staticmethod(sought)
    scaled_product = staticmethod(scaled_product)
    terms = staticmethod(terms)
    scaled_sums = staticmethod(scaled_sums)
