"""Handles of complex vectors and numbers: their real and imaginary parts, handles of an engine of real ones."""

from collections.abc import Sequence
from typing import Any, Final, Literal, Self, final

from dsolver.engines.base import Field, PartialSums, PerChunk, Scalar

Part = Literal["re", "im"]
PARTS: Final[tuple[Part, Part]] = ("re", "im")


@final
class ComplexField(Field):
    """A complex vector; both: its parts as one field of a batched engine, of several vectors all real parts first."""

    def __init__(self, re: Field, im: Field, both: Field | None) -> None:
        self.re, self.im, self.both = re, im, both


@final
class ComplexScalar(Scalar):
    """A complex number that every owner knows, in two parts; sums: room for those of products that it may become."""

    def __init__(self, re: Scalar, im: Scalar, sums: tuple[PartialSums, PartialSums] | None = None) -> None:
        self.re, self.im, self.sums = re, im, sums


@final
class ComplexPerChunk(PerChunk):
    """Objects made of each part of a complex vector by itself."""

    def __init__(self, re: PerChunk, im: PerChunk) -> None:
        self.re, self.im = re, im

    def at(self, *path: str | int) -> Self:
        return ComplexPerChunk(self.re.at(*path), self.im.at(*path))


def part_of(operand: Any, part: Part) -> Any:
    """The part of an operand with two, or the operand."""
    return getattr(operand, part) if isinstance(operand, ComplexField | ComplexPerChunk) else operand


def parts_of_all(scalars: Sequence[Scalar]) -> list[Scalar]:
    """The scalars, two in place of each complex one."""
    found: list[Scalar] = []
    for scalar in scalars:
        found += (scalar.re, scalar.im) if isinstance(scalar, ComplexScalar) else (scalar,)
    return found
