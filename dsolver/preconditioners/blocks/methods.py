"""Preconditioners of systems of blocks, made of those of fields (Elman, Silvester, Wathen 2014, chapters 4 and 9)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal, Self, final, get_args

from dsolver.engines.base import Field
from dsolver.errors import InputError
from dsolver.kernels.contract import WAXPBY
from dsolver.krylov.method import ApproximateInverse
from dsolver.krylov.methods import FOR_FACTORS, FOR_INDEFINITE
from dsolver.matrices.composed.blocks import FieldMatrix
from dsolver.matrices.properties import is_upwind
from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.base import Preconditioner, is_a
from dsolver.preconditioners.blocks.base import BlockPreconditioner
from dsolver.preconditioners.blocks.fields import BlockField, BlockSystem
from dsolver.preconditioners.direct.choice import cost_little
from dsolver.preconditioners.relaxation.chebyshev import Chebyshev
from dsolver.problems import Problem

Correction = Literal["full", "diagonal"]
TWO: Final = 2
CYCLES: Final = 3
"""Cycles of multigrid for A₁₁ of Taylor-Hood elements: of the vortex of `bench/stokes.py` with 5,000, 21,000 and 83,000
unknowns 47, 66 and 79 iterations with one become 32, 41 and 43, for no more time."""
FOR_MASS: Final = Chebyshev(degree=4, ratio=6.0)
"""Nearly the inverse of a mass matrix M: the eigenvalues of D⁻¹M are 1/2 to 2 for linear triangles, 1/2 to 5/2 for
tetrahedra (Wathen 1987)."""


@final
@dataclass(frozen=True, kw_only=True)
class BlockDiagonal(BlockPreconditioner):
    """The fields' preconditioners side by side, each positive definite: for MINRES where A is symmetric.

    With the exact inverses of the first block and of the Schur complement, MINRES takes three iterations (Murphy,
    Golub, Wathen 2000).
    """

    def usual_method(self, problem: Problem) -> str:
        """MINRES, or flexible GMRES where A is not symmetric."""
        return FOR_FACTORS if problem.unsymmetric else FOR_INDEFINITE

    def _together(self, system: BlockSystem) -> ApproximateInverse:
        return _SideBySide(system)


@final
@dataclass(frozen=True, kw_only=True)
class BlockTriangular(BlockPreconditioner):
    """The fields one after the other, as in a sweep of Gauss-Seidel: for flexible GMRES, whether A is symmetric or not.

    Each application costs a product with A for each field but the first. With exact inverses of A₁₁ and of the Schur
    complement GMRES takes two iterations (Murphy, Golub and Wathen 2000).

    Attributes:
        upper: whether the last field is the first one.
    """

    upper: bool = False

    def _together(self, system: BlockSystem) -> ApproximateInverse:
        fields = system.fields(positive=False)
        return _OneByOne(system, fields[::-1] if self.upper else fields)


@final
@dataclass(frozen=True, kw_only=True)
class Schur(BlockPreconditioner):
    """The block factors of a system of two fields, with a preconditioner for its Schur complement: SIMPLE and its kin.

    z₁ = M₁ r₁, z₂ = M₂ (r₂ - A₂₁ z₁), z₁ = z₁ - N A₁₂ z₂. For flexible GMRES; an application costs two products with A.

    Attributes:
        correction: what N is: "full" for M₁ once more, "diagonal" for the inverse diagonal of A₁₁, as SIMPLE has it
            (Patankar and Spalding 1972).

    Raises:
        InputError: there is no such correction.
    """

    correction: Correction = "full"

    def __post_init__(self) -> None:
        asked: Any = self.correction
        if asked not in get_args(Correction):
            raise InputError(f"correction must be 'full' or 'diagonal', not {asked!r}")

    def _together(self, system: BlockSystem) -> ApproximateInverse:
        fields = system.fields(positive=False)
        if len(fields) != TWO:
            raise InputError(f"Schur is for two fields, not {len(fields)}: use BlockTriangular")
        return _Factors(system, *fields, diagonal=self.correction == "diagonal")


@final
@dataclass(frozen=True, kw_only=True)
class LeastSquaresCommutator(BlockPreconditioner):
    """Block triangle with the least-squares commutator for the Schur complement: for flows with convection (Oseen).

    With D = diag(A₁₁) and T = -A₂₁ D⁻¹ A₁₂, whose inverse is M₂: z₂ = -T⁻¹ (A₂₁ D⁻¹ A₁₁ D⁻¹ A₁₂) T⁻¹ r₂ and z₁ =
    M₁ (r₁ - A₁₂ z₂) (BFBᵀ: Elman, SIAM J. Sci. Comput. 20, 1999; Elman, Silvester, Wathen 2014, section 9.2.3, with the
    diagonal of the mass of velocities for D, which on even meshes is as good). Nothing has to be given. It is for
    elements that are stable, without A₂₂. For flexible GMRES; an application costs four products with A.

    Attributes:
        turns: how often the preconditioner of each field is applied, each time to what is left, where it is a cycle of
            multigrid. T⁻¹ stands there twice: with one cycle for it in place of three, 12,160 unknowns at a cell
            Reynolds number of 16 take more than 200 iterations in place of 42.

    Raises:
        InputError: turns are no two positive numbers.
    """

    augments: ClassVar[bool] = False
    turns: tuple[int, int] = (2, 3)

    def __post_init__(self) -> None:
        asked: Any = self.turns
        right = isinstance(asked, tuple | list) and len(asked) == TWO and all(is_a(n, int) and n > 0 for n in asked)
        if not right:
            raise InputError(f"turns must be two positive integers, not {asked!r}")

    def _usual(self, of_field: FieldMatrix, before: Sequence[FieldMatrix]) -> Preconditioner | None:
        """Algebraic multigrid for T, a discrete Laplacian, too, and one that knows the flow for A₁₁."""
        if before:
            return Algebraic()
        flows = of_field.problem.asymmetry and is_upwind(of_field.problem.matrix)
        return Algebraic(coarsening="air") if flows else super()._usual(of_field, before)

    def _together(self, system: BlockSystem) -> ApproximateInverse:
        if len(self.parts) != TWO:
            raise InputError(f"LeastSquaresCommutator is for two fields, not {len(self.parts)}: use BlockTriangular")
        first, second = system.fields(positive=False, turns=self.turns)
        return _OneByOne(system, (_LeastSquares(system, first, second), first))


@final
@dataclass(frozen=True, kw_only=True)
class PressureConvectionDiffusion(BlockPreconditioner):
    """Block triangle with pressure convection-diffusion (PCD) for the Schur complement: for flows with convection.

    z₂ = -A_p⁻¹ F_p M_p⁻¹ r₂ and z₁ = M₁ (r₁ - A₁₂ z₂), with matrices of the pressure's elements (Kay, Loghin, Wathen,
    SIAM J. Sci. Comput. 24, 2002; Elman, Silvester, Wathen 2014, section 9.2). Where fluid leaves, pressures of
    `laplacian` and `convection` are held at zero: their rows and columns have the diagonal alone; where it enters,
    `convection` has -∫ (w·n) p q more (Elman and Tuminaro, ETNA 35, 2009). For flexible GMRES; an application costs a
    product with A.

    Attributes:
        mass: M_p, ∫ p q.
        laplacian: A_p, ∫ ∇p·∇q.
        convection: F_p, ∫ ν ∇p·∇q + (w·∇p) q, with the viscosity ν and the flow w of A₁₁.
        M: of A₁₁, M_p and A_p, a tuple, or one for all. By default cycles of algebraic multigrid that know the flow, a
            polynomial, and a cycle.
    """

    augments: ClassVar[bool] = False
    products: ClassVar[int] = 1
    mass: Any = field(repr=False, compare=False)
    laplacian: Any = field(repr=False, compare=False)
    convection: Any = field(repr=False, compare=False)

    def informed(self, problem: Problem) -> Self:
        """Without matrices, and with each field's preconditioner informed."""
        made = replace(super().informed(problem), mass=None, laplacian=None, convection=None)
        made._look_at_parts()
        return made

    def _given(self, fields: int) -> Sequence[Any]:
        if fields != TWO:
            raise InputError(f"PressureConvectionDiffusion is for two fields, not {fields}: use BlockTriangular")
        return "block", self.mass, self.laplacian, self.convection

    def _usual(self, of_field: FieldMatrix, before: Sequence[FieldMatrix]) -> Preconditioner | None:
        if before:
            return FOR_MASS if len(before) == 1 else Algebraic()
        flows = of_field.problem.asymmetry and not cost_little(of_field.problem)
        return Algebraic(coarsening="air") if flows else super()._usual(of_field, before)

    def _together(self, system: BlockSystem) -> ApproximateInverse:
        first, *second = system.fields(positive=False, turns=(CYCLES, 1, 1, 1))
        return _OneByOne(system, (_ConvectionDiffusion(system, *second), first))


