"""Sweeps over the colors of a general matrix: symmetric Gauss-Seidel, and incomplete factors.

Each chunk solves with triangular factors of its own rows and columns, and knows nothing of the other chunks: between
chunks they are block Jacobi. So M is symmetric and positive definite where A is, and needs no halo.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Literal, final

import numpy as np

from dsolver.distributed.forecast import F64, I32, Part
from dsolver.engines.base import Field
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.colorings import COLORINGS
from dsolver.kernels.colorings.factors import BreakdownError, TriangularFactors
from dsolver.kernels.colorings.setup import SweepSetup
from dsolver.kernels.contract import BACKWARD, FORWARD, MOVE
from dsolver.kernels.direct.transversal import of_largest
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE
from dsolver.krylov.method import ApproximateInverse
from dsolver.matrices.canonical import imported
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site, is_a
from dsolver.preconditioners.builder import Builder
from dsolver.preconditioners.relaxation.chunk_factors import FIRST_SHIFT, LARGEST_SHIFT, MakeFactors
from dsolver.problems import Problem

Shift = float | Literal["auto"]


@dataclass(frozen=True, kw_only=True)
class Sweeps(Preconditioner):
    """Triangular solves on each chunk of a general matrix, color after color.

    They hold L, D and U in slices of their own beside A: about as many bytes as A has in sliced ELL, in the value type
    of `precond_dtype`. InputError: there is no such coloring.
    """

    can: ClassVar[Capabilities] = Capabilities(batched=True, lowered=True)
    name: ClassVar[str]
    # the order in which rows are visited: "greedy", "jpl", "cc", "block-greedy", "block-jpl", "block-cc" or "levels";
    # see `dsolver.kernels.colorings`.
    coloring: str = "greedy"

    def __post_init__(self) -> None:
        if self.coloring not in COLORINGS:
            raise InputError(f"coloring must be one of {', '.join(map(repr, COLORINGS))}, not {self.coloring!r}")

    @abstractmethod
    def factors(self, setup: SweepSetup, a: Csr, color: Any) -> TriangularFactors:
        """Factors of a chunk's own part, in the order of its colors, where it lies. BreakdownError: a zero pivot."""

    def arranged(self, _: Backend, a: Csr) -> tuple[Csr, Any]:
        """A chunk's own part with its rows in the order that is factored, and the row at each place; None for A's."""
        return a, None

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse a grid."""
        require_rows(self.name, problem)

    def build(self, builder: Builder) -> Built:
        """A for products, and the factors of each chunk."""
        make = MakeFactors(
            factors=self.factors,
            arranged=self.arranged,
            coloring=self.coloring,
            name=self.name,
            partition=builder.partition,
        )
        return builder.products(), (builder.per_chunk(make).at(0),)

    def on(self, site: Site) -> ApproximateInverse:
        """z = (D + U)⁻¹ (I + L)⁻¹ r."""
        return _Solves(site)

    def forecast(self, part: Part) -> Forecast:
        """A, and slices of both factors; r and z are moved there and back, the factors read once."""
        assert isinstance(part.problem, MatrixProblem)
        a, known = replace(part, value=F64).stored(), part.problem.counts[part.number].local
        slices = known.stored.get(1)
        entries = known.entries if slices is None else int(slices.padding * known.entries)
        column = I32 if slices is None else slices.runs * I32 / SLICE + (1.0 - slices.runs) * I32
        factors, routes = int(entries * (part.value + column)), 4 * I32 * a.rows
        return Forecast(
            levels=(a,),
            vectors=2 * part.value * a.size,
            shared=factors + routes + (2 * part.value + 3 * I32) * a.size,
            temporary=part.assembly + (F64 + I32) * (known.longest * a.rows + 2 * known.entries),
            moved=factors + 10 * part.value * a.rows + routes,
        )

    def iterations(self, alone: float, rtol: float) -> float:
        """Measured on lattices."""
        return 0.55 * alone


@final
@dataclass(frozen=True, kw_only=True)
class SymGS(Sweeps):
    """A forward and a backward Gauss-Seidel sweep from zero on each chunk: ``"symgs"``."""

    can: ClassVar[Capabilities] = Capabilities(batched=True, lowered=True, diagonal=True)
    name: ClassVar[str] = "symgs"

    def factors(self, setup: SweepSetup, a: Csr, color: Any) -> TriangularFactors:
        """A's own entries."""
        return setup.sweep_factors(a, color)


