"""Preconditioners of systems of blocks, made of those of fields (Elman, Silvester, Wathen 2014, chapters 4 and 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, final, get_args

from dsolver.engines.base import Field
from dsolver.errors import InputError
from dsolver.kernels.contract import WAXPBY
from dsolver.krylov.method import ApproximateInverse
from dsolver.krylov.methods import FOR_FACTORS, FOR_INDEFINITE
from dsolver.preconditioners.blocks.base import BlockField, BlockPreconditioner, BlockSystem
from dsolver.problems import Problem

Correction = Literal["full", "diagonal"]
TWO: Final = 2


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

    Each application costs a product with A for each field but the first. With exact inverses GMRES takes two
    iterations.

    Attributes:
        upper: whether the last field is the first one.
    """

    upper: bool = False

    def usual_method(self, problem: Problem) -> str:  # for any
        """Flexible GMRES."""
        return FOR_FACTORS

    def _together(self, system: BlockSystem) -> ApproximateInverse:
        return _OneByOne(system, upper=self.upper)


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

    def usual_method(self, problem: Problem) -> str:  # for any
        """Flexible GMRES."""
        return FOR_FACTORS

    def _together(self, system: BlockSystem) -> ApproximateInverse:
        fields = system.fields(positive=False)
        if len(fields) != TWO:
            raise InputError(f"Schur is for two fields, not {len(fields)}: use BlockTriangular")
        return _Factors(system, *fields, diagonal=self.correction == "diagonal")


@final
class _SideBySide:
    def __init__(self, system: BlockSystem) -> None:
        self._fields = system.fields(positive=True)

    def apply(self, r: Field, z: Field) -> None:
        """z = M r, field by field."""
        for each in self._fields:
            each.apply(r, z)


@final
class _OneByOne:
    def __init__(self, system: BlockSystem, *, upper: bool) -> None:
        self._system, self._fields = system, system.fields(positive=False)[:: -1 if upper else 1]
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


@final
class _Factors:
    def __init__(self, system: BlockSystem, first: BlockField, second: BlockField, *, diagonal: bool) -> None:
        self._system, self._first, self._second, self._diagonal = system, first, second, diagonal
        self._left, self._az, self._change = (system.field() for _ in range(3))

    def apply(self, r: Field, z: Field) -> None:
        """z = M r by the factors of A."""
        system, engine, change = self._system, self._system.engine, self._change
        engine.fill(system.layout, 0.0, z)
        self._first.apply(r, z)
        self._leave(r, z)
        engine.fill(system.layout, 0.0, change)
        self._second.apply(self._left, change)
        engine.run(WAXPBY, 1.0, z, 1.0, change, z)
        system.matrix.multiply(change, self._az)
        engine.fill(system.layout, 0.0, change)
        (self._first.apply_diagonal if self._diagonal else self._first.apply)(self._az, change)
        engine.run(WAXPBY, 1.0, z, -1.0, change, z)

    def _leave(self, r: Field, z: Field) -> None:
        """left = r - A z."""
        self._system.matrix.multiply(z, self._az)
        self._system.engine.run(WAXPBY, 1.0, r, -1.0, self._az, self._left)
