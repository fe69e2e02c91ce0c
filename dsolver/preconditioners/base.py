"""The interface of a preconditioner: what it can do, what it builds, what it costs and how it is applied."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Final

from dsolver.distributed.forecast import MatrixForecast, Part
from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.grid.partition import Partition
from dsolver.krylov.cg import ConjugateGradient
from dsolver.krylov.control.norms import LEAST_DECREASE
from dsolver.krylov.method import ApproximateInverse, KrylovMethod
from dsolver.krylov.mixed_precision import Lowered
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem

BLOCK_BYTES: Final = 18
"""Bytes of each row: a chunk's part of the solution and of the whole array, and whether b is finite."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Abilities of a preconditioner, for those who decide where and how it is run."""

    batched: bool = False  # it can be made on a batched engine, where it reads no scalars
    # it can be made in a smaller value type than A's; it uses neither `Site.cg` nor `Site.matrix` then.
    lowered: bool = False
    everywhere: bool = True  # a cluster that is open is taken for it; if not, one that is named
    # it is the same kernels on the same handles each time, so that an engine may record an iteration.
    recorded: bool = True
    multilevel: bool = False  # its coarse levels see the whole grid at once
    guesses: bool = False  # it makes first guesses, ``x0="fmg"``
    diagonal: bool = False  # it divides by the diagonal of A
    symmetric: bool = False  # it is made for A = Aᵀ
    complex: bool = False  # it is made for complex A itself, on an engine of complex vectors
    method: str | None = None  # the only method that it serves; None for what A asks for
    any_sign: bool = False  # it need be neither definite nor symmetric where A is not
    # iterations without progress after which it will make none; None for the usual number.
    stagnation: int | None = None
    decrease: float = LEAST_DECREASE  # part of the residual by which it has to fall meanwhile, for that to be progress
    # iterations without progress after which its smaller value type may be the reason; None for no such number. With
    # one, the smaller type is taken on GPUs where none was asked for.
    fallback: int | None = None


Built = tuple[PerChunk, Sequence[Any]]
"""A in float64, the `ChunkMatrix` of every chunk; the preconditioner's levels, finest first, in its value type."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Place where a preconditioner is made."""

    engine: Engine  # runs the kernels, in the preconditioner's value type and for `Engine.width` columns
    chunks: PerChunk  # A in float64, the `ChunkMatrix` of every chunk
    given: PerChunk | None = None  # the same, of the matrix whose residuals count, where that is another one; else None
    parts: tuple[PerChunk, ...] = ()  # the same, of both parts of a complex A, for which `chunks` stands then; else ()
    part_senders: tuple[Any, ...] = ()  # as of `Matrix`, of each of them
    phases: tuple[Field, ...] = ()  # of a Hermitian A both parts of d, where `chunks` stand for Dᴴ A D; else ()
    levels: Sequence[Any]  # of the preconditioner, as it has built them
    matrix: Matrix  # A on the engine of float64
    symmetric: bool  # whether A is
    # whose fields may be used as work space; b and x must then be what they were. None where it has complex ones.
    method: KrylovMethod | None
    # where the engine is for several vectors, what was made of the same for one; else None.
    single: ApproximateInverse | None = None

    @property
    def cg(self) -> ConjugateGradient:
        """Conjugate gradients on A for work at set-up: the solve's own, or some with vectors of their own."""
        if isinstance(self.method, ConjugateGradient):
            return self.method
        made = ConjugateGradient(self.engine, self.matrix.layout)
        made.operator = self.matrix
        return made


