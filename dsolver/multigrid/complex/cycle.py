"""The cycle of a complex hierarchy: the levels of a real one, each with an imaginary part beside its matrix."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from dsolver.distributed.complex_matrix import ComplexMatrix
from dsolver.distributed.gauge import in_columns
from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.engines.complex_handles import ComplexField
from dsolver.kernels.contract import COMPLEX_STEP, DENSE_SOLVE, WAXPBY
from dsolver.multigrid.coarse_solve import Coarsest
from dsolver.multigrid.correction import Correction, StoredTransfer
from dsolver.multigrid.cycle import MultigridCycle
from dsolver.multigrid.level import ComplexPart, Level, Step

FIRST: Final = 0.0  # part of x that a sweep from zero keeps


class ComplexCycle:
    """V(1,1) on complex vectors, with sweeps of Jacobi; z = M r with M = Mᵀ.

    Args:
        engine: of the finest level's vectors.
        levels: with `Level.complex_part`s.
        parts: the `ChunkMatrix` of every chunk of both parts of A, and their senders, as of `Matrix`.
        sweeps: before and after, on the finest level.
    """

    def __init__(
        self, engine: ComplexEngine, levels: Sequence[Level], parts: Sequence[tuple[PerChunk, Any]], sweeps: int = 1
    ) -> None:
        engines = [engine, *(_complex(level.engine, engine.width) for level in levels[1:])]
        each = list(zip(engines, levels, strict=True))
        steps: list[Step] = []
        for number, ((on, fine), (below, coarse)) in enumerate(pairwise(each)):
            matrix = _matrix(on, fine, () if number else parts)
            smoother = ComplexJacobi(on, fine, matrix, 1 if number else sweeps)
            steps.append(ComplexStep(on, fine, below, coarse, smoother, finest=not number))
        self._cycle = MultigridCycle(steps, _coarsest(*each[-1], () if steps else parts))

    def apply(self, r: Field, z: Field) -> None:
        """z = M r."""
        self._cycle.apply(r, z)

    def guess(self, b: Field, x: Field) -> None:
        """x = M b."""
        self._cycle.apply(b, x)


class ComplexJacobi:
    """Sweeps x = x + D⁻¹ (r - A x) with a complex diagonal D: that of A, times real factors that damp."""

    def __init__(self, engine: ComplexEngine, level: Level, matrix: ComplexMatrix, sweeps: int = 1) -> None:
        self._engine, self._a, self._sweeps = engine.real, matrix, sweeps
        self._y = engine.field(level.layout)
        assert level.complex_part is not None
        one, self._each = level.engine, [level.complex_part.weights.at(n) for n in range(2)]
        self._weights = [in_columns(one, engine.real, level.layout, one.field_of(each)) for each in self._each]

    def before(self, r: Any, x: Any) -> ComplexField:
        """Sweeps from x = 0. Returns r - A x."""
        if self._a.one_pass and self._sweeps == 1:
            self._a.first(self._each, r, x, self._y)
            return self._y
        self._step(FIRST, r, x)
        for _ in range(self._sweeps - 1):
            self._sweep(r, x)
        self._a.residual(r, x, self._y)
        return self._y

    def corrected(self, x: Any) -> Any:
        """The vector in which `after` finds x."""
        return self._y if self._a.one_pass and self._sweeps % 2 else x

    def after(self, r: Any, x: Any) -> None:
        """Sweeps from what is in `corrected(x)`, to x."""
        if not self._a.one_pass:
            for _ in range(self._sweeps):
                self._sweep(r, x)
            return
        here, there = self.corrected(x), x if self.corrected(x) is not x else self._y
        for _ in range(self._sweeps):
            self._a.sweep(self._each, r, here, there)
            here, there = there, here

    def _sweep(self, r: Any, x: Any) -> None:
        self._a.residual(r, x, self._y)
        self._step(1.0, self._y, x)

    def _step(self, keep: float, r: Any, x: Any) -> None:
        self._engine.run(COMPLEX_STEP, keep, *self._weights, r.re, r.im, x.re, x.im)


class ComplexStep(Step):
    """A level's part in a cycle. Transfers are real, and the same for both parts.

    finest: whether it is of A itself, and coarser ones of A times a number.
    """

    def __init__(
        self,
        engine: ComplexEngine,
        fine: Level,
        below: ComplexEngine,
        coarse: Level,
        smoother: ComplexJacobi,
        *,
        finest: bool,
    ) -> None:
        assert fine.complex_part is not None
        self._below, self._smoother = below.real, smoother
        self._signs = fine.complex_part.signs if finest else None
        assert isinstance(fine.transfer, StoredTransfer)
        wide, transfer = engine.wide, fine.transfer
        views = [(engine.real, below.real)] * 2 if wide is None or below.wide is None else [(wide, below.wide)]
        self._corrections = [Correction(transfer, _on(fine, one), _on(coarse, two)) for one, two in views]
        self._rc, self.xc = (_field(below, [getattr(c, name) for c in self._corrections]) for name in ("rc", "xc"))
        self.rc = self._rc if self._signs is None else below.field(coarse.layout)

    def descend(self, r: Field, x: Field) -> None:
        """As of `Step`."""
        y = self._smoother.before(r, x)
        for correction, part in zip(self._corrections, self._parts(y), strict=True):
            correction.restrict(part)
        if self._signs is not None:
            (re, im), run, rc = self._signs, self._below.run, self._rc
            turned: Any = self.rc
            run(WAXPBY, re, rc.re, im, rc.im, turned.re)
            run(WAXPBY, re, rc.im, -im, rc.re, turned.im)

    def ascend(self, r: Field, x: Field) -> None:
        """As of `Step`."""
        parts = self._parts(x), self._parts(self._smoother.corrected(x))
        for correction, *part in zip(self._corrections, *parts, strict=True):
            correction.correct(*part)
        self._smoother.after(r, x)

    def _parts(self, x: Any) -> Sequence[Field]:
        return (x.both,) if len(self._corrections) == 1 else (x.re, x.im)


class ComplexSolve(Coarsest):
    """x = (X + iY) r by a stored inverse."""

    def __init__(self, engine: ComplexEngine, level: Level, imaginary: PerChunk) -> None:
        assert level.inverse is not None
        self._engine, self._inverse, self._imaginary = engine, level.inverse, imaginary
        self._turned = engine.field(level.layout)

    def apply(self, r: Any, x: Any) -> None:
        """As of `Coarsest`."""
        turned, engine = self._turned, self._engine
        outs: list[tuple[PerChunk, Any]] = [(self._inverse, x), (self._imaginary, turned)]
        for inverse, out in outs:
            if engine.wide is not None:
                engine.wide.run(DENSE_SOLVE, inverse, r.both, out.both)
            else:
                engine.real.run(DENSE_SOLVE, inverse, r.re, out.re)
                engine.real.run(DENSE_SOLVE, inverse, r.im, out.im)
        engine.add_turned(1.0, turned, x)


class ComplexSweeps(Coarsest):
    """Smoothing in place of a solution, on a last level that has no inverse."""

    def __init__(self, engine: ComplexEngine, smoother: ComplexJacobi) -> None:
        self._engine, self._smoother = engine, smoother

    def apply(self, r: Field, x: Field) -> None:
        """x = S r, and Sᵀ after it."""
        self._smoother.before(r, x)
        if (start := self._smoother.corrected(x)) is not x:
            self._engine.copy(x, start)
        self._smoother.after(r, x)


def _coarsest(engine: ComplexEngine, level: Level, parts: Sequence[tuple[PerChunk, Any]]) -> Coarsest:
    part = level.complex_part
    assert part is not None
    if part.inverse is None:
        return ComplexSweeps(engine, ComplexJacobi(engine, level, _matrix(engine, level, parts)))
    return ComplexSolve(engine, level, part.inverse)


def _matrix(engine: ComplexEngine, level: Level, parts: Sequence[tuple[PerChunk, Any]]) -> ComplexMatrix:
    """A of a level; parts: of the finest, and their senders."""
    found: ComplexPart | None = level.complex_part
    assert found is not None
    if not parts:
        assert found.imaginary is not None
        senders = level.senders(level.offsets)
        parts = (level.chunks, senders), (found.imaginary, senders)
    view = engine.wide or engine.real
    re, im = (Matrix(view, *part) for part in parts)
    return ComplexMatrix(engine, re, im)


def _complex(engine: Engine, width: int) -> ComplexEngine:
    """A level's engine for so many complex columns."""
    real = engine if width == 1 else engine.batched(width)
    assert real is not None
    return ComplexEngine(real)


def _on(level: Level, engine: Engine) -> Level:
    """A level for as many columns as an engine has."""
    return level if engine.width == 1 else level.batched(engine.width)


def _field(engine: ComplexEngine, parts: Sequence[Field]) -> ComplexField:
    """A complex vector of the field that has both its parts, or of two."""
    return engine.of_wide(parts[0]) if len(parts) == 1 else ComplexField(parts[0], parts[1], None)
