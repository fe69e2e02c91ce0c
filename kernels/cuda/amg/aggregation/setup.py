"""Set-up of smoothed aggregation on a GPU."""

from dsolver.kernels.amg import with_functions_of
from dsolver.kernels.cpu.amg.aggregation.setup import AggregationSetup
from dsolver.kernels.cuda.amg.aggregation import nodes, roots, smoothing, spectrum, tentative


@with_functions_of(nodes, roots, smoothing, spectrum, tentative)
class CudaAggregation(AggregationSetup):
    """Set-up of smoothed aggregation on the device: the bits of the host's loops."""
