"""Direct solution with factors of the whole matrix, which one owner has, as a preconditioner.

Iterations refine it: factors in float32, or of a matrix near one that is singular, serve as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, Final, final

import numpy as np

from dsolver.distributed.forecast import F64, I32, Part
from dsolver.distributed.halo import direct_layout, gather_layout
from dsolver.engines.base import Engine, Field, Halo, PerChunk
from dsolver.engines.complex import PARTS, ComplexEngine
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend, load
from dsolver.kernels.contract import DIRECT_PART, DIRECT_SOLVE, DIRECT_SOLVE_COMPLEX
from dsolver.kernels.direct.factors import MatrixTraits, NoLibraryError, complex_rows, factors_of
from dsolver.kernels.direct.fill import FULL, Fill
from dsolver.kernels.direct.libraries import LIBRARIES, Kind, SingularError, chosen, installed
from dsolver.kernels.direct.parts import DirectPart
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import HaloLayout, Layout
from dsolver.krylov.method import ApproximateInverse
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.row_block import RowBlock
from dsolver.multigrid.algebraic.finest import rows_of_blocks
from dsolver.multigrid.algebraic.lattice.rows import LatticeRows
from dsolver.multigrid.algebraic.rows.global_rows import ROWS, Rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.geometric.assembly import raised_rows
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem

MOST: Final = Fill(entries=1e9, products=math.inf)
"""Fill of factors beyond which it is not counted: that would take half a minute."""
NEARBY: Final = (
    "A is singular, or nearly so: M='direct' leaves out what A makes less than about 1e-8 of its size, so that x has "
    "nothing of it"
)
FINE: Final = (
    "A is singular, or nearly so, and its singular values fall without a gap: M='direct' leaves out what A makes less "
    "than about 1e-12 of its size"
)
CHEAP: Final = Fill(entries=1.5e5, products=2e7)
"""Fill of factors that are made at once, whatever the matrix: hundredths of a second."""
SURE: Final = Fill(entries=5e6, products=2e9)
"""Fill of factors that are made at once where nothing tells how many iterations are needed: a second or two."""
LARGE: Final = 1e8
"""Entries of such factors that may be more, if they take no more multiplications than `FEW` products with A."""
FEW: Final = 5000
"""Products with A."""
BAND: Final = 1200
"""Products with A, as many multiplications of which the envelope of an elliptic matrix may take that has factors at
once on CPUs: up to some 10,000 rows in a plane, and 1000 in space. Their time is that of ten to thirty iterations."""
INSTEAD: Final = 2400
"""Products with A, as many multiplications of which SuperLU may take at once on CPUs for a matrix with a positive
diagonal that is not elliptic."""
RATE: Final = {"cpu": 4.0, "cuda": 0.1}
"""Multiplications that make large factors in the time of one of a product with A. SuperLU made 2 to 4 on a core; on a
GPU products are far quicker, factors are not."""
LAST: Final = Fill(entries=1e9, products=4e11)
"""Fill of factors of a last attempt: a few minutes, as of an elastic body in a plane with a million rows."""
SQUARES: Final = Fill(entries=LAST.entries / 8, products=LAST.products / 40)
"""Fill of factors of a matrix for whose least squares there may be others."""
ENTRIES: Final = 1.5e7
PRODUCTS: Final = 6e9
"""Entries of factors, and multiplications, that SuperLU makes in a second: 0.8 to 1.3 of the time of 20³, 30³ and 40³
points and of 100² and 300². Multiplications are about the squares of a row's entries, summed over all rows."""
OWNER: Final = 0
"""The chunk next to which the factors are."""


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

    Raises:
        InputError: there is no such library.
    """

    can: ClassVar[Capabilities] = Capabilities(
        lowered=True, recorded=False, multilevel=True, complex=True, any_sign=True, stagnation=30
    )
    basis: ClassVar[int | None] = 10
    library: str | None = None
    least_squares: bool = False
    fine: bool = field(default=False, repr=False)
    fill: float | None = field(default=None, repr=False, compare=False)
    nearby: bool = field(default=False, repr=False, compare=False)
    projecting: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.library is not None and self.library not in LIBRARIES:
            names = ", ".join(map(repr, LIBRARIES))
            raise InputError(
                f"library must be one of {names}, or None for the first that is there, not {self.library!r}"
            )

    def build(self, builder: Builder) -> Built:
        """A for products, and each chunk's part of the solution."""
        engine, products = builder.engine, builder.products()
        rows, places = _rows_of_grid(builder) if builder.problem.lattice else (_rows_of_matrix(builder), None)
        chunks = len(builder.partition)
        senders = [tuple(range(1, chunks)), *[()] * (chunks - 1)]
        parts_of_a = _rows_of_parts(builder) if builder.problem.complex else [rows]
        gathered = [
            operand
            for part in parts_of_a
            for operand in (part, engine.deliver(engine.per_chunk(_to_owner, part), senders, ROWS))
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
        return products, (parts, engine.sums(engine.per_chunk(_instead, parts)))

    def chosen(self, levels: Sequence[Any]) -> Direct:
        """Itself, and whether A is singular."""
        nearby, projecting = levels[1]
        return replace(self, nearby=nearby > 0.0, projecting=projecting > 0.0)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Whether A is singular."""
        return ((FINE if self.fine else NEARBY),) if self.nearby else ()

    def informed(self, problem: Problem) -> Direct:
        """With the fill, where the matrix is here."""
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
        """Time of SuperLU on one core; other libraries may take a tenth of it."""
        entries = self.fill or fill_of(problem)
        return entries / ENTRIES + entries**2 / math.prod(problem.grid) / PRODUCTS


def entries_of(problem: Problem) -> int:
    """Entries of the whole matrix."""
    if isinstance(problem, MatrixProblem):
        return problem.entries
    x, y, z = problem.grid
    return len(problem.offsets) * x * y * z


def fill_of(problem: Problem) -> float:
    """About how many entries the factors have: counted where the matrix is here, else as those of a mesh.

    Without a positive diagonal, or with entries that have no mirror images, rows are exchanged, which makes about twice
    as many.
    """
    rows = math.prod(problem.grid)
    if isinstance(problem, MatrixProblem) and problem.elimination is not None:
        found = problem.elimination.within(MOST)
        exchanged = problem.hollow or problem.indefinite or not problem.mirrored
        return (1 + bool(exchanged)) * (4.0 * MOST.entries if found is None else found.entries)
    flat = problem.lattice and 1 in problem.grid
    fill = 6.6 * rows * math.log2(max(rows, 2.0)) if flat else 0.6 * rows ** (5 / 3)
    return min(max(2.0 * entries_of(problem), fill), float(rows) ** 2)


def suit_at_once(problem: Problem, method: str | None, device: str) -> bool:
    """Whether to make factors of a matrix that is here, in place of iterations without factors.

    They are cheap, or nothing tells how many iterations are needed, and they are affordable. Methods that are asked for
    are left to iterations.

    Args:
        problem: the system.
        method: of the solve; None for the usual one.
        device: "cpu" or "cuda", where iterations are far quicker.
    """
    if method is not None or not isinstance(problem, MatrixProblem) or problem.null_vectors:
        return False
    if problem.indefinite or (problem.asymmetry and not problem.elliptic and not problem.dominant):
        return _fits(problem, SURE) or _fits(problem, _as_products(problem, FEW))
    return (device == "cpu" and problem.singular is False and _are_quicker(problem)) or cost_little(problem)


def _are_quicker(problem: MatrixProblem) -> bool:
    """Whether factors of a matrix with a positive diagonal take less time on a CPU than iterations are likely to."""
    if problem.elimination is None or problem.dominant or problem.guided:
        return False
    if problem.elliptic:
        return problem.elimination.narrow(_as_products(problem, BAND)) is not None
    most = _as_products(problem, round(INSTEAD * _speed(problem)))
    return problem.elimination.promises(most) and _fits(problem, most)


def cost_little(problem: MatrixProblem) -> bool:
    """Whether factors of a matrix that is here cost less than iterations of any kind."""
    return problem.singular is False and not problem.null_vectors and _fits(problem, CHEAP)


def in_products(problem: Problem, device: str, most: float = math.inf) -> float | None:
    """Products with A that take about as long as factors of a matrix that is here; None where these are beyond a bound.

    Args:
        problem: the system.
        device: "cpu" or "cuda".
        most: products that they may take as long as; always fewer multiplications than those of `LAST`.
    """
    if not isinstance(problem, MatrixProblem) or problem.elimination is None:
        return None
    entries = problem.elimination.entries
    each = RATE[device] * entries * (_speed(problem) if device == "cpu" else 1.0)
    found = problem.elimination.within(replace(LAST, products=min(LAST.products, most * each)))
    return None if found is None else found.products / each


def _speed(problem: MatrixProblem) -> float:
    """Speed of the library that makes the factors, over that of SuperLU, as far as is known in this process."""
    dtype = np.dtype(np.complex128 if problem.complex else np.float64)
    kind = Kind(symmetric=not problem.asymmetry, mirrored=problem.mirrored, positive=not problem.indefinite)
    entries = 0 if problem.elimination is None else problem.elimination.entries
    name = chosen(dtype, kind, entries, gpu=False)
    return 1.0 if name is None else LIBRARIES[name].speed


def may_be_last(problem: Problem) -> bool:
    """Whether factors may be made where nothing else has led to an end, of a grid or a matrix that is here.

    Memory aside, which is looked at by those who make them.
    """
    if isinstance(problem, MatrixProblem):
        return _fits(problem, LAST)
    return Fill(entries=fill_of(problem), products=_products_of_grid(problem)).within(LAST)


def may_be_for_least_squares(problem: Problem) -> bool:
    """Likewise, of twice as many rows, which have several times the fill."""
    if isinstance(problem, MatrixProblem):
        return _fits(problem, SQUARES)
    return Fill(entries=fill_of(problem), products=_products_of_grid(problem)).within(SQUARES)


def _products_of_grid(problem: Problem) -> float:
    """About how many multiplications make the factors of a grid: of a plane, or of a box."""
    rows = float(math.prod(problem.grid))
    return 21.0 * rows**1.5 if 1 in problem.grid else 10.0 * rows**2


def _as_products(problem: MatrixProblem, many: int) -> Fill:
    """Fill of factors that take no more multiplications than so many products with A."""
    entries = 0 if problem.elimination is None else problem.elimination.entries
    return Fill(entries=LARGE, products=float(many * entries))


def _fits(problem: MatrixProblem, most: Fill) -> bool:
    """Whether the matrix is here, and its factors are within a bound."""
    return problem.elimination is not None and problem.elimination.within(most) is not None


@final
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


@final
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


def _rows_of_matrix(builder: Builder) -> PerChunk:
    """The `LevelRows` of every chunk of a matrix."""
    return _level_rows(builder, builder.system.per_chunk(_as_it_came), builder.problem.senders)


def _rows_of_parts(builder: Builder) -> list[PerChunk]:
    """Likewise of the parts of a complex matrix."""
    assert isinstance(builder.problem, MatrixProblem)
    parts = zip(builder.system.part_rows, builder.problem.part_senders, strict=True)
    return [_level_rows(builder, rows, senders) for rows, senders in parts]


def _level_rows(builder: Builder, blocks: PerChunk, senders: Any) -> PerChunk:
    bounds = tuple(accumulate(builder.partition.sizes[0], initial=0))
    return rows_of_blocks(builder.engine, blocks, bounds, senders or [()])


def _rows_of_grid(builder: Builder) -> tuple[PerChunk, Partition | None]:
    """The `LevelRows` of ranges of a grid's rows, and the boxes that its vectors come in; None for one."""
    engine, rows = builder.engine, builder.rows
    weights = rows.weights
    if rows.raised is not None:
        weights = engine.per_chunk(partial(raised_rows, offsets=rows.offsets), weights, rows.raised)
    found = LatticeRows(engine, rows.chunks, rows.offsets, weights).rows
    return found, builder.partition if len(builder.partition) > 1 else None


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _as_it_came(_: Backend, __: int, block: RowBlock) -> RowBlock:
    return block


def _global_rows(backend: Backend, rows: LevelRows) -> Rows:
    return Rows.at(backend.amg, rows.a, rows.window)


def _instead(_: Backend, __: int, part: DirectPart) -> tuple[float, float]:
    """Numbers that tell whether factors of A itself were not made, and whether those for least squares were."""
    made = part.factors
    return (0.0, 0.0) if made is None else (float(made.nearby), float(made.projecting))


def _to_owner(backend: Backend, number: int, rows: LevelRows) -> dict[int, Any]:
    """A message with the chunk's rows for the owner of the factors."""
    return {} if number == OWNER else {OWNER: _global_rows(backend, rows).message}


@final
@dataclass(frozen=True, kw_only=True)
class MakePart:
    """Makes a chunk's part of direct solutions, with the factors on the first chunk.

    Attributes:
        library: that makes factors; None for the first that is there.
        sizes: rows of each chunk.
        places: boxes of a grid, where rows come in lattice order and vectors box after box; else None.
        traits: of A.
    """

    label: ClassVar[str] = "setup-levels"
    library: str | None
    sizes: tuple[int, ...]
    places: Partition | None
    traits: MatrixTraits

    def __call__(
        self, backend: Backend, number: int, layout: Layout, *gathered: LevelRows | Mapping[int, Any]
    ) -> tuple[DirectPart]:
        """The part, for the finest level.

        Args:
            backend: where it lies.
            number: of the chunk.
            layout: of its rows.
            gathered: its rows, and what has arrived of the others, of A or of each part of a complex A.

        Raises:
            InputError: no library is there, or the matrix has no factors.
            DeviceMemoryError: memory has run out.
        """
        factors = None
        if number == OWNER:
            pairs: Any = zip(gathered[::2], gathered[1::2], strict=True)
            factors = self._factors(backend, [self._joined(backend, *pair) for pair in pairs])
        chunks, size = len(self.sizes), sum(self.sizes) if number == OWNER else 1
        return (
            DirectPart(
                backend=backend,
                position=layout.position,
                size=size,
                gather=gather_layout(backend, number, (OWNER,), self.sizes, layout),
                scatter=self._scatter(backend, number, chunks, size),
                factors=factors,
            ),
        )

    def _scatter(self, backend: Backend, number: int, chunks: int, size: int) -> HaloLayout:
        """The exchange that brings each chunk its part of the solution."""
        if number != OWNER:
            made = direct_layout(backend, [], [(OWNER, self.sizes[number])])
            return replace(made, items=size)
        rest = [(other, self.sizes[other]) for other in range(1, chunks)]
        first = self.sizes[OWNER]
        made = direct_layout(backend, rest, [])
        return replace(made, send_rows=(first + made.send_rows).astype(np.int32), items=size)

    def _joined(self, backend: Backend, rows: LevelRows, arrived: Mapping[int, Any]) -> Csr:
        """All rows."""
        others = (Rows.of_message(arrived[sender]) for sender in sorted(arrived))
        whole = Rows.joined([_global_rows(backend, rows), *others])
        if self.places is not None:
            whole = _box_after_box(backend.amg, whole, self.places)
        return Csr(whole.start, whole.columns, whole.values)

    def _factors(self, backend: Backend, parts: Sequence[Csr]) -> Any:
        rows = parts[0]
        if len(parts) > 1:  # of complex numbers libraries of the host make factors
            rows = complex_rows(*(Csr(*map(backend.to_host, part)) for part in parts))
            backend = load("numpy", dtype=str(backend.dtype))
        try:
            return factors_of(rows, backend, self.library, self.traits)
        except NoLibraryError as error:
            raise InputError(
                f"M='direct' needs {error} where the first chunk lies, for {backend.dtype}: install it there"
            ) from None
        except SingularError:
            raise InputError("M='direct': the matrix has no factors that are of use: use another M") from None
        except MemoryError:
            raise DeviceMemoryError(
                "M='direct': memory has run out for the factors: use M='amg', 'ilu0' or another that takes less"
            ) from None


def _box_after_box(amg: Any, rows: Rows, partition: Partition) -> Rows:
    """Rows and columns of a grid in lattice order, as the boxes of chunks have them one after the other."""
    domain = partition.domain
    order = np.concatenate([domain.rows_of(chunk.box) for chunk in partition])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    picked = rows.selected(amg, np.asarray(order, like=rows.start))
    return replace(picked, columns=np.asarray(place, like=rows.start)[picked.columns]).ascending
