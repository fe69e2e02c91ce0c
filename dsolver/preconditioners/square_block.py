"""The preconditioned square block of a complex symmetric matrix: ``"presb"``."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, final

from dsolver.distributed.forecast import F64, Part
from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels.contract import WAXPBY
from dsolver.krylov.methods import FOR_FACTORS
from dsolver.matrices.checked import on_host
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site, make
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem

USUAL: Final = Algebraic()


@final
@dataclass(frozen=True, kw_only=True)
class PreconditionedSquareBlock(Preconditioner):
    """PRESB, of A = B ± iC with semidefinite B and C, by a real M of B + C: ``"presb"``.

    For r = p + iq and A = B + iC, h = M(p + q), v = M(q - C h), and z = h - v + iv. With (B + C)⁻¹ for M that is the
    inverse of [B, -C; C, B + 2C], and [B, -C; C, B] times it has its eigenvalues in [1/2, 1], whatever B and C are
    (Axelsson, Neytcheva and Ahmad, Numer. Algorithms 66, 2014). It is linear in real numbers, but not in complex ones,
    and so for flexible GMRES. An application costs two of M, one after the other, and a product with C: COCG with M on
    both parts at once takes a few iterations more, and less time.

    Attributes:
        inner: the preconditioner of B + C.

    Raises:
        InputError: A is not complex symmetric, the diagonal of B is negative somewhere, or that of C has both signs; or
            `inner` is made for complex A.
    """

    can: ClassVar[Capabilities] = Capabilities(complex=True, multilevel=True, method=FOR_FACTORS)
    kernel_kind: ClassVar[str] = Algebraic.kernel_kind
    inner: Preconditioner = USUAL
    sign: float = field(default=1.0, repr=False, compare=False)  # of C in A, once that is known

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse matrices that are not complex symmetric."""
        if not problem.complex or problem.hermitian or problem.unsymmetric or not isinstance(problem, MatrixProblem):
            raise InputError(f"M={self.asked} is for complex A = Aᵀ: use M='amg'")
        if self.inner.can.complex:
            raise InputError(f"M={self.asked} takes a real preconditioner of B + C, such as Algebraic(), for inner=")
        self.inner.check(problem, partition)

    def informed(self, problem: Problem) -> "PreconditionedSquareBlock":
        """The preconditioner with the sign of Im A. InputError: a diagonal tells that a part is not semidefinite."""
        assert isinstance(problem, MatrixProblem)
        return replace(self, inner=self.inner.informed(problem), sign=_sign_of(problem, self.asked))

    def beside(self, problem: Problem) -> int:
        """Bytes of the inner one."""
        return self.inner.beside(problem)

    def build(self, builder: Builder) -> Built:
        """B + C, and the levels of the inner one."""
        return self.inner.build(replace(builder, real=True))

    def matrix(self, builder: Builder, levels: Sequence[Any]) -> PerChunk | None:
        """B + C alone, as the inner one stores it."""
        return self.inner.matrix(builder, levels)

    def on(self, site: Site) -> "_AppliedSquareBlock":
        """M on complex vectors."""
        assert isinstance(site.engine, ComplexEngine)
        inner = make(self.inner, replace(site, engine=site.engine.real))
        return _AppliedSquareBlock(site, site.engine, inner, self.sign)

    def forecast(self, part: Part) -> Forecast:
        """Two applications of the inner one, two vectors, and a product with C."""
        inner, rows = self.inner.forecast(part), part.partition[part.number].box.points
        moved = 2 * inner.moved + part.products().stored(F64) + 10 * F64 * rows
        return replace(inner, vectors=inner.vectors + 2 * F64 * rows, moved=moved)

    def iterations(self, alone: float, rtol: float) -> float:
        """About those of the inner one."""
        return self.inner.iterations(alone, rtol)


def _sign_of(problem: MatrixProblem, asked: str) -> float:
    """The sign of Im A. InputError: its diagonal has both, or that of Re A a negative number."""
    re, im = (on_host(part).diagonal() for part in problem.parts)
    if (re < 0.0).any() or ((im < 0.0).any() and (im > 0.0).any()):
        raise InputError(
            f"M={asked} is for A whose real part has no negative number on its diagonal, and whose imaginary part has "
            f"numbers of one sign there: use M='amg'"
        )
    return -1.0 if (im < 0.0).any() else 1.0


class _AppliedSquareBlock:
    """z = h ∓ v + iv on a site; inner: None for the identity."""

    def __init__(self, site: Site, engine: ComplexEngine, inner: Any, sign: float) -> None:
        self._engine, self._inner, self._sign = engine.real, inner, sign
        self._c = Matrix(engine.real, site.parts[1], site.part_senders[1])
        layout = site.matrix.layout
        self._h, self._v, self._work = (engine.real.field(layout) for _ in range(3))

    def apply(self, r: Any, z: Any) -> None:
        """z = M r; for A = B - iC the same is done with the sign of q and v turned."""
        run, h, v, work, sign = self._engine.run, self._h, self._v, self._work, self._sign
        run(WAXPBY, 1.0, r.re, sign, r.im, work)
        self._solve(work, h)
        self._c.multiply(h, work)
        run(WAXPBY, 1.0, r.im, -1.0, work, work)
        self._solve(work, v)
        run(WAXPBY, 1.0, h, -sign, v, z.re)
        self._engine.copy(v, z.im)

    def _solve(self, r: Any, z: Any) -> None:
        if self._inner is None:
            self._engine.copy(r, z)
        else:
            self._inner.apply(r, z)
