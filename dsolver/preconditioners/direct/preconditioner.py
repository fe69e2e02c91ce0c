"""Direct solution with factors of the whole matrix, which one owner has, as a preconditioner.

Iterations refine it: factors in float32, or of a matrix near one that is singular, serve as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self, final

from dsolver.distributed.forecast import F64, I32, Part
from dsolver.engines.base import Engine, Field, Halo, PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.engines.complex_handles import PARTS
from dsolver.errors import InputError
from dsolver.kernels.contract import DIRECT_PART, DIRECT_SOLVE, DIRECT_SOLVE_COMPLEX
from dsolver.kernels.direct.factors import MatrixTraits
from dsolver.kernels.direct.fill import FULL, full_fill
from dsolver.kernels.direct.libraries import LIBRARIES, installed
from dsolver.krylov.method import ApproximateInverse
from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.algebraic.rows.global_rows import ROWS
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.preconditioners.direct.choice import ENTRIES, PRODUCTS, entries_of, fill_of
from dsolver.preconditioners.direct.part import (
    OWNER,
    MakePart,
    instead,
    rows_of_grid,
    rows_of_matrix,
    rows_of_parts,
    to_owner,
)
from dsolver.problems import Problem

NEARBY: Final = (
    "A is singular, or nearly so: M='direct' leaves out what A makes less than about 1e-8 of its size, so that x has "
    "nothing of it"
)
FINE: Final = (
    "A is singular, or nearly so, and its singular values fall without a gap: M='direct' leaves out what A makes less "
    "than about 1e-12 of its size"
)


@final
@dataclass(frozen=True, kw_only=True)
class Direct(Preconditioner):
    """Factors of the whole matrix, made once by a library, on the owner of the first chunk: ``"direct"``.

    For any matrix. Right-hand sides go there, and solutions come back. Where A is singular, the factors are of a matrix
    nearby. Flexible GMRES is the usual method: it refines in a few iterations what factors leave, whether A is
    symmetric, definite or neither.

    Attributes:
        library: that makes them, a name of `dsolver.kernels.direct.libraries.LIBRARIES`; by default the first one that
            is installed where they are made.
        least_squares: whether x of the least ‖b - A x‖ is wanted of factors, as for an A that is known to be singular.
            By default factors of A are tried first.
        fine: whether factors for least squares are to leave out as little of x as they can.
        fill: entries of the factors, where they were counted.
        nearby: whether A has turned out to be singular.
        projecting: whether the factors are for least squares.
        blurred: whether rounding alone makes a part of x.

    Raises:
        InputError: there is no such library.
    """

    can: ClassVar[Capabilities] = Capabilities(
        lowered=True, recorded=False, multilevel=True, complex=True, any_sign=True, stagnation=30, decrease=0.1
    )
    basis: ClassVar[int | None] = 10
    library: str | None = None
    least_squares: bool = False
    fine: bool = field(default=False, repr=False)
    fill: float | None = field(default=None, repr=False, compare=False)
    nearby: bool = field(default=False, repr=False, compare=False)
    projecting: bool = field(default=False, repr=False, compare=False)
    blurred: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.library is not None and self.library not in LIBRARIES:
            names = ", ".join(map(repr, LIBRARIES))
            raise InputError(f"library must be one of {names}, or None for the first there, not {self.library!r}")

    def build(self, builder: Builder) -> Built:
        """A for products, and each chunk's part of the solution."""
        engine, products = builder.engine, builder.products()
        rows, places = rows_of_grid(builder) if builder.problem.lattice else (rows_of_matrix(builder), None)
        chunks = len(builder.partition)
        senders = [tuple(range(1, chunks)), *[()] * (chunks - 1)]
        parts_of_a = rows_of_parts(builder) if builder.problem.complex else [rows]
        gathered = [
            operand
            for part in parts_of_a
            for operand in (part, engine.deliver(engine.per_chunk(to_owner, part), senders, ROWS))
        ]
        problem = builder.problem
        make = MakePart(
            library=self.library,
            sizes=tuple(chunk.box.points for chunk in builder.partition),
            places=places,
            traits=MatrixTraits(
                symmetric=not problem.asymmetry,
                mirrored=not isinstance(problem, MatrixProblem) or problem.mirrored,
                singular=builder.system.singular,
                full=self.fill is not None and self.fill >= FULL * float(math.prod(problem.grid)) ** 2,
                least_squares=self.least_squares,
                fine=self.fine,
            ),
        )
        view = engine.lowered(builder.dtype) if builder.lowered else engine
        parts = view.per_chunk(make, products.at("layout"), *gathered).at(0)
        return products, (parts, engine.sums(engine.per_chunk(instead, parts)))

    def chosen(self, levels: Sequence[Any]) -> Self:
        """Itself, and whether A is singular."""
        nearby, projecting, blurred = (number > 0.0 for number in levels[1])
        return replace(self, nearby=nearby, projecting=projecting, blurred=blurred)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Whether A is singular."""
        return ((FINE if self.fine else NEARBY),) if self.nearby else ()

    def informed(self, problem: Problem) -> Self:
        """This preconditioner with the fill, where the matrix is here."""
        return replace(self, fill=fill_of(problem))

    def beside(self, problem: Problem) -> int:
        """Bytes of the factors."""
        return int((F64 * (1 + problem.complex) + I32) * (self.fill or fill_of(problem)))

    def on(self, site: Site) -> ApproximateInverse:
        """z = A⁻¹ r by the factors."""
        return ComplexSolution(site) if isinstance(site.engine, ComplexEngine) else AppliedInverse(site)

    def forecast(self, part: Part) -> Forecast:
        """A, and on the first chunk's owner its rows, the factors and a vector of all rows."""
        a = part.products()
        if part.number != OWNER:
            return Forecast(levels=(a,), moved=2 * F64 * a.rows)
        entries, rows = self.fill or fill_of(part.problem), part.partition.domain.points
        value = part.value * (1 + part.problem.complex)
        there = not part.cuda or self._is_for_gpus(part.problem, entries)  # else they take memory of the host
        halved = part.cuda and not (part.problem.asymmetry or part.problem.indefinite)  # cuDSS has L alone
        factors = int(entries / (1 + halved) * (value + I32)) if there else 0
        gathered = 4 * (F64 + I32) * entries_of(part.problem) if there else 0
        return Forecast(
            levels=(a,),
            shared=factors + 4 * F64 * rows,
            temporary=max(part.assembly, gathered + factors),
            moved=factors + 6 * F64 * rows,
        )

    def _is_for_gpus(self, problem: Problem, fill: float) -> bool:
        """Whether a library makes the factors on a GPU, as far as is known without it."""
        rows, names = math.prod(problem.grid), LIBRARIES if self.library is None else (self.library,)
        usual = self.library is not None or not (self.least_squares or fill >= FULL * float(rows) ** 2)
        return usual and not problem.complex and any(LIBRARIES[name].gpu and installed(name) for name in names)

    def iterations(self, alone: float, rtol: float) -> float:
        """Two, whatever the matrix."""
        return 2.0

    def setup_seconds(self, problem: Problem, iteration: float) -> float:
        """Time of SuperLU on one core, or of LAPACK for full ones; other libraries may take a tenth of it."""
        entries, rows = self.fill or fill_of(problem), math.prod(problem.grid)
        if entries >= FULL * float(rows) ** 2:
            return full_fill(rows).products / PRODUCTS
        return entries / ENTRIES + entries**2 / rows / PRODUCTS


