"""Fluxes of a solution through faces, by the discretization's own formula, on arrays of NumPy, CuPy and Dask.

They are computed where the solution's array is. Of a Dask array each worker looks at its own blocks, and a sum is one
number of each.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dsolver.errors import InputError, in_a_line
from dsolver.foreign_arrays import module_of, on_host, without_package
from dsolver.grid.box import Box
from dsolver.problems.boundaries.conditions import FACES
from dsolver.problems.discretization import evaluated
from dsolver.problems.embedding import Embedding
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.coefficients import field_of
from dsolver.problems.fluxes.form import FluxForm
from dsolver.problems.fluxes.tensors import tensor_fluxes

if TYPE_CHECKING:
    from dsolver.problems.problem import Problem


def _any_kappa() -> Any:
    """Context of sums in which cells without a flux may have any κ."""
    return np.errstate(all="ignore")


class FaceFluxes:
    """Fluxes through faces of cells, −κ ∂u/∂n, and v u where there is a velocity v, times their area.

    With u = x they and σ u V balance f V in each cell up to its residual.

    Args:
        problem: of `dsolver.problems.diffusion`, with its arrays.
        x: its solution: an array of NumPy, CuPy or Dask, or one of xarray or of a package that knows DLPack.

    Raises:
        InputError: the problem is another one.
    """

    def __init__(self, problem: "Problem | None", x: Any) -> None:
        if problem is None or not isinstance(problem.rule, Diffusion):
            raise InputError("only solutions of dsolver.problems.diffusion have fluxes, before they were pickled")
        self._rule, self._problem = problem.rule, problem
        x = without_package("x", x.data if hasattr(x, "dims") else x)
        self._u = x[(..., *(None,) * (3 - problem.dimensions))]
        self._xp, self._asarray = _package(x)
        self._tensor: list[Any] | None = None
        if problem.rule.cross:  # by this process, as its rows are
            made = tensor_fluxes(problem, np.asarray(on_host(x), dtype=np.float64))
            missing = (None,) * (3 - problem.dimensions)
            self._tensor = [self._asarray(along[(..., *missing)]) for along in made]
            return
        with _any_kappa():
            self._form = FluxForm(problem, self._xp, self._asarray, self._field)
        named = zip(self._rule.fields, self._rule.kappa, strict=True)
        fields = {name: self._field(name) for name, number in named if number is None}
        self._kappa = [fields.get(name, value) for name, value in zip(self._rule.fields, self._rule.kappa, strict=True)]

    def through(self, face: str) -> float | complex:
        """Flux out of the grid through one of its faces; InputError: there is no such face."""
        faces = [face for face in FACES if face[0] in "xyz"[: self._problem.dimensions]]
        if face not in faces:
            raise InputError(f"flux names {in_a_line(face)}: the faces are {', '.join(faces)}")
        number = FACES.index(face)
        if self._tensor is not None:
            axis, side = divmod(number, 2)
            return self.across(axis, -1) if side else -self.across(axis, 0)
        with _any_kappa():
            return _number(self._form.outflow(self._kappa, self._u, number // 2, number % 2).sum())

    def across(self, axis: int, face: int) -> float | complex:
        """Flux through a layer of faces along an axis, in its direction; face: its number, or negative from the end."""
        if self._tensor is not None:
            return _number(self._xp.take(self._tensor[axis], face, axis=axis).sum())
        with _any_kappa():
            return _number(self._form.flux_across(self._kappa, self._u, axis, face).sum())

    def into(self, cells: Any) -> float | complex:
        """Flux into cells from all others; cells: an array of the grid's shape, true at them, or InputError."""
        flags = without_package("flux", cells.data if hasattr(cells, "dims") else cells)
        if np.dtype(getattr(flags, "dtype", object)).kind not in "biu" or flags.shape != self._problem.shape:
            raise InputError(
                f"flux is that through a face, such as 'x-', or into cells: an array of shape {self._problem.shape} "
                f"that is True there, not {in_a_line(cells)}"
            )
        inside = 1.0 * (self._asarray(Embedding.of(self._problem.shape).array(flags)) != 0)
        total: Any = 0.0
        with _any_kappa():
            for low, high, through in self._between():
                flux = through * (inside[high] - inside[low])
                total = total + self._xp.where(inside[high] == inside[low], 0.0, flux).sum()
        return _number(total)

    def _between(self) -> Iterator[tuple[Any, Any, Any]]:
        """Faces between cells: indices of the cells on both sides, and the flux from one to the other."""
        if self._tensor is None:
            for low, high, a, b in self._form.couplings(self._kappa):
                yield low, high, a * self._u[low] - b * self._u[high]
            return
        for axis, along in enumerate(self._tensor):
            low, high, first, last, inner = (
                tuple(part if other == axis else slice(None) for other in range(3))
                for part in (slice(None, -1), slice(1, None), slice(None, 1), slice(-1, None), slice(1, -1))
            )
            yield low, high, along[inner]
            if self._rule.boundary.periodic[axis]:
                yield last, first, along[first]

    def fields(self) -> tuple[Any, ...]:
        """Fluxes through all faces along each axis, in its direction: arrays with one more along the axis."""
        axes = range(self._problem.dimensions)
        if self._tensor is not None:
            return tuple(flux[(..., *(0,) * (3 - len(axes)))] for flux in self._tensor)
        with _any_kappa():
            found = [self._form.flux_along(self._kappa, self._u, axis) for axis in axes]
        return tuple(flux[(..., *(0,) * (3 - len(axes)))] for flux in found)

    def _field(self, name: str) -> Any:
        """A coefficient that is no number, as an array of the solution's package."""
        if name in self._rule.functions:
            if self._xp is np or not _is_dask(self._u):
                return self._asarray(field_of(self._problem, name))
            make = partial(_block_of, rule=self._rule, name=name)
            return self._u.map_blocks(make, dtype=np.float64, meta=self._u._meta.astype(np.float64))
        values = self._problem.coefficients[name]
        values = without_package(name, values.data if hasattr(values, "dims") else values)
        return self._asarray(values)


def _package(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The package of an array, and a function that makes its arrays of those of others."""
    if not _is_dask(x):
        xp = module_of(x)
        return xp, lambda values: _moved(xp, values.compute() if _is_dask(values) else values)
    da = sys.modules["dask.array"]

    def asarray(values: Any) -> Any:
        xp = module_of(x._meta)
        if _is_dask(values):
            return values if type(values._meta) is type(x._meta) else values.map_blocks(partial(_moved, xp))
        return da.from_array(_moved(xp, values), chunks=x.chunks if values.shape == x.shape else -1, asarray=False)

    return da, asarray


def _moved(xp: Any, values: Any) -> Any:
    """An array of NumPy or CuPy as one of xp, which is one of them."""
    return xp.asarray(values.get() if xp is np and hasattr(values, "get") else values)


def _is_dask(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "dask"


def _block_of(block: Any, *, rule: Diffusion, name: str, block_info: Any = None) -> Any:
    """Values of a function where a block is."""
    xp, (x, y, z) = module_of(block), block_info[0]["array-location"]
    box = Box(lo=(x[0], y[0], z[0]), hi=(x[1], y[1], z[1]))
    return xp.asarray(evaluated(xp, name, rule.functions[name], rule.centers(xp, box), box.shape), dtype=np.float64)


def _number(total: Any) -> float | complex:
    """A sum as a number of this process."""
    found = (total.compute() if _is_dask(total) else total).item()
    return complex(found) if isinstance(found, complex) else float(found)
