"""Pencil of an eigenvalue problem A x = λ B x: its matrices as operators on blocks, and a preconditioner."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from dsolver.engines.base import Field
from dsolver.krylov.blocks.block import Block


class BlockOperator(Protocol):
    """A linear operator on blocks."""

    def apply(self, x: Block, y: Block, wanted: Collection[int]) -> None:
        """y = the operator times x, of the wanted columns at least."""


@dataclass(frozen=True, kw_only=True)
class Pencil:
    """The matrices of an eigenvalue problem, and what is known of them."""

    a: BlockOperator
    b: BlockOperator | None  # B, symmetric positive definite; None for a diagonal
    weights: Field | None  # the diagonal of such a B; None for the identity, too
    m: BlockOperator  # a preconditioner, near A⁻¹ or the identity; any linear operator will do
    sizes: Field  # about those of the rows of A
    size: float  # the usual one of small rows: their geometric mean, about
    sign: float = 1.0  # 1 for the lowest eigenvalues, -1 for the highest
