"""What conjugate gradients can be preconditioned with: recipes, made into a `Preconditioner` next to the data.

`dsolver.solve` and `dsolver.Solver` take one as ``M``, by name or as an object of this module with options of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Final, final

import numpy as np

from dsolver.cycle import MultigridCycle
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.errors import InputError, in_a_line
from dsolver.hierarchy import Level
from dsolver.kernels import DTYPES, Backend
from dsolver.kernels.contract import CHEBYSHEV, JACOBI, LOAD
from dsolver.krylov import ConjugateGradient, Preconditioner
from dsolver.levels import HPCG_LEVELS
from dsolver.multigrid import VCycle
from dsolver.operator import Operator
from dsolver.partition import Partition, Triple

LANCZOS_STEPS: Final = 10
SAFETY: Final = 1.1
"""What the largest eigenvalue that so few steps have found is multiplied by."""


@final
@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a preconditioner is made.

    Attributes:
        engine: runs the kernels.
        levels: the `ChunkLevel` of every chunk for each level, finest first.
        operator: A.
        cg: whose fields may be used as work space until the first solve; they must then be zero again.
        grids: the levels of `dsolver.hierarchy` for a recipe that asked for them, the finest of which is A.
        single: where the engine is for several vectors, what the recipe has made of the same for one; else None.
    """

    engine: Engine
    levels: Sequence[PerChunk]
    operator: Operator
    cg: ConjugateGradient
    grids: Sequence[Level] = ()
    single: Preconditioner | None = None

    @property
    def layout(self) -> PerChunk:
        """The finest level's `Layout` of every chunk."""
        return self.levels[0].at("layout")

    @property
    def matrix(self) -> PerChunk:
        """The finest level's matrix of every chunk."""
        return self.levels[0].at("matrix")


class Recipe(ABC):
    """How a preconditioner is made. Small and picklable, unless it runs in this process alone.

    Attributes:
        levels: how many levels of a `Hierarchy` it needs.
        recorded: whether it is the same kernels on the same handles each time.
        everywhere: whether ranks of a cluster can make it.
        galerkin: whether it needs the levels of `dsolver.hierarchy` instead.
        bare: whether it needs nothing of A but its products, so that a constant stencil need not be stored.
        lowerable: whether it can be made on an engine of a smaller value type. It must not use `Site.cg` then.
        batchable: whether it can be made on a batched engine. It must not read scalars there.
    """

    levels: ClassVar[int] = 1
    recorded: ClassVar[bool] = True
    everywhere: ClassVar[bool] = True
    galerkin: ClassVar[bool] = False
    bare: ClassVar[bool] = False
    lowerable: ClassVar[bool] = False
    batchable: ClassVar[bool] = False

    @abstractmethod
    def on(self, site: Site) -> Preconditioner | None:
        """The preconditioner; None for the identity."""


@final
@dataclass(frozen=True)
class Identity(Recipe):
    """No preconditioner: ``M=None`` or ``"none"``."""

    bare: ClassVar[bool] = True
    batchable: ClassVar[bool] = True

    def on(self, site: Site) -> None:
        """None."""


@final
@dataclass(frozen=True, kw_only=True)
class Multigrid(Recipe):
    """One V-cycle of a multigrid method for any grid, cut and coefficients: ``"mg"``.

    Interpolation follows the coefficients, coarse matrices are PᵀAP, there are as many levels as it takes, and the
    number of iterations hardly depends on the size of the grid (docs/theory.md).

    Attributes:
        sweeps: 1, or 2 for twice the smoothing on the finest level: fewer iterations for coefficients that are rough
            from cell to cell. By default 2 where the matrix is rough (`dsolver.roughness`) and no level leaves the
            lattice for that (`dsolver.algebraic`), else 1.
        visits: 1, or 2 for two visits of the larger coarse levels: fewer iterations where coefficients jump in
            random patches of several cells. By default 2 where the matrix is rough, else 1.

    Raises:
        InputError: one of them is neither 1 nor 2.
    """

    galerkin: ClassVar[bool] = True
    lowerable: ClassVar[bool] = True
    batchable: ClassVar[bool] = True
    sweeps: int | None = None
    visits: int | None = None

    def __post_init__(self) -> None:
        for name in ("sweeps", "visits"):
            value = getattr(self, name)
            if value is not None and not (_is(value, Integral) and value in (1, 2)):
                raise InputError(f"{name} must be 1 or 2, not {value!r}")

    def on(self, site: Site) -> MultigridCycle:
        """The V-cycle."""
        visits = 2 if site.grids[0].rough else 1
        sweeps = 1 if any(level.algebraic for level in site.grids) else visits
        return MultigridCycle(site.grids, self.sweeps or sweeps, self.visits or visits)