@dataclass(frozen=True, kw_only=True)
class Making:
    """Counts of what makes levels on a GPU.

    Attributes:
        moved: bytes that kernels move for a chunk's own rows.
        whole: the same for levels that live whole on every GPU.
        gathered: bytes of the rows of the first of these, which come from all chunks.
        sent: bytes that a chunk sends others beside.
        levels: how many are in chunks, and how many in one.
        host: seconds of a level in which the host leads, and how many more where it is in chunks.
        rounds: of messages between chunks, for each of which a chunk waits.
        messages: that a chunk sends in these.
        questions: for numbers of all chunks.
        tables: of pairs of chunks that each rank makes: who may hear of whom, who gets a part of what is gathered.
    """

    moved: float
    whole: float = 0.0
    gathered: float = 0.0
    sent: float = 0.0
    levels: tuple[int, int]
    host: tuple[float, float]
    rounds: int = 0
    messages: int = 0
    questions: int = 0
    tables: int = 0


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Bytes of A and a preconditioner in one chunk, counted before anything is allocated."""

    levels: Sequence[MatrixForecast]  # matrices, finest first: A, in the preconditioner's value type
    exact: int = 0  # A in float64, where that is one more matrix
    vectors: int = 0  # of the preconditioner, for each right-hand side
    slots: Sequence[int] = ()  # the same, of every halo that it fills
    shared: int = 0  # what all right-hand sides share
    rows: int = 0  # A's rows once more, when set-up needs most, or what else all chunks of a worker need at once
    temporary: int | None = None  # what set-up needs then beside them; None for what A takes by itself
    blocks: int = BLOCK_BYTES  # of each row, while right-hand sides and solutions are brought in and out
    # what one application reads and writes: every stored value for each pass that uses it, every vector for each
    # operation that reads or writes it.
    moved: int = 0
    # the part of a GPU's bandwidth, as of a copy, at which it moves them, levels of few rows aside.
    reached: float = 0.9
    making: Making | None = None  # of levels; None where set-up is worth so many iterations


class Preconditioner(ABC):
    """Choice of a preconditioner with its options: what ``M=`` takes. Small and picklable, unless it is a function.

    A new one is a module of its own with a subclass, of which `relaxation.jacobi` has the shortest, and a name in
    `registry`, in `NAMED` and in the type `PreconditionerName`, and its class in `dsolver.preconditioners`; `M` of
    `session.options.Setup` tells of it. One outside of this package is named by `register`.
    """

    can: ClassVar[Capabilities] = Capabilities()
    kernel_kind: ClassVar[str] = ""
    """Kind of solves whose kernels its set-up begins with, as of `dsolver.kernels.compile_kind`; empty for none."""
    divisor: int = 1
    """A number that divides the extents of every chunk."""
    slabs: ClassVar[bool] = False
    """Whether a grid is cut into slabs across z, where the user does not say how and they are not thin."""
    setup_iterations: ClassVar[float] = 15.0
    """Iterations that take as long as set-up, about: 9 to 28 with multigrid for 64³ rows on a CPU."""
    basis: ClassVar[int | None] = None
    """Vectors of a basis that are enough for a method that keeps one; None for as many as are asked for."""
    # The value type that it is made in, whatever `precond_dtype` says; None for that. An option, where a class has it.
    precision: str | None = None

    @property
    def projecting(self) -> bool:
        """Whether M solves for least squares, so that A M takes nothing but the part that no x can reach from r."""
        return False

    @property
    def asked(self) -> str:
        """The preconditioner as one asks for it, with those options alone that are not as usual, for messages."""
        this: Any = self
        options = [o for o in fields(this) if o.compare] if is_dataclass(this) else []
        unusual = [f"{o.name}={value!r}" for o in options if (value := getattr(this, o.name)) != o.default]
        return f"{type(self).__name__}({', '.join(unusual)})"

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse a system that it is not made for; raises InputError."""

    def asymmetry(self) -> float:
        """Distance from symmetry, as a part of its size: 0 for all that are ours."""
        return 0.0

    def with_fields(self, problem: Problem) -> Problem:
        """A system, not cut yet, with matrices that it needs beside A; most need none."""
        return problem

    def usual_method(self, problem: Problem) -> str | None:
        """Method that it is made for with a system; None where the system tells."""
        return self.can.method

    def informed(self, problem: Problem) -> "Preconditioner":
        """The preconditioner with what its forecast has to know of the problem's arrays, before these are dropped."""
        return self

    def beside(self, problem: Problem) -> int:
        """Bytes that it takes beside what rows and entries tell, all chunks together."""
        return 0

    def build(self, builder: Builder) -> Built:
        """A, stored in the order of a smoother; a preconditioner with levels of its own builds them, too."""
        return builder.stored(), ()

    def matrix(self, builder: Builder, levels: Sequence[Any]) -> PerChunk | None:
        """A alone, as `build` stores it, for levels built of another matrix; None where these cannot serve."""
        return None

    def chosen(self, levels: Sequence[Any]) -> "Preconditioner":
        """The preconditioner that it has chosen to be, as its levels show; itself, if there was nothing to choose."""
        return self

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes for a solution, of the preconditioner that was `chosen`."""
        return ()

    @abstractmethod
    def on(self, site: Site) -> ApproximateInverse | None:
        """M on a site; None for the identity."""

    @abstractmethod
    def forecast(self, part: Part) -> Forecast:
        """Bytes of one chunk, from its shape."""

    def iterations(self, alone: float, rtol: float) -> float:
        """About how many iterations reach rtol, where conjugate gradients alone take so many."""
        return alone

    def setup_seconds(self, problem: Problem, iteration: float) -> float:
        """About how long set-up takes where an iteration takes so many seconds."""
        return self.setup_iterations * iteration


def make(preconditioner: Preconditioner, site: Site, dtype: str = "float64") -> ApproximateInverse | None:
    """M in a value type, for vectors in float64, on a site of float64; None for the identity."""
    preconditioner = preconditioner.chosen(site.levels)
    if dtype == "float64" or not preconditioner.can.lowered:
        return preconditioner.on(site)
    view = site.engine.lowered(dtype)
    inner = preconditioner.on(replace(site, engine=view))
    assert inner is not None
    return Lowered(site.engine, view, inner, site.matrix.layout)


def is_a(value: object, kind: type) -> bool:
    """isinstance, where the annotation says so already and a caller may not have read it."""
    return isinstance(value, kind)
