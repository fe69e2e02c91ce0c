"""A linear system on a grid, of any kind."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, in_a_line
from dsolver.grid.box import BOX_OFFSETS, Flags, Offsets, Triple, three
from dsolver.grid.partition import Cut, Partition, cut_of
from dsolver.monitor.pages.notebook import facts, view
from dsolver.problems.discretization import Patch, Rule
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.functions import UserFunction
from dsolver.problems.rows import rows_of

UNSYMMETRIC: Final = (
    "with symmetric=False it need not be, and is solved by GMRES or BiCGStab, as a sparse matrix of SciPy is"
)
"""Advice on a matrix that is not symmetric, for messages."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A linear system on a grid. Make it with a function of `dsolver.problems`.

    Attributes:
        name: for reports.
        grid: points or cells along x, y, z; one along an axis that the user's grid does not have.
        dimensions: how many axes that has; arrays of the problem have them, see `shape`.
        chunks: how many chunks along x, y, z, or their extents along each (as a Dask array's `chunks`), or None to let
            `dsolver.solve` choose one for each worker.
        offsets: the 7 or 27 offsets of a row's columns, (0, 0, 0) among them.
        weights: the value at each offset where all rows have the same, and zero Dirichlet values outside; else empty.
        periodic: along which axes the last point is followed by the first. An axis of one or two points never is: what
            goes around it is added to the weights.
        singular: whether constants solve A x = 0, so that the solution has mean zero and b must sum to zero; None where
            that depends on the coefficients, or on how the rows of a matrix are connected.
        rule: what makes rows that differ; None where weights are given.
        coefficients: what the rule reads, by name: arrays of the grid's shape.
        senders: the chunks whose columns each chunk reads, where they do not follow from the grid.
        null_vectors: how many vectors n with A n = 0 were given.
        asymmetry: where A differs from its transpose, for messages; empty where it is symmetric.
        hollow: where A has zeros on its diagonal, for messages; empty where it has none.
        indefinite: whether its diagonal tells that A is not positive definite.
        elliptic: whether it is known that rows are as those of an elliptic equation: nearly all couplings are
            negative and have mirror images, and together they are hardly less than the diagonal.
        complex: whether A and its vectors are complex.
        hermitian: whether A is complex and equals its conjugate transpose; `asymmetry` is empty then, too.
        real_valued: whether A = Aᵀ is complex by its type alone, so that it equals its conjugate transpose, too.
        places: workers of a cluster that have the chunks' rows; empty where these are brought to the owner of a chunk.
        notes: what `dsolver.Solution.notes` tell of it.
        operator: a function that is A, where the rows are those of a matrix near it, for preconditioners; else None.
        numbers: int64 (rows,), the user's number of each row; None where that is its own.
        raveled: whether it came as a sparse matrix with a row for each point, so that vectors have the shape (rows,).
    """

    name: str
    grid: Triple
    dimensions: int = 3
    chunks: Cut | None = None
    offsets: Offsets = field(repr=False)
    weights: tuple[float, ...] = field(repr=False, default=())
    periodic: Flags = (False, False, False)
    singular: bool | None = False
    rule: Rule | None = field(repr=False, default=None)
    coefficients: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)
    senders: tuple[tuple[int, ...], ...] | None = field(repr=False, default=None)
    null_vectors: int = 0
    asymmetry: str = field(repr=False, default="")
    hollow: str = field(repr=False, default="")
    indefinite: bool = field(repr=False, default=False)
    elliptic: bool = field(repr=False, default=False)
    complex: bool = False
    hermitian: bool = field(repr=False, default=False)
    real_valued: bool = field(repr=False, default=False)
    places: tuple[str, ...] = field(repr=False, default=())
    notes: tuple[str, ...] = field(repr=False, default=())
    operator: UserFunction | None = field(repr=False, compare=False, default=None)
    numbers: npt.NDArray[np.int64] | None = field(repr=False, compare=False, default=None)
    raveled: bool = field(repr=False, default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", three("grid", self.grid))
        if self.chunks is not None:
            object.__setattr__(self, "chunks", cut_of(self.chunks))
        Partition(self.grid, self.chunks or (1, 1, 1))
        if self.rule is None:
            self._check_weights()

    @property
    def lattice(self) -> bool:
        """Whether its unknowns are points or cells of a grid, and its rows read those around them."""
        return True

    @property
    def by_fluxes(self) -> bool:
        """Whether its rows are those of `dsolver.problems.fluxes`: as of `Rule`, or coefficients are complex."""
        return self.rule is not None and (self.complex or self.rule.by_fluxes)

    @property
    def by_rows(self) -> bool:
        """Whether it is a grid that is solved as a matrix: its rows are by fluxes, or a stencil's is not symmetric."""
        return self.lattice and self.operator is None and (self.by_fluxes or bool(self.asymmetry))

    @property
    def constant(self) -> bool:
        """Whether all rows have the same weights."""
        return self.lattice and self.rule is None

    @property
    def loaded(self) -> tuple[str, ...]:
        """Names of the arrays that rows are made from on their owners."""
        return () if self.rule is None else self.rule.loaded

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of b and x: the grid as its user wrote it; ``b[i, j, k]`` belongs to (i, j, k)."""
        return (math.prod(self.grid),) if self.raveled else self.grid[: self.dimensions]

    @property
    def flat(self) -> bool:
        """Whether it came as a sparse matrix, whose vectors have the shape (rows,)."""
        return self.raveled or not self.lattice

    @property
    def reordered(self) -> bool:
        """Whether rows of chunks follow each other in another order than the user's."""
        return self.numbers is not None

    @property
    def unsymmetric(self) -> str:
        """Place where A, or the matrix that M is made from, differs from its transpose, as of `asymmetry`."""
        return (self.operator.asymmetry if self.operator else "") or self.asymmetry

    @cached_property
    def in_space(self) -> Self:
        """The problem with three axes; itself where it has them."""
        return self if self.dimensions == 3 else replace(self, dimensions=3)

    def to_scipy(self) -> Any:
        """A as a CSR array of SciPy, with a row for each entry of ``b.ravel()``.

        Of a diffusion problem rows are those of finite volumes: a flux balance of each cell, so that A x is b times the
        cells' volumes and what boundary conditions add; cells that are left out have a diagonal alone.

        Raises:
            InputError: A is a function, or lies on a cluster; or a coefficient makes no sense.
        """
        self._check_rows()
        return rows_of(self)

    def _check_rows(self) -> None:
        if self.operator is not None:
            raise InputError("A is a function, which has no entries: apply it to the columns of the identity")

    def to_grid(self, values: Any) -> Any:
        """A user's vector as engines know it, of the grid's shape."""
        return values.reshape(self.grid)

    def from_grid(self, values: Any) -> Any:
        """A vector of the grid's shape as users know it: the inverse of `to_grid`."""
        return values.reshape(self.shape)

    def planned(self, chunks: int, *, cuda: bool | None = None) -> Self:  # noqa: ARG002  # a grid is cut by `Partition`
        """The problem once it is known how many chunks there are: a matrix is cut into them, a grid stays as it is."""
        return self

    @property
    def masked(self) -> bool:
        """Whether cells are no unknowns: left out, or held at a value."""
        return isinstance(self.rule, Diffusion) and self.rule.masked

    @property
    def all_count(self) -> bool:
        """Whether every value of b counts: not those of cells that are no unknowns, which may be anything."""
        return not self.masked

    @property
    def _closed(self) -> str:
        """Kinds of cells that are no unknowns, in words."""
        rule = self.rule
        if not isinstance(rule, Diffusion):
            return ""
        return ", ".join(["cells left out"] * rule.mask + ["cells with u fixed"] * rule.fixed)

    @property
    def faces(self) -> dict[str, str]:
        """The boundary condition at each face of the user's grid, in words; empty where stencils have them in rows."""
        found = self.rule.faces if isinstance(self.rule, Diffusion) else {}
        return {face: condition for face, condition in found.items() if face[0] in "xyz"[: self.dimensions]}

    @property
    def _bounds(self) -> str:
        """The conditions with the faces that have them, in words."""
        faces: dict[str, list[str]] = {}
        for face, condition in self.faces.items():
            faces.setdefault(condition, []).append(face)
        return ", ".join(f"{condition} at {' '.join(at)}" for condition, at in faces.items())

    def __repr__(self) -> str:
        wraps = [axis for axis, periodic in zip("xyz", self.periodic, strict=True) if periodic and not self.faces]
        about = [self._bounds, f"periodic along {', '.join(wraps)}" if wraps else "", self._closed]
        about.append("" if self.chunks is None else f"{self._counted} chunks")
        told = ", ".join(filter(None, about))
        return f"<Problem {self.name} {' × '.join(map(str, self.shape))}{': ' * bool(told)}{told}>"

    def _repr_html_(self) -> str:
        sides = zip("xyz", self.shape, self.periodic, strict=False)
        about = {
            "unknowns": f"{math.prod(self.grid):,}",
            "axes": ", ".join(f"{axis} {n}" + " periodic" * wraps for axis, n, wraps in sides),
            "chunks": self._counted,
            "rows": f"{len(self.offsets)} points, " + ("all the same" if self.constant else "from coefficients"),
            "coefficients": ", ".join(f"{name} {np.shape(array)}" for name, array in self.coefficients.items()),
            "boundary": self._bounds,
            "cells that are no unknowns": self._closed,
            "constants": "in the kernel: the solution has mean zero" if self.singular else "",
        }
        return view(f"Problem {self.name} {' × '.join(map(str, self.shape))}", facts(about))

    @property
    def _counted(self) -> str:
        """Numbers of chunks along each axis, in words."""
        if self.chunks is None:
            return "one for each worker"
        return " × ".join(str(cut if isinstance(cut, int) else len(cut)) for cut in self.chunks[: len(self.shape)])

    @property
    def without_arrays(self) -> Self:
        """This problem without its arrays, small enough to send anywhere."""
        return replace(self, coefficients={}) if self.coefficients else self

    def _check_weights(self) -> None:
        if len(self.offsets) != len(self.weights):
            raise InputError(f"{len(self.offsets)} offsets but {len(self.weights)} weights")
        if len(set(self.offsets)) != len(self.offsets) or not set(self.offsets) <= set(BOX_OFFSETS):
            raise InputError(f"offsets must be different from each other and in -1 .. 1, not {self.offsets}")
        if not np.isfinite(self.weights).all():
            raise InputError(f"the stencil has a weight that is not finite: {self.weights}")
        if (0, 0, 0) not in self.offsets or self.weights[self.offsets.index((0, 0, 0))] == 0.0:
            raise InputError("the stencil has a zero diagonal: Gauss-Seidel and multigrid divide by it")
        if not self.asymmetry:
            check_symmetry(dict(zip(self.offsets, self.weights, strict=True)))

    def values(self, xp: Any, patch: Patch | None = None) -> Any:
        """The weights of a chunk's rows: float64 (K, rows), or (K,) for a constant stencil. InputError: a bad value."""
        if self.rule is None:
            return xp.asarray(self.weights, dtype=xp.float64)
        assert patch is not None
        return self.rule.weights(patch)


def check_symmetry(weights: Mapping[Triple, float]) -> None:
    """Refuse a stencil that is not symmetric under point reflection."""
    for (i, j, k), weight in weights.items():
        if weights.get((-i, -j, -k)) != weight:
            raise InputError(f"the stencil is not symmetric at {(i, j, k)}: {UNSYMMETRIC}")


def check_problem(problem: Any) -> None:
    """Refuse anything but a `Problem`, into which sparse matrices were made before; raises InputError."""
    if not isinstance(problem, Problem):
        raise InputError(
            f"problem must be a sparse matrix of SciPy or CuPy, or come from dsolver.problems, as "
            f"dsolver.problems.hpcg(grid) does, not {no_matrix(problem)}"
        )


CONVERTED: Final = {
    "to_scipy_sparse": "A.to_scipy_sparse() makes one of it",  # of the package sparse
    "to_scipy": "A.to_scipy() makes one of it",  # of DOLFINx
    "getValuesCSR": "scipy.sparse.csr_array(A.getValuesCSR()[::-1], shape=A.size) makes one of it",  # of petsc4py
    "matvec": "dsolver.operator takes square ones",
}
"""Ways from matrices and operators of other packages to a problem, by a method that they have."""


def no_matrix(given: Any) -> str:
    """Name of what was given for a sparse matrix and is none, and what makes one of it, for messages."""
    if isinstance(given, str | os.PathLike):
        return f"{in_a_line(os.fspath(given))}: dsolver.read_matrix(path) reads a matrix from a file"
    if isinstance(given, type):
        return f"the type {given.__name__} itself"
    shown = f"a {type(given).__name__}"  # arrays are long
    if (package := type(given).__module__.partition(".")[0]) in ("torch", "jax"):
        return f"{shown}: dsolver.{package}.solve takes sparse ones"
    for method, made in CONVERTED.items():
        if hasattr(given, method):
            return f"{shown}: {made}"
    if hasattr(given, "nnz") and len(getattr(given, "shape", (0, 0))) != 2:
        return f"{shown} of shape {given.shape}: a matrix has two axes"
    dense = isinstance(given, list) or (len(getattr(given, "shape", ())) == 2 and hasattr(given, "__array__"))
    return f"{shown}: scipy.sparse.csr_array(A) makes a sparse matrix of an array" if dense else shown
