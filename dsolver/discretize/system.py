"""A problem on an engine: its coefficients, its right-hand sides, its null space."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, final

from dsolver.discretize.cell_sides import CellSides, with_added
from dsolver.discretize.closed_regions import ClosedRegions
from dsolver.discretize.coefficients import Coefficients
from dsolver.discretize.lone_rows import inverses_of, with_known
from dsolver.discretize.region_nullspace import RegionConstants
from dsolver.discretize.unfixed import unfixed
from dsolver.distributed.loaded_rows import LoadedRows, chunk_matrix
from dsolver.distributed.nullspace import Constants, Inconsistency, NullSpace, NullVectors
from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.grid.partition import Partition
from dsolver.kernels.contract import LOAD, WAXPBY
from dsolver.matrices.chunks.row_block import FED, FIELD_ROWS, GIVEN, MASS, PARTS, PHASES, ROWS
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem
from dsolver.problems.coefficient_names import HELD
from dsolver.problems.finite_volumes import Diffusion


@final
class System:
    """A problem on an engine.

    First its coefficients are loaded, then `prepare`d; `per_chunk` builds what needs them; once vectors have a layout,
    `settle` finds what right-hand sides and solutions need, and the coefficients are let go.

    Attributes:
        lift: exponent of two by which right-hand sides, and so solutions, are multiplied.
    """

    def __init__(self, engine: Engine, problem: Problem, partition: Partition) -> None:
        self._engine = engine
        self._problem = problem
        self._partition = partition
        self.lift = 0
        rule = problem.rule
        self._coefficients: Coefficients | LoadedRows | None = None
        if rule is not None:
            self._coefficients = Coefficients(engine.lowered("float64"), rule, partition)  # whatever A is in
        elif isinstance(problem, MatrixProblem):
            self._coefficients = LoadedRows(engine, problem.order)
        self._ones: PerChunk | None = None
        self._sealed = False
        self._closed: ClosedRegions | None = None
        self.kept: tuple[int, ...] | None = None  # of `Unfixed`, once prepared
        self._cells: CellSides | None = None
        self._given: list[Mapping[int, Any]] = []  # null vectors
        self._fed: list[PerChunk] = []  # volumes, and what is added to right-hand sides, of a grid's rows as a matrix
        self._phases: list[PerChunk] = []  # both parts of d, of a Hermitian matrix
        self._negated = isinstance(problem, MatrixProblem) and problem.negated
        self._knows = isinstance(problem, MatrixProblem) and problem.known
        self._inverses: PerChunk | None = None
        self._fields: dict[int, Mapping[int, Any]] = {}
        self._null_space: NullSpace | None = None
        self._layout: PerChunk | None = None

    @property
    def awaits_values(self) -> bool:
        """Whether `take_values` has to be followed by a load."""
        return isinstance(self._coefficients, Coefficients) and HELD in self._problem.loaded

    def load(self, name: str, blocks: Mapping[int, Any]) -> None:
        """Set a coefficient from blocks by chunk number."""
        if name in FED:
            self._fed.append(self._engine.place(blocks))
            return
        if name in PHASES:
            self._phases.append(self._engine.place(blocks))
            return
        if name in FIELD_ROWS:
            self._fields[FIELD_ROWS.index(name)] = blocks
            return
        if isinstance(self._problem, MatrixProblem) and name not in (ROWS, GIVEN, MASS, *PARTS):
            self._given.append(blocks)
            return
        assert self._coefficients is not None
        self._coefficients.load(name, blocks)

    def prepare(self) -> None:
        """Check loaded coefficients, exchange what rows need, and see what nothing fixes. InputError: a bad value."""
        coefficients = self._coefficients
        if isinstance(coefficients, Coefficients):
            coefficients.prepare()
        found = unfixed(self._engine, self._problem, self._partition, coefficients, *self._fed[:1])
        self._ones, self._closed, self._sealed, self.kept = found.ones, found.closed, found.sealed, found.kept

    def per_chunk(self, make: Callable[..., Any], engine: Engine | None = None) -> PerChunk:
        """make(backend, number, patch) on the owner of each chunk; patch is None where rows need none. Picklable."""
        if self._coefficients is None:
            return (engine or self._engine).per_chunk(make)
        return self._coefficients.per_chunk(make, engine=engine or self._engine)

    def settle(self, layout: PerChunk) -> None:
        """Make what right-hand sides and solutions in this layout need, and let the coefficients go."""
        self._layout = layout
        rule, coefficients, ones = self._problem.rule, self._coefficients, self._ones
        self._coefficients = self._ones = None
        self._fields, self._phases = {}, []
        if self._knows and isinstance(coefficients, LoadedRows):
            given = coefficients.blocks if coefficients.given is None else coefficients.given
            real = coefficients.parts[:1] if self._problem.complex else ()
            self._inverses = self._engine.per_chunk(inverses_of, given, *real)
        if isinstance(rule, Diffusion) and isinstance(coefficients, Coefficients):
            self._cells = CellSides(self._engine, self._partition, coefficients, rule, layout)
        if ones is not None:
            volumes = (self._fed or [ones])[0] if self._cells is None else self._cells.times_volumes(ones)
            self._null_space = self._space(ones, volumes)
        elif self._closed is not None:
            self._null_space = RegionConstants(self._engine, self._closed, layout)
        elif self._given:
            self._null_space = self._given_space(layout)

    def take_values(self, problem: Problem) -> None:
        """Begin to take other values of boundary conditions and held cells, of a problem that is the same otherwise.

        If those of held cells are an array, that is loaded next; then they are `held`. InputError: a value makes no
        sense.
        """
        rule, engine = problem.rule, self._engine.lowered("float64")
        assert isinstance(rule, Diffusion)
        assert self._cells is not None
        self._problem = problem
        self._cells.take(rule, engine)
        if rule.holding is not None:
            self._coefficients = Coefficients(engine, rule.holding, self._partition)

    def hold(self) -> None:
        """Have taken values stand in held cells, for right-hand sides from now on. InputError: one is not finite."""
        rule, coefficients = self._problem.rule, self._coefficients
        if coefficients is None:
            return
        assert isinstance(rule, Diffusion)
        assert isinstance(coefficients, Coefficients)
        self._coefficients = None
        coefficients.prepare()
        assert self._cells is not None
        self._cells.hold(coefficients, rule)

    @property
    def singular(self) -> bool:
        """Whether constants on all cells that are not left out solve A x = 0; known once it is prepared."""
        if self._closed is not None and not self._problem.lattice:
            return self._closed.free == 0
        return self._ones is not None or isinstance(self._null_space, Constants)

    @property
    def closed_regions(self) -> int:
        """Number of regions, once prepared, with a constant that nothing fixes; the whole grid may be one."""
        return int(self.singular) if self._closed is None else self._closed.count

    @property
    def raised(self) -> PerChunk | None:
        """Factors for the diagonal where a preconditioner is made; None for ones: see `ClosedRegions`."""
        return None if self._closed is None else self._closed.factors

    @property
    def raised_cells(self) -> PerChunk | None:
        """`raised` of the cells alone whose factor may not be one."""
        return None if self._closed is None else self._closed.raised_cells

    def assemble(self, b: Field) -> Inconsistency:
        """b, which holds the source, becomes the right-hand side. Returns its inconsistent part."""
        self.feed(b)
        return self.balanced(b)

    def feed(self, b: Field, part: int = 0) -> None:
        """b, the source on a grid whose rows are those of a matrix, becomes the right-hand side; of others it stays.

        part: 0, or 1 for the imaginary part.
        """
        if self._fed:
            assert self._layout is not None
            volumes, *added = self._fed
            make = partial(with_added, lift=self.lift)
            blocks = self._engine.per_chunk(make, self._layout, b, volumes, *added[part : part + 1])
            self._engine.run(LOAD, self._layout, blocks, b)

    def balanced(self, b: Field) -> Inconsistency:
        """`assemble` of a right-hand side that is fed already."""
        self.turn(b)
        if self._cells is not None and self._problem.operator is None:
            self._cells.assemble(b, self.lift)
        found = Inconsistency() if self._null_space is None else self._null_space.project(b)
        return replace(found, sealed=self._sealed)

    def of_field(self, number: int) -> Self:
        """The system of a field's matrix, prepared; its rows are let go."""
        assert isinstance(self._problem, MatrixProblem)
        inner = self._problem.inner[number]
        assert inner.chunks is not None
        partition = Partition(inner.grid, inner.chunks)
        made = System(self._engine.on(partition), inner, partition)
        made.load(ROWS, self._fields.pop(number))
        made.prepare()
        return made

    def turn(self, b: Field) -> None:
        """b = -b, where -A is solved."""
        if self._negated:
            self._engine.run(WAXPBY, -1.0, b, 0.0, b, b)

    def given_matrix(self) -> PerChunk | None:
        """The `ChunkMatrix` of every chunk of the matrix whose residuals count; None where it is A itself."""
        given = self._coefficients.given if isinstance(self._coefficients, LoadedRows) else None
        return None if given is None else self._engine.per_chunk(chunk_matrix, given).at(0)

    def parts(self) -> tuple[PerChunk, ...]:
        """The `ChunkMatrix` of every chunk of the parts of a complex matrix, or of a mass matrix; else ()."""
        parts = self._coefficients.parts if isinstance(self._coefficients, LoadedRows) else ()
        return tuple(self._engine.per_chunk(chunk_matrix, part).at(0) for part in parts)

    def phases(self, layout: PerChunk) -> tuple[Field, ...]:
        """Both parts of d, of a Hermitian matrix that is solved as Dᴴ A D where M is made; () for ones."""
        made = tuple(self._engine.field(layout) for _ in self._phases)
        for blocks, field in zip(self._phases, made, strict=True):
            self._engine.run(LOAD, layout, blocks, field)
        return made

    @property
    def part_rows(self) -> tuple[PerChunk, ...]:
        """The `RowBlock` of every chunk of these, while coefficients are there."""
        assert isinstance(self._coefficients, LoadedRows)
        return tuple(self._coefficients.parts)

    def set_known(self, b: Field, x: Field) -> bool:
        """x takes the unknowns that rows tell alone, which other rows are solved without; whether there are such."""
        if self._inverses is None:
            return False
        assert self._layout is not None
        blocks = self._engine.per_chunk(with_known, self._layout, b, x, self._inverses)
        self._engine.run(LOAD, self._layout, blocks, x)
        return True

    def balance(self, r: Field) -> None:
        """Remove from a residual its part along the null space, which rounding leaves: see `NullSpace`."""
        if self._null_space is not None:
            self._null_space.balance(r)

    @property
    def quiet(self) -> bool:
        """Whether `balance_going_on` serves."""
        return isinstance(self._null_space, RegionConstants) and self._null_space.quiet

    def balance_going_on(self, r: Field, guards: tuple[Scalar, ...]) -> None:
        """`balance` while iterations go on: see `RegionConstants`."""
        assert isinstance(self._null_space, RegionConstants)
        self._null_space.balance_going_on(r, guards)

    @property
    def emptied(self) -> Callable[[Field], None] | None:
        """Function that makes zero of A x in cells that are closed regions by themselves; None where there are none."""
        space = self._null_space
        return space.without_means if isinstance(space, RegionConstants) and space.has_lone_cells else None

    @property
    def null_vectors(self) -> Sequence[Field]:
        """Vectors n with A n = 0 that are known; not those of several closed regions. Known once it is settled."""
        return () if self._null_space is None else self._null_space.vectors

    def volumes(self) -> PerChunk | None:
        """Blocks of the volumes of cells, zero where they are left out; None where rows are not of cells."""
        return None if self._cells is None else self._cells.volumes()

    def clear(self, x: Field) -> None:
        """x = 0 at cells that are left out, or held."""
        if self._problem.masked:
            assert self._cells is not None
            self._cells.clear(x)

    def centered(self, x: Field) -> Field:
        """The solution with mean zero in each region where it is open. x stays, the result until the next call."""
        return x if self._null_space is None else self._null_space.centered(x)

    def filled(self, x: Field) -> PerChunk | None:
        """Blocks of x with the values of held cells; None where there are none."""
        return None if self._cells is None else self._cells.filled(x, self.lift)

    def _space(self, ones: PerChunk, volumes: PerChunk) -> Constants:
        assert self._layout is not None
        fields = [self._engine.field(self._layout) for _ in range(3)]
        for x, blocks in zip(fields, (ones, volumes), strict=False):
            self._engine.run(LOAD, self._layout, blocks, x)
        return Constants(self._engine, *fields)

    def _given_space(self, layout: PerChunk) -> NullVectors:
        given, self._given = self._given, []
        vectors = [self._engine.field(layout) for _ in given]
        for blocks, vector in zip(given, vectors, strict=True):
            self._engine.load(blocks, layout, vector)
        return NullVectors(self._engine, vectors, (self._engine.field(layout), self._engine.field(layout)))