@final
@dataclass(frozen=True)
class Hpcg(Recipe):
    """One V-cycle of the HPCG benchmark, four levels with injection between them: ``"hpcg"``.

    The extents of every chunk must be divisible by 8.
    """

    levels: ClassVar[int] = HPCG_LEVELS
    lowerable: ClassVar[bool] = True
    batchable: ClassVar[bool] = True

    def on(self, site: Site) -> VCycle:
        """The V-cycle."""
        return VCycle(site.engine, list(site.levels))


# -- diagonal scaling and polynomials in it ----------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Jacobi(Recipe):
    """Division by the diagonal of A: ``"jacobi"``. Worth its cost where the diagonal varies by orders of magnitude."""

    batchable: ClassVar[bool] = True

    def on(self, site: Site) -> Preconditioner:
        """z = D⁻¹ r."""
        return _Jacobi(site)


@final
class _Jacobi:
    def __init__(self, site: Site) -> None:
        self._engine, self._matrix = site.engine, site.matrix

    def apply(self, r: Field, z: Field) -> None:
        """z = D⁻¹ r."""
        self._engine.run(JACOBI, self._matrix, r, 1.0, z)


@final
@dataclass(frozen=True, kw_only=True)
class Chebyshev(Recipe):
    """A polynomial in D⁻¹A: steps of the Chebyshev iteration from zero: ``"chebyshev"``.

    It needs neither sweeps nor levels, and between dot products it does several products with A: where latency is what
    an iteration costs, fewer iterations are faster (Saad, Iterative Methods for Sparse Linear Systems, 12.3.2; Adams,
    Brezina, Hu, Tuminaro, J. Comput. Phys. 188, 2003).

    Attributes:
        degree: products with D⁻¹A and one, so `degree` - 1 products with A each time.
        ratio: the iteration damps eigenvalues of D⁻¹A between the largest / ratio and the largest, which
            `LANCZOS_STEPS` steps of Lanczos' method estimate at set-up. Those below are left to conjugate gradients.

    Raises:
        InputError: the degree is no integer >= 1, or the ratio no finite number > 1.
    """

    batchable: ClassVar[bool] = True
    degree: int = 4
    ratio: float = 30.0

    def __post_init__(self) -> None:
        if not (_is(self.degree, Integral) and self.degree >= 1):
            raise InputError(f"degree must be an integer >= 1, not {self.degree!r}")
        if not (_is(self.ratio, Real) and 1.0 < self.ratio < math.inf):
            raise InputError(f"ratio must be a finite number > 1, not {self.ratio!r}")

    def on(self, site: Site) -> Preconditioner:
        """The polynomial, for the largest eigenvalue that is estimated now, if it has not been."""
        if isinstance(site.single, _Chebyshev):
            return _Chebyshev(site, site.single.steps)
        return _Chebyshev(site, self.coefficients(SAFETY * largest_eigenvalue(site)))

    def coefficients(self, largest: float) -> list[tuple[float, float]]:
        """(keep, gain) of each step d = keep d + gain D⁻¹ (r - A z), z += d (Saad, algorithm 12.1, with D⁻¹A for A).

        The first begins from z = 0, so its `keep` is 0.
        """
        smallest = largest / self.ratio
        center, half = (largest + smallest) / 2.0, (largest - smallest) / 2.0
        sigma = center / half
        rho = 1.0 / sigma
        steps = [(0.0, 1.0 / center)]
        for _ in range(self.degree - 1):
            before, rho = rho, 1.0 / (2.0 * sigma - rho)
            steps.append((rho * before, 2.0 * rho / half))
        return steps


