"""Program for eigenvalues: a system that is set up with its preconditioner, and LOBPCG on blocks of vectors beside it.

As for `Solve`, every rank makes its own instance and runs the same commands at the same time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.matrix import Matrix
from dsolver.distributed.nullspace import dots
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.engines.running_program import Blocks
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD, TIMES
from dsolver.krylov.blocks.block import WIDTH, BlockOperator, Pencil, groups_of, width_for
from dsolver.krylov.blocks.lobpcg import Lobpcg, NotFiniteError
from dsolver.krylov.method import FEW, Operator
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.base import make
from dsolver.preconditioners.relaxation.chebyshev import noises
from dsolver.program.operators import Emptied, OperatorInGroups
from dsolver.program.row_sizes import sizes_of_rows
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from dsolver.status import Status

FALLEN: Final = 0.9  # part of the smallest residuals that counts as smaller ones
STAGNATION: Final = 60
"""Iterations after which residuals that have not become smaller are given up, where M is multigrid."""
ONE_LEVEL: Final = 500  # such a number where M has no coarse grid


@dataclass(frozen=True, kw_only=True)
class EigenTerms:
    """Terms on which eigenvalues are sought."""

    wanted: int  # how many, beside those of known null vectors
    size: int  # vectors that are iterated on
    highest: bool  # whether the highest are wanted, not the lowest
    tol: float  # as of `Lobpcg`, as `offset`
    maxiter: int
    offset: float = 0.0
    # whether a negative value ends the search, for then the lowest are not those of least magnitude.
    definite: bool = False
    plain: bool = False  # whether M is left out
    # iterations after which the search ends where no value is negative; None for no such number.
    probed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Found:
    """Eigenvalues as far as they are known."""

    values: tuple[float, ...]  # wanted and other ones, in the order of their vectors
    residuals: tuple[float, ...]  # ‖A x - λ B x‖₂ of each, with xᵀBx = 1
    limits: tuple[float, ...]  # what each should become
    rounding: tuple[float, ...]  # what it may add to each value
    iterations: int
    status: Status | None  # how the search has ended; None where it goes on


class EigenProgram(Solve):
    """Eigenvalues of the matrix that is set up."""

    what = "eigenvalues"
    _terms: EigenTerms

    def __init__(self, engine: Engine, spec: SolveSpec) -> None:
        super().__init__(engine, spec)
        self._mass: Field | None = None
        self._guesses: dict[int, Field] = {}
        self._modes: Lobpcg | None = None

    def set_mass(self, blocks: Blocks) -> None:
        """Take a diagonal for B: on cells, a density."""
        self._mass = self.engine.field(self.layout)
        self.engine.load(blocks, self.layout, self._mass)

    def set_guess(self, blocks: Blocks, column: int) -> None:
        """Take a first guess of a column."""
        self._guesses[column] = self.engine.field(self.layout)
        self.engine.load(blocks, self.layout, self._guesses[column])

    @property
    def modes(self) -> Lobpcg:
        """The search that has begun."""
        assert self._modes is not None
        return self._modes

    def null_vectors(self) -> int:
        """Number of vectors n with A n = 0 that are known."""
        return len(self.system.null_vectors)

    def open_rows(self) -> int:
        """Number of rows but for those of cells that are left out, or held."""
        ones = self.method.work[0]
        self.engine.fill(self.layout, 1.0, ones)
        self.system.clear(ones)
        (count,) = dots(self.engine, self.engine.partial_sums(), (ones, ones))
        return round(count)

    def search(self, terms: EigenTerms) -> Found:
        """Begin: from first guesses, and from what M makes of rough vectors; from all vectors where these are few."""
        engine, known = self.engine, () if terms.highest else self.system.null_vectors
        rows = math.prod(engine.partition.grid)
        whole = rows <= 3 * terms.size + len(known)
        size = rows if whole else terms.size
        modes = Lobpcg(engine, self.layout, self._pencil(size, terms), size, len(known), terms.tol, terms.offset)
        if modes.known is not None:
            for n, column in zip(known, modes.known.columns, strict=True):
                engine.copy(n, column)
        self._modes, self._terms = modes, terms
        self._best, self._since = math.inf, 0
        self._status: Status | None = None
        self._load(modes.x.columns, 0, whole=whole)
        self._smooth(modes, terms, whole=whole)
        for column in modes.x.columns:
            self._clear(column)
        try:
            modes.start()
            if len(modes.values) < size and not whole:  # where one value is far below others, M leaves its vector alone
                self._load(modes.x.columns, len(modes.values), whole=whole)
                modes.start()
        except NotFiniteError:
            self._status = Status.NOT_FINITE
        else:
            self._status = None if len(modes.values) else Status.CONVERGED  # all vectors are known
        return self.found()

    def advance(self, steps: int, measured: bool = False) -> Found:
        """Make so many iterations, or fewer; measured: whether the last one is to have spans."""
        for left in reversed(range(steps)):
            if self._status is not None:
                break
            if measured and not left:
                self.engine.measured(self._iterate)
            else:
                self._iterate()
        return self.found()

    def found(self) -> Found:
        """Values and residuals as they are now."""
        modes = self.modes
        arrays = {name: tuple(getattr(modes, name).tolist()) for name in ("values", "residuals", "limits", "rounding")}
        return Found(**arrays, iterations=modes.iterations, status=self._status)

    def vector(self, column: int, *, known: bool = False, host: bool = False, room: Any = None) -> Blocks:
        """A vector as blocks by chunk number: an iterate, or a null vector; host, room: as of `Engine.on_host`."""
        block = self.modes.known if known else self.modes.x
        assert block is not None
        blocks = self.vectors.unload(block.columns[column], self.layout)
        return self.engine.on_host(blocks, room) if host else blocks

    def end(self) -> None:
        """Give the vectors back, and what was recorded on them."""
        self.engine.forget()
        self._modes, self._guesses = None, {}

    def _load(self, columns: Sequence[Field], first: int, *, whole: bool) -> None:
        """Fill the columns from `first` on with rough vectors, or with unit vectors."""
        make, partition = _units if whole else noises, self.engine.partition
        at_once = WIDTH if math.prod(partition.grid) <= FEW * len(partition) else 1  # eight take 100 bytes a row
        for start, stop in groups_of(len(columns) - first, at_once):
            seeds = range(first + start + (not whole), first + stop + (not whole))
            values = self.engine.per_chunk(partial(_made, make, partition, seeds))
            for place, column in enumerate(columns[first + start : first + stop]):
                self.engine.run(LOAD, self.layout, values.at(place), column)
                self._clear(column)

    def _clear(self, column: Field) -> None:
        """Make zero of a vector at cells without a value: where they are left out, or held."""
        self.system.clear(column)
        problem = self.spec.problem
        if self._mass is not None and isinstance(problem, MatrixProblem) and problem.of_grid is not None:
            self.engine.run(TIMES, self._mass, column, column)

    def _smooth(self, modes: Lobpcg, terms: EigenTerms, *, whole: bool) -> None:
        """Have M take from rough vectors what is far from the lowest ones, and set guesses in place of the first.

        Factors would take what lies in a null space as well, if A has one that is not known.
        """
        smooths = not self.spec.preconditioner.can.any_sign
        if smooths and not whole and not terms.highest and not terms.plain:
            modes.smooth()
        for number, guess in self._guesses.items():
            self.engine.copy(guess, modes.x.columns[number])

    def _pencil(self, size: int, terms: EigenTerms) -> Pencil:
        width = width_for(size)
        problem = self.spec.problem
        at_once = width if problem.operator is None else 1
        a = self._matrix(self.method.operator, self.prepared.site.chunks, problem.senders, at_once)
        if self.system.emptied is not None:
            a = Emptied(a, self.system.emptied)
        plain = terms.highest or terms.plain
        m = OperatorInGroups(self.engine, self.engine.copy, None, 1, recorded=False) if plain else self._inverse(width)
        sizes, usual = sizes_of_rows(self.engine, self.layout, self.method.operator)
        (b, weights), sign = self._b(width), -1.0 if terms.highest else 1.0
        return Pencil(a=a, b=b, weights=weights, m=m, sizes=sizes, size=usual, sign=sign)

    def _b(self, width: int) -> tuple[BlockOperator | None, Field | None]:
        """B as a matrix, or as a diagonal: volumes of cells, what was given for it, or both of these; none for ones."""
        engine, problem = self.engine, self.spec.problem
        if self.prepared.beside:
            assert isinstance(problem, MatrixProblem)
            chunks, senders = self.prepared.beside[0], problem.part_senders[0]
            return self._matrix(Matrix(engine, chunks, senders), chunks, senders, width), None
        volumes = self.system.volumes() if problem.operator is None else None  # a function is A as it is
        if volumes is None:
            return None, self._mass
        made = engine.field(self.layout)
        engine.run(LOAD, self.layout, volumes, made)
        if self._mass is not None:
            of_cells, made = made, engine.field(self.layout)
            engine.run(TIMES, of_cells, self._mass, made)
        return None, made

    def _matrix(self, one: Operator, chunks: PerChunk, senders: Any, width: int) -> BlockOperator:
        """A distributed matrix on groups of columns, if the engine has fields of several; `one` may be a function."""
        view = self.engine.batched(width) if width > 1 else None
        wide = None if view is None else Matrix(view, chunks, senders).multiply
        return OperatorInGroups(self.engine, one.multiply, wide, width, recorded=isinstance(one, Matrix))

    def _inverse(self, width: int) -> BlockOperator:
        """M on groups of columns, if it can be made for them."""
        spec, engine, single = self.spec, self.engine, self.preconditioner
        one = engine.copy if single is None else single.apply
        view = engine.batched(width) if width > 1 and spec.preconditioner.can.batched and single is not None else None
        if view is None:
            recorded = single is not None and spec.preconditioner.can.recorded
            return OperatorInGroups(engine, one, None, 1, recorded=recorded)
        matrix = Matrix(view, self.prepared.site.chunks, spec.problem.senders)
        site = replace(self.prepared.site, engine=view, matrix=matrix, method=None, single=single)
        wide = make(spec.preconditioner, site, spec.precond_dtype)
        return OperatorInGroups(
            engine, one, None if wide is None else wide.apply, width, recorded=spec.preconditioner.can.recorded
        )

    def _iterate(self) -> None:
        """Make an iteration, unless its first half tells that the search has ended."""
        try:
            self.modes.measure()
            if self._terms.definite and self.modes.negative:  # or was larger before, and that is its rounding
                self.modes.measure(anew=True)
        except NotFiniteError:
            self._status = Status.NOT_FINITE
            return
        self._status = self._end()
        if self._status is None:
            self.modes.improve()

    def _end(self) -> Status | None:
        """The end of the search, as residuals tell that were just measured; None where it goes on."""
        modes, terms = self.modes, self._terms
        wanted = slice(0, terms.wanted)
        limits = np.maximum(modes.limits[wanted], np.finfo(np.float64).tiny)  # all are zero where A is
        worst = float(np.max(modes.residuals[wanted] / limits, initial=0.0))
        if worst < FALLEN * self._best:
            self._best, self._since = worst, modes.iterations
        if terms.definite and modes.negative:
            return Status.INDEFINITE
        if worst <= 1.0 or (terms.probed is not None and modes.iterations >= terms.probed and not modes.negative):
            return Status.CONVERGED
        if modes.iterations - self._since >= (STAGNATION if self.spec.preconditioner.can.multilevel else ONE_LEVEL):
            return Status.STAGNATED
        return Status.MAX_ITERATIONS if modes.iterations >= terms.maxiter else None


def _made(make: Callable[..., Any], partition: Partition, seeds: range, backend: Backend, number: int) -> Any:
    return tuple(make(partition, backend, number, seeds))


def _units(partition: Partition, backend: Backend, number: int, rows: range) -> Any:
    """A chunk's parts of vectors that are 1 in one row, in the order of the whole grid, and 0 elsewhere."""
    box, blocks = partition[number].box, []
    for row in rows:
        place = np.array(np.unravel_index(row, partition.grid)) - box.lo
        block = np.zeros(box.shape)
        if (place >= 0).all() and (place < box.shape).all():
            block[tuple(place)] = 1.0
        blocks.append(block)
    return backend.asarray(np.array(blocks))