class AppliedInverse:
    """A⁻¹ of the whole system, applied."""

    def __init__(self, site: Site) -> None:
        self._engine, (self._parts, _) = site.engine, site.levels
        self._gathered, self._scattered = _halos(self._engine, self._parts)
        self._whole = site.engine.field(self._parts)

    def apply(self, r: Field, z: Field) -> None:
        """z = A⁻¹ r."""
        engine = self._engine
        engine.exchange(r, self._gathered)
        engine.run(DIRECT_SOLVE, self._parts, r, self._gathered, self._whole)
        engine.exchange(self._whole, self._scattered)
        engine.run(DIRECT_PART, self._parts, self._whole, self._scattered, z)


class ComplexSolution:
    """A⁻¹ of a complex system, applied; each part of vectors travels by itself."""

    def __init__(self, site: Site) -> None:
        assert isinstance(site.engine, ComplexEngine)
        self._engine, (self._parts, _) = site.engine.real, site.levels
        self._halos = [_halos(self._engine, self._parts) for _ in PARTS]
        self._whole = [self._engine.field(self._parts) for _ in PARTS]

    def apply(self, r: Any, z: Any) -> None:
        """z = A⁻¹ r."""
        engine, ((gathered, scattered), (gathered_im, scattered_im)) = self._engine, self._halos
        engine.exchange(r.re, gathered)
        engine.exchange(r.im, gathered_im)
        engine.run(DIRECT_SOLVE_COMPLEX, self._parts, r.re, gathered, r.im, gathered_im, *self._whole)
        for whole, halo, out in zip(self._whole, (scattered, scattered_im), (z.re, z.im), strict=True):
            engine.exchange(whole, halo)
            engine.run(DIRECT_PART, self._parts, whole, halo, out)


def _halos(engine: Engine, parts: PerChunk) -> tuple[Halo, Halo]:
    """Halos that bring right-hand sides to the factors, and solutions from them."""
    chunks = range(1, len(engine.partition))
    return (
        engine.halo(parts.at("gather"), [tuple(chunks), *[()] * len(chunks)]),
        engine.halo(parts.at("scatter"), [(), *[(OWNER,)] * len(chunks)]),
    )
