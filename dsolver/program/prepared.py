"""Set-up of a program: the matrix, the levels of its preconditioner, and what a change of either leaves."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

from dsolver.discretize.complex_system import ComplexSystem
from dsolver.discretize.system import System
from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.engines.running_program import Blocks
from dsolver.kernels import Backend
from dsolver.kernels.deferred import UnforeseenError
from dsolver.kernels.formats.dense import DenseInverse
from dsolver.krylov.method import ApproximateInverse, KrylovMethod
from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.level import Level
from dsolver.multigrid.reuse import KeptLevels, Outcome, Reuse, same_order
from dsolver.preconditioners.base import Built, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.program.batches.batch import Batch, BatchesByWidth
from dsolver.program.batches.column import Sides
from dsolver.program.null_space_check import check_null_space
from dsolver.program.spec import SolveSpec


@dataclass(frozen=True, kw_only=True)
class PreparedSystem:
    """A matrix that is set up, with its preconditioner's levels. The old one is given back before another is made."""

    layout: PerChunk
    site: Site  # where preconditioners are made: the matrix, and the levels
    sides: Sides  # deals with right-hand sides and solutions
    beside: tuple[PerChunk, ...]  # matrices beside A: of an eigenvalue problem its mass matrix

    @cached_property
    def skipped(self) -> float:
        """Rows of multigrid's last level of which its solution makes nothing; 0 where there is none."""
        last = self.site.levels[-1] if self.site.levels else None
        if not isinstance(last, Level) or last.inverse is None:
            return 0.0
        engine = last.engine.lowered("float64")  # sums are made in it
        return sum(engine.sums(engine.per_chunk(_skipped, last.inverse)))


