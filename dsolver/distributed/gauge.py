"""Another gauge of a Hermitian system: M of a matrix that stands for Dᴴ A D, as a preconditioner of A."""

from collections.abc import Callable, Sequence
from typing import Any

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.kernels.contract import COMPLEX_STEP


class InGauge:
    """D M Dᴴ on complex vectors, with D = diag(d), |d_i| = 1.

    Args:
        inner: M.
        engine: of the vectors.
        one: of a real one.
        phases: both parts of d, on `one`.
    """

    def __init__(
        self, inner: Any, engine: ComplexEngine, one: Engine, layout: PerChunk, phases: Sequence[Field]
    ) -> None:
        self.inner, self._run = inner, engine.real.run
        self._d = [in_columns(one, engine.real, layout, part) for part in phases]
        self._turned, self._found = engine.field(layout), engine.field(layout)

    def apply(self, r: Any, z: Any) -> None:
        """z = D M Dᴴ r."""
        self._in_gauge(self.inner.apply, r, z)

    def guess(self, b: Any, x: Any) -> None:
        """x = D times what M guesses for Dᴴ b, where it does guess."""
        self._in_gauge(self.inner.guess, b, x)

    def _in_gauge(self, operation: Callable[[Any, Any], object], r: Any, z: Any) -> None:
        turned, found = self._turned, self._found
        # i conj(Dᴴ r) = D (i conj(r)), and i conj exchanges the parts of a vector.
        self._run(COMPLEX_STEP, 0.0, *self._d, r.im, r.re, turned.im, turned.re)
        operation(turned, found)
        self._run(COMPLEX_STEP, 0.0, *self._d, found.re, found.im, z.re, z.im)


def in_columns(one: Engine, view: Engine, layout: PerChunk, x: Field) -> Field:
    """A vector of an engine in each column of a field of another one, which may have several."""
    if view.width == 1:
        return x
    found = view.field(layout)
    for number in range(view.width):
        one.copy(x, view.column(found, number))
    return found
