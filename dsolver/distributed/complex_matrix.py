"""Complex matrices: two real ones in the same places, and real matrices and preconditioners on complex vectors."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Field, PartialSums, Scalar
from dsolver.engines.complex import ComplexEngine
from dsolver.engines.complex_handles import ComplexField


@final
class ComplexMatrix:
    """A distributed complex matrix, B + i C, on `ComplexEngine.wide`, or `ComplexEngine.real` where there is none."""

    def __init__(self, engine: ComplexEngine, re: Matrix, im: Matrix) -> None:
        self._engine, self._re, self._im = engine, re, im

    @cached_property
    def _turned(self) -> ComplexField:
        """Work space: C x."""
        return self._engine.field(self._re.layout)

    @cached_property
    def _parts(self) -> PartialSums:
        return self._engine.partial_sums()

    def multiply(self, x: Any, y: Any) -> None:
        """y = A x."""
        self._times(self._re, x, y)
        self._times(self._im, x, self._turned)
        self._engine.add_turned(1.0, self._turned, y)

    def residual(self, r: Any, x: Any, y: Any) -> None:
        """y = r - A x, for formats that sweeps of Jacobi are made for."""
        if self._engine.wide is not None:
            self._re.one_pass_residual(r.both, x.both, y.both)
        else:
            self._re.one_pass_residual(r.re, x.re, y.re)
            self._re.one_pass_residual(r.im, x.im, y.im)
        self._times(self._im, x, self._turned)
        self._engine.add_turned(-1.0, self._turned, y)

    def multiply_dot(self, x: Field, y: Field, dot: Scalar, parts: PartialSums | None = None) -> None:
        """y = A x and dot = xᴴy."""
        self.multiply(x, y)
        self._engine.dot(x, y, self._parts if parts is None else parts, dot)

    def _times(self, matrix: Matrix, x: Any, y: Any) -> None:
        if self._engine.wide is not None:
            matrix.multiply(x.both, y.both)
        else:
            matrix.multiply(x.re, y.re)
            matrix.multiply(x.im, y.im)


@final
class OnBothParts:
    """A real M, applied to both parts of complex vectors; at once where it is on `ComplexEngine.wide`."""

    def __init__(self, inner: Any, *, wide: bool) -> None:
        self.inner, self._wide = inner, wide

    def apply(self, r: Any, z: Any) -> None:
        """z = M r."""
        if self._wide:
            self.inner.apply(r.both, z.both)
        else:
            self.inner.apply(r.re, z.re)
            self.inner.apply(r.im, z.im)

    def guess(self, b: Any, x: Any) -> None:
        """x = what M guesses for b, where it does guess."""
        if self._wide:
            self.inner.guess(b.both, x.both)
        else:
            self.inner.guess(b.re, x.re)
            self.inner.guess(b.im, x.im)
