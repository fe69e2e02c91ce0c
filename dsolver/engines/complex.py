"""Complex vectors on an engine of real ones: a field is its real and its imaginary part, side by side where that pays.

Methods see one more engine. What they do with real numbers is done to both parts, and inner products are the real part
of xᴴy; where a method asks for `Engine.coefficient`s, those are complex, and inner products into them are xᴴy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

import numpy as np

from dsolver.engines.base import Engine, Field, Operand, PartialSums, PerChunk, Scalar
from dsolver.engines.complex_handles import PARTS, ComplexField, ComplexPerChunk, ComplexScalar, part_of, parts_of_all
from dsolver.engines.repetition import PLAIN, Repetition, Samples, Step
from dsolver.errors import check_block
from dsolver.kernels import Backend, contract
from dsolver.kernels.formats.layout import Layout

P = ParamSpec("P")
T = TypeVar("T")
HERMITIAN: Final = 1.0  # sign of the second part of a product in which x is conjugated
BILINEAR: Final = -1.0  # sign where x is not conjugated


def _of_real(method: Callable[Concatenate[Engine, P], T]) -> Callable[Concatenate[ComplexEngine, P], T]:
    """A method that asks the engine of real vectors."""
    name = method.__name__

    def asked(engine: ComplexEngine, /, *args: P.args, **options: P.kwargs) -> T:
        return getattr(engine.real, name)(*args, **options)

    return asked


class ComplexEngine(Engine):
    """Runs kernels on complex vectors, part after part, on an engine that runs them on real ones.

    `wide`: the real engine with twice as many columns, which reads matrices once for both parts; None where it has
    none.
    """

    is_complex: ClassVar[bool] = True

    def __init__(self, real: Engine) -> None:
        self.real, self.wide = real, real.batched(2 * real.width)
        self.partition = real.partition
        self._zero, self._one = real.scalar(0.0), real.scalar(1.0)

    # The same for complex vectors: halos are one part's, for matrices exchange parts, or both at once.
    place = _of_real(Engine.place)
    halo = _of_real(Engine.halo)
    partial_sums = _of_real(Engine.partial_sums)
    scalar = _of_real(Engine.scalar)
    alone = _of_real(Engine.alone)
    shared = _of_real(Engine.shared)
    exchange = _of_real(Engine.exchange)
    total = _of_real(Engine.total)
    deliver = _of_real(Engine.deliver)
    known = _of_real(Engine.known)
    partners = _of_real(Engine.partners)
    record = _of_real(Engine.record)
    forget = _of_real(Engine.forget)
    spans = _of_real(Engine.spans)
    broadcast = _of_real(Engine.broadcast)
    fetch = _of_real(Engine.fetch)
    scope = _of_real(Engine.scope)

    def per_chunk(self, make: Callable[..., Any], *operands: Operand) -> PerChunk:
        """As on every engine; of a complex vector an object is made of each part."""
        if not any(isinstance(operand, ComplexField) for operand in operands):
            return self.real.per_chunk(make, *operands)
        re, im = (self.real.per_chunk(make, *(part_of(o, part) for o in operands)) for part in PARTS)
        return ComplexPerChunk(re, im)

    def field(self, layout: PerChunk) -> ComplexField:
        if self.wide is None:
            return ComplexField(self.real.field(layout), self.real.field(layout), None)
        return self.of_wide(self.wide.field(layout))

    def of_wide(self, both: Field) -> ComplexField:
        """A field of `wide` as a complex vector."""
        wide, width = self.wide, self.width
        assert wide is not None
        if width == 1:
            return ComplexField(wide.column(both, 0), wide.column(both, 1), both)
        return ComplexField(wide.columns(both, 0, width), wide.columns(both, width, 2 * width), both)

    @property
    def width(self) -> int:
        return self.real.width

    def batched(self, width: int) -> ComplexEngine | None:
        real = self.real.batched(width)
        return None if real is None else ComplexEngine(real)

    @property
    def by_parts(self) -> ComplexEngine:
        """This engine without `wide`, for fields whose parts do not lie side by side."""
        made = copy(self)
        made.wide = None
        return made

    def column(self, x: Field, number: int) -> ComplexField:
        assert isinstance(x, ComplexField)
        return ComplexField(self.real.column(x.re, number), self.real.column(x.im, number), None)

    def column_of(self, x: Scalar, number: int) -> Scalar:
        if isinstance(x, ComplexScalar):
            return ComplexScalar(self.real.column_of(x.re, number), self.real.column_of(x.im, number))
        return self.real.column_of(x, number)

    def coefficient(self) -> ComplexScalar:
        re, im = self.real.scalar(0.0), self.real.scalar(0.0)
        return ComplexScalar(re, im, (self.real.partial_sums_of(re), self.real.partial_sums_of(im)))

    def lowered(self, dtype: str) -> ComplexEngine:
        return ComplexEngine(self.real.lowered(dtype))

    @property
    def kernels(self) -> str:
        return self.real.kernels

    @property
    def hosts(self) -> Sequence[int]:
        return self.real.hosts

    def run(self, kernel: contract.Kernel, *operands: Operand) -> None:
        """As on every engine; numbers may be complex in updates of vectors."""
        if kernel is contract.AXPBY and any(isinstance(operand, ComplexScalar) for operand in operands):
            self._axpby(*operands)
        elif kernel is contract.WAXPBY and any(isinstance(operand, complex) for operand in operands):
            self._waxpby(*operands)
        elif kernel is contract.DOT:
            x, y, parts = operands
            self._dot_plus(x, y, HERMITIAN, parts)
        else:
            for part in PARTS:
                self.real.run(kernel, *(part_of(operand, part) for operand in operands))
            if kernel is contract.UPDATE_X_R:
                *_, r, parts = operands
                self._dot_plus(r, r, HERMITIAN, parts)

    def dot(self, x: Field, y: Field, parts: PartialSums, out: Scalar) -> None:
        """out = xᴴy, or the real part of it where out is real."""
        self._product(x, y, parts, out, HERMITIAN)

    def bilinear(self, x: Field, y: Field, parts: PartialSums, out: Scalar) -> None:
        self._product(x, y, parts, out, BILINEAR)

    def advance(self, a: Any, one: Scalar, p: Any, ap: Any, x: Any, r: Any, rr: tuple[PartialSums, Scalar]) -> None:
        """As on every engine, of a complex number a."""
        parts, out = rr
        fields = (part for field in (p, ap, x, r) for part in (field.re, field.im))
        self.real.run(contract.COMPLEX_UPDATE_X_R, *self._parts_of(a), *fields, parts)
        self.real.total(parts, out)

    def calculate(self, kernel: contract.Kernel, *scalars: Scalar) -> None:
        """As on every engine; a quotient is complex where what it becomes is so."""
        *factors, rr, limit, ceiling, out = scalars
        if kernel is not contract.QUOTIENT or not isinstance(out, ComplexScalar):
            self.real.calculate(kernel, *scalars)
            return
        parts = [part for factor in factors for part in self._parts_of(factor)]
        self.real.calculate(contract.COMPLEX_QUOTIENT, *parts, rr, limit, ceiling, out.re, out.im)

    def assign(self, out: Scalar, value: Scalar) -> None:
        for target, source in zip(self._parts_of(out), self._parts_of(value), strict=isinstance(out, ComplexScalar)):
            self.real.assign(target, source)

    def set(self, out: Scalar, value: complex) -> None:
        if isinstance(out, ComplexScalar):
            self.real.set(out.re, value.real)
            self.real.set(out.im, value.imag)
        else:
            self.real.set(out, value.real)

    def read(self, *scalars: Scalar) -> tuple[float, ...]:
        """The values of scalars, two numbers of each complex one."""
        return self.real.read(*parts_of_all(scalars))

    def repeat(self, step: Step, times: int, watch: Sequence[Scalar], how: Repetition = PLAIN) -> Samples:
        return self.real.repeat(step, times, parts_of_all(watch), how)

    def add_turned(self, sign: float, x: Any, y: Any) -> None:
        """y += sign i x."""
        zero, one = self._zero, self._one
        self.real.run(contract.COMPLEX_AXPBY, sign, zero, one, x.re, x.im, one, zero, y.re, y.im)

    def load(self, blocks: Mapping[int, Any], layout: PerChunk, out: Field) -> None:
        assert isinstance(out, ComplexField)
        placed = self.real.place(blocks)
        self.run(
            contract.LOAD, layout, ComplexPerChunk(*(self.real.per_chunk(take, placed) for take in (_real, _imag))), out
        )

    def unload(self, x: Field, layout: PerChunk) -> Mapping[int, Any]:
        assert isinstance(x, ComplexField)
        return self.real.fetch(self.real.per_chunk(_joined, layout, x.re, x.im))

    def expect_on_host(self, dtype: str | None = None) -> None:
        self.real.expect_on_host(dtype or "complex128")

    def on_host(self, blocks: Mapping[int, Any], room: Any = None) -> Mapping[int, Any]:
        return self.real.on_host(blocks, room)

    def _parts_of(self, scalar: Scalar) -> tuple[Scalar, Scalar]:
        return (scalar.re, scalar.im) if isinstance(scalar, ComplexScalar) else (scalar, self._zero)

    def _product(self, x: Any, y: Any, parts: PartialSums, out: Scalar, sign: float) -> None:
        """out = xᴴy or xᵀy, as the sign says, or the real part of it where out is real."""
        if not isinstance(out, ComplexScalar):
            self._dot_plus(x, y, sign, parts)
            self.real.total(parts, out)
            return
        assert out.sums is not None
        self.real.run(contract.COMPLEX_DOT, x.re, x.im, sign, y.re, y.im, *out.sums)
        for own, part in zip(out.sums, (out.re, out.im), strict=True):
            self.real.total(own, part)

    def _dot_plus(self, x: Any, y: Any, sign: float, parts: Any) -> None:
        """Parts of Re xᴴy or Re xᵀy."""
        self.real.run(contract.DOT_PLUS, x.re, y.re, sign, x.im, y.im, parts)

    def _axpby(self, sign: Any, a: Any, x: Any, b: Any, y: Any) -> None:
        self.real.run(contract.COMPLEX_AXPBY, sign, *self._parts_of(a), x.re, x.im, *self._parts_of(b), y.re, y.im)

    def _waxpby(self, a: Any, x: Any, b: Any, y: Any, w: Any) -> None:
        """w = a x + b y with complex numbers of the host: seldom, and so by real ones."""
        if w is not x or a != 1.0:
            raise NotImplementedError("complex numbers are for w = w + b y")
        for out, factor, part in (
            (w.re, b.real, y.re),
            (w.re, -b.imag, y.im),
            (w.im, b.real, y.im),
            (w.im, b.imag, y.re),
        ):
            self.real.run(contract.WAXPBY, 1.0, out, factor, part, out)


def _real(backend: Backend, _: int, block: Any) -> Any:
    check_block(block, "fiubc")
    return backend.asarray(block.real)


def _imag(backend: Backend, _: int, block: Any) -> Any:
    made = backend.asarray(block.imag)
    backend.synchronize()  # whose the block is may free it as soon as it is loaded
    return made


def _joined(backend: Backend, _: int, layout: Layout, re: Any, im: Any) -> Any:
    """A complex block (nx, ny, nz)."""
    made = backend.xp.empty((*layout.shape, 2))
    for number, part in enumerate((re, im)):
        made[..., number] = backend.vectors.unload(layout, part)
    return made.view(np.complex128)[..., 0]
