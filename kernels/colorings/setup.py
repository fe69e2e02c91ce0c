"""Set-up of sweeps over the rows of any sparse matrix: which rows read each other, their colors, and factors."""

from typing import Any, ClassVar

from dsolver.kernels.colorings.factors import TriangularFactors
from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.formats.csr import Csr


class SweepSetup:
    """Set-up of sweeps where a matrix lies, by modules whose functions of these names work there."""

    xp: ClassVar[Any]
    colors: ClassVar[Any]
    factors: ClassVar[Any]

    def graph_of(self, a: Csr) -> Graph:
        """Graph of a square matrix with ascending columns; one of two mirrored entries couples both rows."""
        return self.colors.graph_of(a)

    def rows_of(self, graph: Graph) -> Any:
        """Row of each coupling: int32."""
        return self.colors.rows_of(graph)

    def first_fit(self, graph: Graph) -> Any:
        """Greedy coloring, int32 (rows,): each row gets the first color that no neighbor before it has.

        At most one color more than the longest row has couplings; on a lattice in its own order the parity classes.
        """
        return self.colors.first_fit(graph)

    def levels(self, graph: Graph, block: int) -> Any:
        """Levels within blocks of consecutive rows, int32 (rows,) from 0: each after the last neighbor before it."""
        return self.colors.levels_inside(graph, block)

    def sets(self, graph: Graph, keys: Any, *, smallest: bool) -> Any:
        """The independent set of each row, int32 (rows,), some of which no row may have.

        In each round every key makes a set of the rows where it is the largest among those of uncolored neighbors, and
        then perhaps one of those where it is the smallest. A row that may have several of them takes the first.
        """
        return self.colors.sets(graph, keys, smallest=smallest)

    def sweep_factors(self, a: Csr, color: Any) -> TriangularFactors:
        """Factors (D + L) D⁻¹ (D + U) of a symmetric Gauss-Seidel sweep. BreakdownError: the diagonal has a zero."""
        return self.factors.sweep_factors(a, color)

    def incomplete_factors(
        self, a: Csr, color: Any, *, shift: float = 0.0, positive: bool = False
    ) -> TriangularFactors:
        """Incomplete factors without fill, ILU(0): those of A where A has entries (Saad, Iterative Methods, 10.3.2).

        Of a symmetric matrix they are those of IC(0), (I + L) D (I + Lᵀ).

        Args:
            color: of each row; two rows that read each other have different ones.
            shift: that times its diagonal is added to A first (Manteuffel, Math. Comp. 34, 1980).

        Raises:
            BreakdownError: a pivot is zero up to rounding, not finite, or not positive though it must be.
        """
        return self.factors.incomplete_factors(a, color, shift=shift, positive=positive)
