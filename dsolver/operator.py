"""What ``A x`` means on chunks: exchange, inner, boundary. Written once, for every engine."""

from __future__ import annotations

from typing import final

from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.kernels.contract import ADD_HALO_DOT, SPMV, SPMV_DOT, SPMV_HALO, TIMES_HALO_DOT


@final
class Operator:
    """The matrix of one level.

    Args:
        engine: runs the kernels.
        level: the `ChunkLevel` of every chunk.
    """

    def __init__(self, engine: Engine, level: PerChunk) -> None:
        self._engine = engine
        self._matrix = level.at("matrix")
        self._halo_matrix = level.at("halo_matrix")
        self._halo = engine.halo(level.at("halo"))
        self._parts = engine.parts()
        if engine.coupled:  # what the boundary rows' products with the halo add to y and to x . y
            self._product = engine.field(level.at("halo_matrix")), engine.parts()

    def apply(self, x: Field, y: Field) -> None:
        """y = A x. The inner product runs on all rows while the halo travels; the boundary rows add the rest."""
        run, coupled = self._engine.run, self._engine.coupled
        if coupled:
            self._engine.exchange(x, self._halo)
        run(SPMV, self._matrix, x, y)
        if coupled:
            run(SPMV_HALO, self._halo_matrix, self._halo, y)

    def apply_dot(self, x: Field, y: Field, dot: Scalar) -> None:
        """y = A x and dot = x . y, in the same pass over the matrix.

        The boundary rows' products with the halo are worked out beside the inner rows, as soon as it has come.
        """
        run, coupled = self._engine.run, self._engine.coupled
        if coupled:
            self._engine.exchange(x, self._halo)
            self._engine.behind(self._halo, TIMES_HALO_DOT, self._halo_matrix, self._halo, x, *self._product)
        run(SPMV_DOT, self._matrix, x, y, self._parts)
        if coupled:
            run(ADD_HALO_DOT, self._halo_matrix, *self._product, y, self._parts)
        self._engine.total(self._parts, dot)
