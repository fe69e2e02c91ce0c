"""Complex matrices: two real ones, in one pass where they lie in the same places, and real M on complex vectors."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, Field, Operand, PartialSums, PerChunk, Scalar
from dsolver.engines.complex import ComplexEngine
from dsolver.engines.complex_handles import ComplexField
from dsolver.kernels import Backend
from dsolver.kernels.contract import Kernel
from dsolver.kernels.general import complex_pair


class ComplexMatrix:
    """A distributed complex matrix, B + i C, on `ComplexEngine.wide`, or `ComplexEngine.real` where there is none."""

    def __init__(self, engine: ComplexEngine, re: Matrix, im: Matrix) -> None:
        self._engine, self._re, self._im = engine, re, im
        self._pair = None if engine.wide is None or re.ghost.there or im.ghost.there else _paired(engine.real, re, im)

    @property
    def one_pass(self) -> bool:
        """Whether sweeps of Jacobi take one pass: see `first` and `sweep`."""
        return self._pair is not None

    @cached_property
    def _turned(self) -> ComplexField:
        """Work space: C x."""
        return self._engine.field(self._re.layout)

    @cached_property
    def _parts(self) -> PartialSums:
        return self._engine.partial_sums()

    def multiply(self, x: Any, y: Any) -> None:
        """y = A x."""
        if self.one_pass:
            self._in_one_pass(complex_pair.COMPLEX_SPMV, x.both, y.both)
            return
        self._times(self._re, x, y)
        self._times(self._im, x, self._turned)
        self._engine.add_turned(1.0, self._turned, y)

    def residual(self, r: Any, x: Any, y: Any) -> None:
        """y = r - A x, for formats that sweeps of Jacobi are made for."""
        if self.one_pass:
            self._in_one_pass(complex_pair.COMPLEX_RESIDUAL, r.both, x.both, y.both)
            return
        if self._engine.wide is not None:
            self._re.one_pass_residual(r.both, x.both, y.both)
        else:
            self._re.one_pass_residual(r.re, x.re, y.re)
            self._re.one_pass_residual(r.im, x.im, y.im)
        self._times(self._im, x, self._turned)
        self._engine.add_turned(-1.0, self._turned, y)

    def first(self, weights: Sequence[PerChunk], r: Any, x: Any, y: Any) -> None:
        """x = (w + i wi) r and y = r - A x; weights: w and wi of every chunk."""
        self._in_one_pass(complex_pair.COMPLEX_FIRST, *weights, r.both, x.both, y.both)

    def sweep(self, weights: Sequence[PerChunk], r: Any, x: Any, z: Any) -> None:
        """z = x + (w + i wi) (r - A x)."""
        self._in_one_pass(complex_pair.COMPLEX_SWEEP, *weights, r.both, x.both, z.both)

    def multiply_dot(self, x: Field, y: Field, dot: Scalar, parts: PartialSums | None = None) -> None:
        """y = A x and dot = xᴴy."""
        self.multiply(x, y)
        self._engine.dot(x, y, self._parts if parts is None else parts, dot)

    def _in_one_pass(self, kernel: Kernel, *operands: Operand) -> None:
        assert self._pair is not None
        assert self._engine.wide is not None
        self._engine.wide.run(kernel, self._pair, *operands)

    def _times(self, matrix: Matrix, x: Any, y: Any) -> None:
        if self._engine.wide is not None:
            matrix.multiply(x.both, y.both)
        else:
            matrix.multiply(x.re, y.re)
            matrix.multiply(x.im, y.im)


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


def _paired(engine: Engine, re: Matrix, im: Matrix) -> PerChunk | None:
    """The `ComplexPair` of every chunk; None where one has none."""
    pairs = engine.per_chunk(_pair, re.local, im.local)
    alone = engine.sums(engine.per_chunk(_alone, pairs))[0]
    return None if alone else pairs


def _pair(_: Backend, __: int, re: Any, im: Any) -> complex_pair.ComplexPair | None:
    return complex_pair.complex_pair(re, im)


def _alone(_: Backend, __: int, pair: complex_pair.ComplexPair | None) -> tuple[float]:
    return (float(pair is None),)
