"""Division by the diagonal, and no preconditioner at all."""

from dataclasses import dataclass
from typing import ClassVar, final

from dsolver.distributed.forecast import F64, Part
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels.contract import JACOBI
from dsolver.krylov.method import ApproximateInverse
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site
from dsolver.preconditioners.builder import Builder


@final
@dataclass(frozen=True)
class Identity(Preconditioner):
    """No preconditioner: ``M=None`` or ``"none"``."""

    setup_iterations: ClassVar[float] = 4.0
    can: ClassVar[Capabilities] = Capabilities(batched=True)

    def build(self, builder: Builder) -> Built:
        """A for products alone."""
        return builder.products(), ()

    def on(self, site: Site) -> None:
        """None."""

    def forecast(self, part: Part) -> Forecast:
        """z = r is a copy."""
        a = part.products()
        return Forecast(levels=(a,), moved=2 * F64 * a.rows)


@final
@dataclass(frozen=True)
class Jacobi(Preconditioner):
    """Division by the diagonal of A: ``"jacobi"``. Worth its cost where the diagonal varies by orders of magnitude."""

    setup_iterations: ClassVar[float] = 4.0
    can: ClassVar[Capabilities] = Capabilities(batched=True, diagonal=True)

    def on(self, site: Site) -> ApproximateInverse:
        """z = D⁻¹ r."""
        return DiagonalInverse(site.engine, site.matrix.local)

    def forecast(self, part: Part) -> Forecast:
        """Bytes of r and the diagonal, which are read, and of z."""
        a = part.stored()
        return Forecast(levels=(a,), moved=3 * F64 * a.rows)


class DiagonalInverse:
    """D⁻¹ of a matrix with the diagonal D."""

    def __init__(self, engine: Engine, matrix: PerChunk) -> None:
        self._engine, self._matrix = engine, matrix

    def apply(self, r: Field, z: Field) -> None:
        """z = D⁻¹ r."""
        self._engine.run(JACOBI, self._matrix, r, 1.0, z)
