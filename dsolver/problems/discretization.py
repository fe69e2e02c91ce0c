"""Discretization: matrix rows from coefficients, computed on each chunk's owner with NumPy or CuPy.

Arrays here have the axes z, y, x, so that raveled they are in lattice order.
"""

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dsolver.errors import InputError
from dsolver.grid.box import STAR_OFFSETS, Box, Offsets, Triple
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import Array

PACKAGE: Final = str(Path(__file__).parents[1])  # folder of this package, in which no line is the user's


@dataclass(frozen=True, kw_only=True)
class Patch:
    """The coefficients of one chunk."""

    backend: Backend
    partition: Partition
    number: int
    own: Mapping[str, Array]  # the coefficients at the chunk's cells, float64 (nz, ny, nx), by name
    halos: Mapping[str, Array] = field(default_factory=dict)  # those of the cells around it, in slot order, by name
    offsets: Offsets = STAR_OFFSETS  # which cells around it they are of

    @property
    def xp(self) -> Any:
        """The array module."""
        return self.backend.xp

    @property
    def box(self) -> Box:
        """The chunk's cells."""
        return self.partition[self.number].box

    @property
    def shape(self) -> Triple:
        """(nz, ny, nx)."""
        nx, ny, nz = self.box.shape
        return nz, ny, nx

    def padded(self, name: str, outside: float) -> Array:
        """A coefficient with a layer of cells around: float64 (nz + 2, ny + 2, nx + 2), `outside` where none are."""
        out: Array = self.xp.full([n + 2 for n in self.shape], outside)
        out[self.box.around(self.box)] = self.own[name]
        self.partition.fill_around(self.number, self.offsets, out, self.halos[name])
        return out


class Rule(ABC):
    """Discretization rule: matrix rows from coefficients. Small and picklable: it goes to every owner."""

    offsets: Offsets

    @property
    @abstractmethod
    def loaded(self) -> tuple[str, ...]:
        """Names of the coefficients that come as arrays."""

    @property
    @abstractmethod
    def exchanged(self) -> tuple[str, ...]:
        """Names of those whose values around a chunk are needed."""

    @property
    def varying(self) -> bool:
        """Whether a coefficient may differ from cell to cell."""
        return bool(self.loaded)

    @property
    def by_fluxes(self) -> bool:
        """Whether rows are those of `dsolver.problems.fluxes`: something flows, or κ is a full tensor."""
        return False

    def prepared(self, patch: Patch, name: str) -> Array:
        """Own values of a coefficient before they are exchanged: (nz, ny, nx). InputError: a value makes no sense."""
        return patch.own[name]

    @abstractmethod
    def weights(self, patch: Patch) -> Array:
        """The values at each offset: float64 (K, rows). InputError: a coefficient makes no sense."""

    @abstractmethod
    def grounded(self, patch: Patch) -> Array:
        """Cells whose row's sum is not zero by construction, so that it fixes the constant: bool (nz, ny, nx).

        Of cells that are left out it may say anything.
        """


def evaluated(xp: Any, what: str, function: Callable[..., Any], points: Sequence[Array], shape: Sequence[int]) -> Array:
    """Values of a user's function at points, in its dtype, broadcast to a shape. InputError (of `what`): it fails."""
    try:
        values = xp.asarray(function(*points))
    except Exception as error:
        if isinstance(error, MemoryError) or type(error).__module__.startswith("cupy"):
            raise  # the memory's or the device's fault, which the caller reports
        raise InputError(f"the function for {what} raised {error!r}{_line_of(error)}") from error
    if values.dtype.kind not in "biuf":
        hint = "; complex ones are given as an array" if values.dtype.kind == "c" else ""
        raise InputError(f"the function for {what} returned dtype {values.dtype}: real numbers are needed{hint}")
    try:
        whole: Array = xp.broadcast_to(values, tuple(shape))
    except ValueError:
        raise InputError(
            f"the function for {what} returned an array of shape {values.shape}, which does not broadcast to "
            f"{tuple(shape)}: compute with the x, y and z that it is called with"
        ) from None
    return whole


def _line_of(error: Exception) -> str:
    """Line of the user's function that an error passed, or "": tracebacks do not travel from worker to client."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(PACKAGE)]
    return f" at {frames[0].filename}, line {frames[0].lineno}" if frames else ""