class PreparedProgram(ABC):
    """A program on one matrix with one preconditioner, set up once and used as often as wanted.

    Where the matrix follows from coefficients that are arrays, they are loaded first, each by its name, and then
    `set_up` is called; otherwise that has been done when the program is made or updated.

    Attributes:
        spec: the system, and what it is solved with.
        engine: of the matrix.
        vectors: the engine of vectors, which are complex where the system is.
        system: deals with coefficients.
    """

    def __init__(self, engine: Engine, spec: SolveSpec) -> None:
        self.engine = engine if spec.dtype == "float64" else engine.lowered(spec.dtype)
        self._reuse: Reuse | None = None
        self._prepared: PreparedSystem | None = None
        self._widths = BatchesByWidth()
        self._kept: KeptLevels | None = None
        self._begin(spec)

    def update(self, spec: SolveSpec, reuse: bool = False, keep: bool = False) -> None:
        """Take another matrix. What belongs to the old one is given back first; b and x are zero again.

        `reuse`: whether set-up may keep what follows from the places of entries. From the first time on it leaves this
        for the next one. `keep`: whether M is to stay what it is, where that can be.
        """
        self._kept = self._to_keep(spec) if keep else None
        if reuse or self._reuse is not None:
            self._reuse = (self._reuse if reuse else None) or Reuse()
        self.engine.forget()  # recordings of kernels on the old matrix
        self._prepared = None
        self._widths.clear()
        self._begin(spec)

    def _to_keep(self, spec: SolveSpec) -> KeptLevels | None:
        """The levels, where M of another matrix may be made of them; None where it may not."""
        before, problem = self.spec, spec.problem
        alike = (spec.preconditioner, spec.lowered) == (before.preconditioner, before.lowered)
        if not alike or problem.complex or problem.asymmetry or problem.operator is not None:
            return None
        return KeptLevels.of(self.prepared.site.levels, self.layout, self.system.closed_regions)

    def precondition(self, spec: SolveSpec) -> None:
        """Take another preconditioner for the same matrix, and another method; all b and x stay.

        The old preconditioner is given back first.

        As for `update`, coefficients that are arrays are loaded again.
        """
        self._reuse = self._kept = None
        self._release()  # A is built anew, too: never two of them
        if (spec.method, spec.restart, spec.most) != (self.spec.method, self.spec.restart, self.spec.most):
            if not spec.traits.batched:
                self._widths.narrow()
            for columns in self._widths:
                columns.take_method(spec)
        self._begin(spec)

    def _release(self) -> None:
        """Give the matrix and the preconditioner back; vectors stay."""
        self.engine.forget()
        for columns in self._widths:
            columns.release()
        self._prepared = None

    def _begin(self, spec: SolveSpec) -> None:
        self.spec = spec
        self._has_kept = False
        self.vectors: Engine = ComplexEngine(self.engine) if spec.problem.complex else self.engine
        self.system = System(self.engine, spec.problem, spec.partition)
        if not spec.problem.loaded:
            self.set_up()

    def take_values(self, spec: SolveSpec) -> None:
        """Take other values of boundary conditions and held cells, for right-hand sides that come from now on.

        Nothing is set up anew. If those of held cells are an array, that is loaded as other coefficients are, and then
        `hold` is called.
        """
        self.spec = spec
        self.system.take_values(spec.problem)
        if not self.system.awaits_values:
            self.hold()

    def hold(self) -> None:
        """As of `System`."""
        self.system.hold()

    def set_up(self) -> None:
        """Build the matrix and its levels from the coefficients. InputError: one makes no sense."""
        with self.engine.reusing():
            self.system.prepare()
            kept = 1 in self._widths
            if not self._made(kept=kept):
                self._made(kept=kept)
        self._kept = None  # the site has them
        self.system.settle(self.layout)
        if self.spec.problem.operator is not None:
            check_null_space(self.vectors, self.layout, self.method, self.prepared.sides)

    def await_levels(self) -> None:
        """Wait until the owners have made what the preconditioner keeps, or have refused it: tasks tell that late."""
        for level in self.prepared.site.levels:
            if isinstance(level, PerChunk):
                self.engine.fetch(self.engine.per_chunk(_is_made, level))

    def _made(self, *, kept: bool) -> bool:
        """Make the matrix and the levels, and the vectors unless these are kept; whether what was foreseen is so.

        If not, nothing is left of what was made.
        """
        try:
            with self.engine.confirming() as is_open:
                self._make(kept=kept)
                if is_open():  # the device is behind: recording costs nothing
                    self._widths.single.record()
        except UnforeseenError:
            pass  # what only its frames hold goes with it
        else:
            return True
        self._release()
        if not kept:
            self._widths.clear()
        return False

    def _make(self, *, kept: bool) -> None:
        spec, engine = self.spec, self.engine

        def make_room(chunks: PerChunk) -> None:
            if not kept:
                self._widths.add(Batch(self.vectors, chunks.at("layout"), spec))

        chunks, levels = self._built(spec.builder(engine, self.system, self._reuse, make_room))
        layout: PerChunk = chunks.at("layout")
        if 1 not in self._widths:
            make_room(chunks)
        elif kept and not same_order(engine, layout, self._widths.single.layout):  # as another M stores its rows
            self._widths.lay_out(layout, self.spec)
            self._take_moved()
        sides: Sides = self.system
        if isinstance(self.vectors, ComplexEngine):
            sides = ComplexSystem(self.system, self.vectors, layout)
        parts, whole = self.system.parts(), spec.problem.complex
        site = Site(
            engine=engine,
            chunks=chunks,
            given=self.system.given_matrix(),
            parts=parts if whole else (),
            part_senders=spec.problem.part_senders if isinstance(spec.problem, MatrixProblem) and whole else (),
            phases=self.system.phases(layout),
            levels=levels,
            matrix=Matrix(engine, chunks, spec.problem.senders),
            symmetric=not spec.problem.asymmetry,
            method=self.method,
        )
        self._prepared = PreparedSystem(layout=layout, site=site, sides=sides, beside=() if whole else parts)
        for columns in self._widths:  # the first are those of one
            self._set_up(columns)

    @abstractmethod
    def _take_moved(self) -> None:
        """Go on with b and x that were brought to another layout."""

    def _built(self, builder: Builder) -> Built:
        """A and the levels; what was kept for a preconditioner that has no use for it is given back."""
        self._has_kept = False
        if self._kept is not None:
            a = self.spec.preconditioner.matrix(builder, self._kept.levels)
            if a is not None and self._kept.serve(self.engine, a.at("layout"), self.system.closed_regions):
                self._has_kept = True
                return a, self._kept.levels
            self._kept = a = None  # before others are made
        reuse = builder.reuse
        if reuse is None:
            return self.spec.preconditioner.build(builder)
        reuse.outcome = "none"
        made = self.spec.preconditioner.build(builder)
        if reuse.outcome == "none":
            reuse.kept = None
        return made

    def _set_up(self, columns: Batch) -> None:
        made = self.prepared
        site = made.site if columns.width == 1 else replace(made.site, single=self.preconditioner)
        columns.set_up(made.sides, site, self.spec)

    def load_coefficient(self, blocks: Blocks, name: str) -> None:
        """Set a coefficient that the matrix is made from."""
        self.system.load(name, blocks)

    @property
    def prepared(self) -> PreparedSystem:
        """The matrix and its levels, which are set up."""
        assert self._prepared is not None
        return self._prepared

    @property
    def layout(self) -> PerChunk:
        """`Layout` of every chunk of the finest level."""
        return self.prepared.layout

    @property
    def operator(self) -> Matrix:
        """A."""
        return self.prepared.site.matrix

    @property
    def columns(self) -> Batch:
        """Right-hand sides that are solved together, or were."""
        return self._widths.chosen

    @property
    def method(self) -> KrylovMethod:
        """The method for one right-hand side."""
        return self._widths.single.method

    @property
    def preconditioner(self) -> ApproximateInverse | None:
        """M for one right-hand side."""
        return self.method.preconditioner

    def closed_regions(self) -> int:
        """Number of regions that have a constant of their own, which nothing fixes; the whole grid may be one."""
        return self.system.closed_regions

    def reused(self) -> Outcome:
        """Outcome of the set-up, where it was to use the one before."""
        if self._has_kept:
            return "kept"
        return "none" if self._reuse is None else self._reuse.outcome

    def chosen(self) -> Preconditioner:
        """The preconditioner, or what it has chosen to be."""
        return self.spec.preconditioner.chosen(self.prepared.site.levels)


def _skipped(backend: Backend, _: int, inverse: DenseInverse) -> tuple[float]:
    return (float(inverse.skipped(backend.to_host)),)


def _is_made(_: Backend, __: int, ___: object) -> bool:
    return True
