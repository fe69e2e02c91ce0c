"""Cells where u is held: no unknowns, but neighbors with a value, as a Dirichlet condition is one of a face."""

from collections.abc import Callable
from dataclasses import dataclass

from dsolver.errors import InputError
from dsolver.kernels.formats.layout import Array
from dsolver.problems.discretization import Patch
from dsolver.units import counted


@dataclass(frozen=True, kw_only=True)
class Link:
    """Couplings to held cells in one direction."""

    cells: Array  # of the chunk, which are coupled so, as numbers in lattice order
    couplings: Array  # of each, area / resistance of the face
    beyond: Array  # the held cell of each, as a number in lattice order of the chunk with a layer around it


@dataclass(frozen=True, kw_only=True)
class HeldCells:
    """The held cells of a chunk, numbers in lattice order, and what couples others to held ones, of any chunk."""

    cells: Array
    links: tuple[Link, ...]

    def fed(self, patch: Patch, name: str, number: complex | None) -> "HeldValues":
        """The values, a field of the patch or one number, and what they add to b. InputError: one is not finite."""
        if number is not None:
            values: Array = patch.xp.full(len(self.cells), number)
            return HeldValues(cells=self.cells, values=values, feeds=self._feeds(lambda link: number * link.couplings))
        values, around = patch.own[name].reshape(-1)[self.cells], patch.padded(name, 0.0).reshape(-1)
        bad = int((~patch.xp.isfinite(values)).sum())
        if bad:
            raise InputError(f"fixed has NaN or infinity in {counted(bad, 'value')} of chunk {patch.number}")
        return HeldValues(
            cells=self.cells, values=values, feeds=self._feeds(lambda link: link.couplings * around[link.beyond])
        )

    def _feeds(self, value: Callable[[Link], Array]) -> tuple[tuple[Array, Array], ...]:
        return tuple((link.cells, value(link)) for link in self.links)


@dataclass(frozen=True, kw_only=True)
class HeldValues:
    """Values of the held cells of a chunk."""

    cells: Array
    values: Array
    # numbers of cells, different ones in each pair, and what is added to their right-hand sides: see `Source`.
    feeds: tuple[tuple[Array, Array], ...]

    def fill(self, x: Array) -> None:
        """Write the values into x, (nz, ny, nx)."""
        _, ny, nx = x.shape  # in any order in memory, some of which CuPy flattens as copies
        x[self.cells // (ny * nx), self.cells // nx % ny, self.cells % nx] = self.values