class _SideBySide:
    def __init__(self, system: BlockSystem) -> None:
        self._fields = system.fields(positive=True)

    def apply(self, r: Field, z: Field) -> None:
        """z = M r, field by field."""
        for each in self._fields:
            each.apply(r, z)


class _OneByOne:
    def __init__(self, system: BlockSystem, fields: Sequence[ApproximateInverse]) -> None:
        self._system, self._fields = system, fields
        self._left, self._az = system.field(), system.field()

    def apply(self, r: Field, z: Field) -> None:
        """z = M r, with what the fields before have left of r."""
        engine, left = self._system.engine, r
        engine.fill(self._system.layout, 0.0, z)
        for number, each in enumerate(self._fields):
            if number:
                self._system.matrix.multiply(z, self._az)
                engine.run(WAXPBY, 1.0, r, -1.0, self._az, self._left)
                left = self._left
            each.apply(left, z)


class _Factors:
    def __init__(self, system: BlockSystem, first: BlockField, second: BlockField, *, diagonal: bool) -> None:
        self._system, self._first, self._second, self._diagonal = system, first, second, diagonal
        self._left, self._az, self._change = (system.field() for _ in range(3))

    def apply(self, r: Field, z: Field) -> None:
        """z = M r by the factors of A."""
        system, engine, change = self._system, self._system.engine, self._change
        engine.fill(system.layout, 0.0, z)
        self._first.apply(r, z)
        system.matrix.multiply(z, self._az)
        engine.run(WAXPBY, 1.0, r, -1.0, self._az, self._left)
        engine.fill(system.layout, 0.0, change)
        self._second.apply(self._left, change)
        engine.run(WAXPBY, 1.0, z, 1.0, change, z)
        system.matrix.multiply(change, self._az)
        engine.fill(system.layout, 0.0, change)
        (self._first.apply_diagonal if self._diagonal else self._first.apply)(self._az, change)
        engine.run(WAXPBY, 1.0, z, -1.0, change, z)


