"""A distributed matrix: on each chunk a local part, a ghost part, and the halo that the ghost part multiplies.

The local part has the entries in columns that the chunk owns, the ghost part those in columns of other chunks, for the
few rows that have such (the boundary). A product runs on the local part while the halo travels; the boundary rows add
the rest. Square for the matrix of a level, rectangular for restriction and prolongation between two levels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

from dsolver.engines.base import Engine, Field, Halo, PartialSums, PerChunk, Scalar
from dsolver.kernels import contract
from dsolver.kernels.formats.layout import HaloLayout, Layout


@final
@dataclass(frozen=True, kw_only=True)
class ChunkMatrix:
    """One chunk's rows of a distributed matrix."""

    layout: Layout
    local: Any  # the entries in own columns, in the backend's form
    ghost: Any = None  # the entries in the columns of other chunks, in the backend's form; its columns are halo slots
    halo: HaloLayout | None = None  # what is exchanged of the vector that is multiplied


@final
class GhostPart:
    """Ghost part of a distributed matrix, of every chunk, and its halo; None without ghosts: nothing is done then."""

    def __init__(self, engine: Engine, parts: tuple[PerChunk, Halo] | None) -> None:
        self._engine, self._parts = engine, parts

    @property
    def there(self) -> bool:
        """Whether rows read other chunks' columns."""
        return self._parts is not None

    def replaced(self, entries: PerChunk | None) -> Self:
        """Other entries in the same columns, with the same halo; None where there are none."""
        if entries is None or self._parts is None:
            return GhostPart(self._engine, None)
        return GhostPart(self._engine, (entries, self._parts[1]))

    @property
    def entries(self) -> PerChunk:
        """The entries of every chunk, where there are such."""
        assert self._parts is not None
        return self._parts[0]

    @property
    def halo(self) -> Halo:
        """The halo of these entries."""
        assert self._parts is not None
        return self._parts[1]

    def exchange(self, x: Field) -> None:
        """Start to send x of the columns that other chunks read."""
        if self._parts is not None:
            self._engine.exchange(x, self._parts[1])

    def add(self, y: Field) -> None:
        """y += the product with the x that was sent."""
        if self._parts is not None:
            self._engine.run(contract.SPMV_HALO, *self._parts, y)

    def subtract(self, y: Field) -> None:
        """y -= it."""
        if self._parts is not None:
            self._engine.run(contract.SUBTRACT_HALO, *self._parts, y)

    def begin_dot(self, x: Field, w: Field) -> None:
        """Send x, and work the product and w . product out beside the inner rows once x has come; w may be x."""
        if self._parts is not None:
            made = self._product  # before the exchange, beside which it may be written
            self.exchange(x)
            self._engine.run_after(self._parts[1], contract.TIMES_HALO_DOT, *self._parts, w, *made)

    def end_dot(self, y: Field, parts: PartialSums) -> None:
        """Add the product that has begun to y, and its dot product to the parts."""
        if self._parts is not None:
            self._engine.run(contract.ADD_HALO_DOT, self._parts[0], *self._product, y, parts)

    @cached_property
    def _product(self) -> tuple[Field, PartialSums]:
        """Work space: the product and its dot product; made for the first `begin_dot`."""
        assert self._parts is not None
        return self._engine.field(self._parts[0]), self._engine.partial_sums()


@final
class Matrix:
    """A distributed matrix on an engine."""

    def __init__(
        self,
        engine: Engine,
        chunks: PerChunk,
        # the chunks whose columns each chunk reads, where they are not its neighbors: see `Engine.halo`.
        senders: Sequence[Sequence[int]] | None = None,
        *,
        # whether rows read other chunks' columns; by default where there are several chunks.
        ghosts: bool | None = None,
    ) -> None:
        self._engine = engine
        self.layout, self.local = chunks.at("layout"), chunks.at("local")
        there = engine.coupled if ghosts is None else ghosts
        self.ghost = GhostPart(engine, (chunks.at("ghost"), engine.halo(chunks.at("halo"), senders)) if there else None)

    @cached_property
    def _parts(self) -> PartialSums:
        return self._engine.partial_sums()

    def multiply(self, x: Field, y: Field, kernel: contract.Kernel = contract.SPMV) -> None:
        """y = A x; kernel: what the local part's format has for that."""
        self.ghost.exchange(x)
        self._engine.run(kernel, self.local, x, y)
        self.ghost.add(y)

    def multiply_dot(self, x: Field, y: Field, dot: Scalar, parts: PartialSums | None = None) -> None:
        """y = A x and dot = x . y, in the same pass over the matrix; parts: `Engine.partial_sums_of` the dot product.

        The boundary rows' products with the halo are worked out beside the inner rows, as soon as it has come.
        """
        self.ghost.begin_dot(x, x)
        parts = self._parts if parts is None else parts
        self._engine.run(contract.SPMV_DOT, self.local, x, y, parts)
        self.ghost.end_dot(y, parts)
        self._engine.total(parts, dot)

    def one_pass_residual(self, b: Field, x: Field, r: Field) -> None:
        """r = b - A x in one pass, for formats that sweeps of Jacobi are made for."""
        self.ghost.exchange(x)
        self._engine.run(contract.RESIDUAL, self.local, b, x, r)
        self.ghost.subtract(r)

    def residual(self, b: Field, x: Field, r: Field, ax: Field) -> None:
        """r = b - A x; ax is work space, where A x is left."""
        self.multiply(x, ax)
        self._engine.run(contract.WAXPBY, 1.0, b, -1.0, ax, r)

    # -- halves of Gauss-Seidel sweeps in the order of the colors: A = L + D + U on own columns, and the ghost part ----

    def solve_lower(self, r: Field, x: Field) -> None:
        """x = (D + L)⁻¹ r."""
        self._engine.run(contract.FORWARD, self.local, r, x)

    def solve_upper(self, r: Field, x: Field) -> None:
        """x = (D + U)⁻¹ r."""
        self._engine.run(contract.BACKWARD, self.local, r, x)

    def minus_upper(self, x: Field, y: Field) -> None:
        """y = -U x less the ghost part's product, which is r - A x after x = (D + L)⁻¹ r."""
        self.ghost.exchange(x)
        self._engine.run(contract.UPPER_RESIDUAL, self.local, x, y)
        self.ghost.subtract(y)

    def minus_lower(self, r: Field, x: Field, w: Field) -> None:
        """w = r - L x less the ghost part's product, of which `solve_upper` makes a backward sweep from x."""
        self.ghost.exchange(x)
        self._engine.run(contract.LOWER_RESIDUAL, self.local, r, x, w)
        self.ghost.subtract(w)

    def sweep_upper(self, r: Field, x: Field, w: Field) -> None:
        """x = x + (D + U)⁻¹ (r - A x), with w for work space."""
        if self.ghost.there:
            self.minus_lower(r, x, w)
            self.solve_upper(w, x)
        else:
            self._engine.run(contract.SWEEP_BACKWARD, self.local, r, x, w)
