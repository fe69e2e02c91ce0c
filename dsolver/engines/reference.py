"""The serial engine: every chunk in this process, one after the other."""

from __future__ import annotations

from typing import final

from dsolver import kernels as backends
from dsolver.engines.eager import EagerEngine
from dsolver.partition import Partition


@final
class ReferenceEngine(EagerEngine):
    """What the other engines must agree with, to the bit when they run the same kernels.

    Args:
        partition: the chunks of the finest level.
        kernels: the backend's name; "numpy" makes it the specification.
    """

    def __init__(self, partition: Partition, kernels: str) -> None:
        super().__init__(partition, backends.load(kernels))
