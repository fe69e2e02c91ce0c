"""The contract's fused steps as their parts, for backends and views of them that have nothing quicker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Fused(ABC):
    """Whoever has kernels by name."""

    @abstractmethod
    def kernel(self, name: str) -> Callable[..., None]:
        """The implementation of the kernel of this name."""

    def presmooth_restrict(self, matrix: Any, transfer: Any, r: Any, x: Any, e: Any, rc: Any) -> None:
        """See `dsolver.kernels.contract.PRESMOOTH_RESTRICT`."""
        self.kernel("presmooth")(matrix, r, x, e)
        self.kernel("restrict")(matrix, transfer, r, x, e, rc)

    def prolong_postsmooth(self, matrix: Any, transfer: Any, r: Any, xc: Any, e: Any, x: Any, c: Any, w: Any) -> None:
        """See `dsolver.kernels.contract.PROLONG_POSTSMOOTH`."""
        self.kernel("prolong")(transfer, xc, c)
        self.kernel("postsmooth")(matrix, r, c, e, x, w)
