"""Parts of chunks in direct solves, with their kernels: one of them has the factors of the whole matrix."""

from dataclasses import dataclass, field
from typing import Any

from dsolver.kernels.backend import Backend
from dsolver.kernels.direct.factors import ScaledFactors
from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.layout import Array, HaloLayout


@dataclass(frozen=True, kw_only=True)
class DirectPart(Format):
    """A chunk's part. The whole vector has the chunks' rows one after the other, the first chunk's first."""

    backend: Backend = field(repr=False)
    position: Array  # int32 (rows,), storage places of the chunk's rows
    size: int  # of the vector that holds the solution: the whole one where the factors are, else one item
    gather: HaloLayout
    scatter: HaloLayout
    factors: ScaledFactors | None = None

    def direct_solve(self, r: Any, h: Any, x: Any) -> None:
        if self.factors is not None:
            found = self.factors.solve(self._whole(r, h))
            x[:] = found if self.factors.gpu else self.backend.asarray(found)

    def direct_solve_complex(self, r: Any, h: Any, ri: Any, hi: Any, x: Any, xi: Any) -> None:
        if self.factors is not None:
            found = self.factors.solve(self._whole(r, h) + 1j * self._whole(ri, hi))
            x[:], xi[:] = (self.backend.asarray(part.copy()) for part in (found.real, found.imag))

    def _whole(self, r: Any, h: Any) -> Any:
        """A right-hand side in the order of the chunks, where the factors are."""
        xp, guard = self.backend.xp, self.backend.guard
        b = xp.concatenate((r[self.position], h[guard : len(h) - guard]))
        return b if self.factors is not None and self.factors.gpu else self.backend.to_host(b)

    def direct_part(self, x: Any, h: Any, z: Any) -> None:
        rows, guard = len(self.position), self.backend.guard
        z[self.position] = h[guard : guard + rows] if self.factors is None else x[:rows]
