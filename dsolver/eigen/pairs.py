"""Eigenpairs: the results of `dsolver.eigsh`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from dsolver.monitor.pages.notebook import table, view
from dsolver.status import Status
from dsolver.units import counted


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Eigenpairs:
    """Eigenvalues and vectors; ``w, v = dsolver.eigsh(...)`` unpacks them, as SciPy returns them.

    Attributes:
        values: λ, float64 (k,), ascending.
        vectors: (n, k) of a matrix, each a column; of a grid (nx, ny, nz, k). xᵀBy is 1 of one and 0 of two of them.
        residuals: ‖A x - λ B x‖₂ of each, computed anew from x.
        limits: what each should become: tol |λ| ‖B x‖₂, or what rounding leaves.
        status: how the search ended.
        iterations: that were made.
        timings: seconds of "setup", "search" and "total".
        engine: the engine, device and number of workers that ran it.
        solved_by: the method and the preconditioner.
        notes: what went another way than asked for, in sentences; empty as a rule.
    """

    values: npt.NDArray[np.float64]
    vectors: Any
    residuals: npt.NDArray[np.float64]
    limits: npt.NDArray[np.float64]
    status: Status
    iterations: int
    timings: Mapping[str, float]
    engine: str
    solved_by: str
    notes: tuple[str, ...] = ()

    @property
    def converged(self) -> bool:
        """Whether all residuals are within their limits."""
        return self.status.converged

    @property
    def distance(self) -> float:
        """The largest residual over its limit; known null vectors, of which both are 0, have none."""
        there = self.limits > 0.0
        return float((self.residuals[there] / self.limits[there]).max(initial=0.0))

    def moved(self, shift: float) -> Self:
        """Pairs of A + shift B, which has the same vectors."""
        return replace(self, values=self.values + shift)

    def __iter__(self) -> Iterator[Any]:
        """The values, then the vectors."""
        return iter((self.values, self.vectors))

    def __getitem__(self, index: int) -> Any:
        return (self.values, self.vectors)[index]

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.6g}" for value in self.values[:6])
        more = ", ..." if len(self.values) > 6 else ""
        return f"<Eigenpairs {self.status}: {shown}{more}; {counted(self.iterations, 'iteration')} of {self.solved_by}>"

    def _repr_html_(self) -> str:
        rows = [
            (number, f"{value:.10g}", f"{residual:.1e}", f"{limit:.1e}")
            for number, (value, residual, limit) in enumerate(
                zip(self.values, self.residuals, self.limits, strict=True)
            )
        ]
        title = f"Eigenpairs, {self.status}: {counted(self.iterations, 'iteration')} of {self.solved_by}"
        return view(title, table(("", "λ", "‖A x - λ B x‖", "limit"), rows))