def _is(value: object, kind: type) -> bool:
    """isinstance, where the annotation says so already and a caller may not have read it."""
    return isinstance(value, kind)


@final
class _Chebyshev:
    def __init__(self, site: Site, steps: list[tuple[float, float]]) -> None:
        self._engine, self._matrix, self._operator = site.engine, site.matrix, site.operator
        self.steps = steps
        self._d, self._az = (site.engine.field(site.layout) for _ in range(2))

    def apply(self, r: Field, z: Field) -> None:
        """z = q(D⁻¹A) D⁻¹ r with the polynomial q."""
        engine = self._engine
        (_, first), *steps = self.steps
        engine.run(JACOBI, self._matrix, r, first, z)
        if steps:
            engine.copy(z, self._d)
        for keep, gain in steps:
            self._operator.apply(z, self._az)
            engine.run(CHEBYSHEV, self._matrix, r, self._az, keep, gain, self._d, z)


def largest_eigenvalue(site: Site) -> float:
    """An estimate from below of the largest eigenvalue of D⁻¹A.

    By conjugate gradients with D for M on a rough right-hand side: their coefficients are those of Lanczos' method
    (Saad, 6.7.3). Leaves the fields of `site.cg` zero. Where A or D is not positive definite it is 1: the first
    iteration of the solve finds that out and ends.
    """
    engine, cg = site.engine, site.cg
    engine.run(LOAD, site.layout, engine.per_chunk(Noise(partition=engine.partition)), cg.b)
    engine.fill(site.layout, 0.0, cg.x)
    cg.preconditioner = _Jacobi(site)
    cg.start(0.0)
    pairs: list[tuple[float, float]] = []
    for _ in range(LANCZOS_STEPS):
        cg.step()  # not by `repeat`, which may keep a recording of it
        rz, pap = engine.read(cg.rz, cg.pap)
        if not (0.0 < rz < math.inf and 0.0 < pap < math.inf):
            break
        pairs.append((rz, pap))
    cg.preconditioner = None
    for used in (cg.b, cg.x):
        engine.fill(site.layout, 0.0, used)
    return ritz_values(pairs)[-1] if pairs else 1.0


def ritz_values(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Ascending eigenvalues of Lanczos' tridiagonal matrix from (rᵀMr, pᵀAp) of each conjugate gradient step."""
    rz, pap = np.array(pairs).T
    alpha, beta = rz / pap, rz[1:] / rz[:-1]
    diagonal = 1.0 / alpha
    diagonal[1:] += beta / alpha[:-1]
    beside = np.sqrt(beta) / alpha[:-1]
    values: list[float] = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)).tolist()
    return values


@final
@dataclass(frozen=True, kw_only=True)
class Noise:
    """Makes a block of rough values in -0.5 .. 0.5, which depend on the points' places in the grid alone."""

    partition: Partition

    def __call__(self, backend: Backend, number: int) -> Any:
        """float64 (nx, ny, nz) for a chunk."""
        xp = backend.xp
        x, y, z = (xp.arange(a, b, dtype=np.uint32) for a, b in _ranges(self.partition, number))
        bits = (
            (x * np.uint32(73856093))[:, None, None]
            ^ (y * np.uint32(19349663))[None, :, None]
            ^ (z * np.uint32(83492791))[None, None, :]
        )
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):  # of C. Wellons' hash functions with low bias
            bits ^= bits >> np.uint32(shift)
            bits *= np.uint32(factor)
        bits ^= bits >> np.uint32(16)
        values = bits.astype(np.float64)
        values *= 2.0**-32
        values -= 0.5
        return values


def _ranges(partition: Partition, number: int) -> Iterator[tuple[int, int]]:
    box = partition[number].box
    return zip(box.lo, box.hi, strict=True)


# -- the user's own ----------------------------------------------------------------------------------------------------