@dataclass(frozen=True, kw_only=True)
class Incomplete(Sweeps):
    """Incomplete factors without fill of each chunk. InputError: the shift is neither "auto" nor a number >= 0."""

    positive: ClassVar[bool] = False
    # that times its diagonal is added to A before, which keeps pivots away from zero (Manteuffel, 1980); "auto" takes 0
    # for a chunk where that succeeds, else the first of 0.001, 0.002, 0.004, ... that does.
    shift: Shift = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shift != "auto" and not (is_a(self.shift, Real) and 0.0 <= float(self.shift) <= LARGEST_SHIFT):
            raise InputError(f"shift must be 'auto' or a number from 0 to {LARGEST_SHIFT:g}, not {self.shift!r}")

    def factors(self, setup: SweepSetup, a: Csr, color: Any) -> TriangularFactors:
        """ILU(0), which is IC(0) for a symmetric matrix."""
        if self.shift != "auto":
            return setup.incomplete_factors(a, color, shift=float(self.shift), positive=self.positive)
        shift = 0.0
        while True:
            try:
                return setup.incomplete_factors(a, color, shift=shift, positive=self.positive)
            except BreakdownError:
                shift = 2.0 * shift or FIRST_SHIFT
                if shift > LARGEST_SHIFT:
                    raise


@final
@dataclass(frozen=True, kw_only=True)
class IC0(Incomplete):
    """Incomplete Cholesky factors without fill, (I + L) D (I + Lᵀ), of each chunk of a symmetric matrix: ``"ic0"``."""

    can: ClassVar[Capabilities] = Capabilities(batched=True, lowered=True, symmetric=True)
    name: ClassVar[str] = "ic0"
    positive: ClassVar[bool] = True


@final
@dataclass(frozen=True, kw_only=True)
class ILU0(Incomplete):
    """Incomplete LU factors without fill, (I + L) (D + U), of each chunk of any matrix: ``"ilu0"``.

    Where a chunk has zeros on its diagonal, its rows are put in the order in which the product of the diagonal's
    entries is largest (Duff and Koster, SIAM J. Matrix Anal. Appl. 22, 2001), and the factors are those of that matrix.
    """

    name: ClassVar[str] = "ilu0"

    def arranged(self, backend: Backend, a: Csr) -> tuple[Csr, Any]:
        """The rows with a diagonal without zeros, if there is an order for that."""
        made = with_largest_diagonal(backend, a) if has_zeros(backend, a) else None
        return (a, None) if made is None else made


def require_rows(name: str, problem: Problem) -> None:
    """Refuse a problem on a grid; raises InputError."""
    if problem.lattice:
        raise InputError(f"M={name!r} is for general matrices (dsolver.matrix); on a grid use M='mg' or 'chebyshev'")


class _Solves:
    """Solves with both factors, in work space of its own."""

    def __init__(self, site: Site) -> None:
        self._engine, (chunks,) = site.engine, site.levels
        self._lower, self._upper = chunks.at("lower"), chunks.at("upper")
        self._there, self._back = chunks.at("there"), chunks.at("back")
        self._r, self._y = (self._engine.field(chunks.at("layout")) for _ in range(2))

    def apply(self, r: Field, z: Field) -> None:
        """z = (D + U)⁻¹ (I + L)⁻¹ r."""
        engine = self._engine
        engine.run(MOVE, self._there, r, self._r)
        engine.run(FORWARD, self._lower, self._r, self._y)
        engine.run(BACKWARD, self._upper, self._y, self._r)
        engine.run(MOVE, self._back, self._r, z)


def has_zeros(backend: Backend, a: Csr) -> bool:
    """Whether the diagonal has an entry that is zero, or is not there."""
    row = backend.general.places(a.start, len(a.columns))
    found = row[(row == a.columns) & (a.values != 0.0)]
    return len(found) < a.size


def with_largest_diagonal(backend: Backend, a: Csr) -> tuple[Csr, Any] | None:
    """A matrix with its rows in the order for which the product of the diagonal's entries is largest.

    Returns:
        it, and the row of a at each place; None where no order has a diagonal without zeros.
    """
    start, columns, values = (backend.to_host(part) for part in a)
    rows = imported("sparse").csr_array((values, columns, start), shape=(a.size, a.size))
    order = of_largest(rows)
    if order is None:
        return None
    picked = rows[order]
    made = Csr(picked.indptr.astype(np.int64), picked.indices.astype(np.int32), picked.data)
    return Csr(*(backend.asarray(part) for part in made)), order