class _LeastSquares:
    def __init__(self, system: BlockSystem, first: BlockField, second: BlockField) -> None:
        self._system, self._first, self._second = system, first, second
        self._part, self._az = system.field(), system.field()

    def apply(self, r: Field, z: Field) -> None:
        """z = -T⁻¹ (A₂₁ D⁻¹ A₁₁ D⁻¹ A₁₂) T⁻¹ r in the rows of the second field; in others z is zero, and stays so."""
        system, engine, part, az = self._system, self._system.engine, self._part, self._az
        engine.fill(system.layout, 0.0, part)
        self._second.apply(r, part)
        system.matrix.multiply(part, az)
        engine.fill(system.layout, 0.0, part)
        for _ in range(2):  # D⁻¹ A₁₂ and D⁻¹ A₁₁
            self._first.apply_diagonal(az, part)
            system.matrix.multiply(part, az)
        self._second.apply(az, z)
        engine.run(WAXPBY, -1.0, z, 0.0, z, z)


class _ConvectionDiffusion:
    def __init__(self, system: BlockSystem, mass: BlockField, laplacian: BlockField, convection: BlockField) -> None:
        self._mass, self._laplacian, self._convection = mass, laplacian, convection
        self._part = system.field()

    def apply(self, r: Field, z: Field) -> None:
        """z = -A_p⁻¹ F_p M_p⁻¹ r in the rows of the pressure, with the signs of the system; the others stay."""
        part = self._part
        self._mass.apply(r, part)
        self._convection.multiply(part, part)
        self._laplacian.apply(part, z)