@final
@dataclass(kw_only=True)
class Function(Recipe):
    """A function of the user, called with whole arrays in this process.

    Attributes:
        function: z = function(r), both of the grid's shape.
        host: whether it wants NumPy arrays, and not the device's.
    """

    recorded: ClassVar[bool] = False
    everywhere: ClassVar[bool] = False
    bare: ClassVar[bool] = True
    function: Callable[[Any], Any]
    host: bool = field(default=True)

    def on(self, site: Site) -> Preconditioner:
        """The function, as a preconditioner."""
        return _Function(self, site)


@final
class _Function:
    def __init__(self, recipe: Function, site: Site) -> None:
        self._recipe, self._engine, self._layout = recipe, site.engine, site.layout

    def apply(self, r: Field, z: Field) -> None:
        """z = function(r)."""
        engine, partition = self._engine, self._engine.partition
        result = self._recipe.function(self._whole(engine.unload(r, self._layout)))
        shape = getattr(result, "shape", None)
        if shape is None or tuple(shape) != partition.grid:
            found = type(result).__name__ if shape is None else f"an array of shape {tuple(shape)}"
            raise InputError(f"M returned {found}: it must return an array of the grid's shape {partition.grid}")
        if np.dtype(result.dtype).kind not in "fiu":
            raise InputError(f"M returned an array of dtype {result.dtype}: real numbers are needed")
        engine.load({chunk.number: result[chunk.box.slices] for chunk in partition}, self._layout, z)

    def _whole(self, blocks: Mapping[int, Any]) -> Any:
        host = self._recipe.host
        found = {number: block.get() if host and hasattr(block, "get") else block for number, block in blocks.items()}
        if len(found) == 1:
            return found[0]
        like, partition = found[0], self._engine.partition
        whole = np.empty_like(like, shape=partition.grid)  # of the blocks' kind: NumPy asks the array
        for chunk in partition:
            whole[chunk.box.slices] = found[chunk.number]
        return whole


def _of_operator(operator: Any, grid: Triple) -> Callable[[Any], Any]:
    """An object of SciPy's kind, (n, n) with `matvec` or ``@``, as a function of arrays of the grid's shape."""
    size = math.prod(grid)
    if tuple(operator.shape) != (size, size):
        raise InputError(
            f"M has shape {tuple(operator.shape)}, but for the grid {grid} it must be ({size}, {size}): a row for each "
            f"point, in the order of b.ravel()"
        )
    product = getattr(operator, "matvec", None) or operator.__matmul__

    def apply(r: Any) -> Any:
        return product(r.reshape(size)).reshape(grid)

    return apply


# -- by name -----------------------------------------------------------------------------------------------------------

NAMED: Final[Mapping[str, Callable[[], Recipe]]] = {
    "mg": Multigrid,
    "hpcg": Hpcg,
    "jacobi": Jacobi,
    "chebyshev": Chebyshev,
    "none": Identity,
}


def check_dtype(recipe: Recipe | None, dtype: str) -> None:
    """Refuse a value type that preconditioners cannot have, or this one.

    Raises:
        InputError: there is no such type, or the recipe is not for it.
    """
    if dtype not in DTYPES:
        raise InputError(f"precond_dtype must be {' or '.join(map(repr, DTYPES))}, not {in_a_line(dtype)}")
    if recipe is not None and dtype != "float64" and not (recipe.lowerable or isinstance(recipe, Identity)):
        raise InputError(f"precond_dtype={dtype!r} is for multigrid: {recipe} works in float64 alone")


def recipe_of(m: Any, grid: Triple) -> Recipe:
    """The recipe of an argument M.

    Args:
        m: a name, a recipe, None, a function z = m(r), or an object of SciPy's kind.
        grid: the problem's.

    Raises:
        InputError: it is none of these.
    """
    if m is None:
        return Identity()
    if isinstance(m, Recipe):
        return m
    if isinstance(m, str) and m in NAMED:
        return NAMED[m]()
    if hasattr(m, "shape") and (hasattr(m, "matvec") or hasattr(m, "__matmul__")):
        return Function(function=_of_operator(m, grid))
    if callable(m) and not isinstance(m, type):
        return Function(function=m)
    names = ", ".join(map(repr, NAMED))
    raise InputError(
        f"unknown preconditioner M={m!r}: use {names}, None, an object of dsolver.preconditioners, "
        f"or a function z = M(r)"
    )
