"""Diffusion as a function of its coefficients."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dsolver.autodiff.systems import Fixed, ParametricSystem, array_of, arrays_of, check_unused, in_double
from dsolver.errors import InputError
from dsolver.kernels.formats.layout import Array
from dsolver.problems import Problem
from dsolver.problems.coefficient_names import KAPPA, SIGMA
from dsolver.problems.diffusion_problem.problem import changed
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.coefficients import kappa_of
from dsolver.problems.fluxes.form import FluxForm
from dsolver.problems.problem import check_problem
from dsolver.units import counted


class CellCoefficients(ParametricSystem):
    """Diffusion as a function of κ, along all axes or each, and σ.

    `kappas`: how many κ there are among the parameters: 0 (that of the problem), 1 or 3. `sigma`: whether σ is the last
    of them.
    """

    def __init__(self, problem: Problem, kappas: int, *, sigma: bool, xp: Any, asarray: Callable[[Any], Array]) -> None:
        assert isinstance(problem.rule, Diffusion)
        self._kappas, self._sigma = kappas, sigma
        # x of r = V f + c is found as that of f = r / V without boundary values.
        boundary = problem.rule.boundary.homogeneous
        self._homogeneous = replace(problem, rule=replace(problem.rule, boundary=boundary))
        self._given, self._asarray, self._xp = problem, asarray, xp
        self._flux_form = FluxForm(problem, xp, asarray)
        self._volumes = FluxForm(problem, np, np.asarray).volumes()

    @property
    def complex(self) -> bool:
        return self._given.complex

    @property
    def arrays(self) -> Sequence[Array]:
        return arrays_of(self._given)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._given.grid

    def like(self, other: ParametricSystem) -> bool:
        return (
            isinstance(other, CellCoefficients)
            and other._given is self._given
            and (other._kappas, other._sigma) == (self._kappas, self._sigma)
        )

    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:  # it is symmetric
        """The problem with these κ and σ, and no boundary values."""
        found = [in_double(value).item() if value.shape == () else value for value in values]
        kappa = found[: self._kappas]
        return changed(
            self._homogeneous,
            kappa=None if not kappa else kappa if len(kappa) == 3 else kappa[0],
            sigma=found[-1] if self._sigma else None,
        )

    def source(self, r: Array) -> Array:
        """Source for each unit of volume."""
        volumes = np.asarray(self._volumes, like=r)
        volumes = volumes + (volumes == 0.0)  # where cells are left out, r does not matter
        return r / (volumes if r.ndim == len(self.shape) else volumes[..., None])

    def form(self, parameters: Sequence[Any], left: Any, right: Any) -> Any:
        """Σ T Δleft Δright and what the ends and σ add."""
        left, right = self._in_front(left), self._in_front(right)
        total = 0.0 * (left * right).sum()
        if self._kappas:
            total = total + self._flux_form.of_fluxes(self._along(parameters), left, right)
        if self._sigma:
            total = total + self._flux_form.of_sigma(parameters[-1], left, right)
        return total

    def right_hand_side(self, parameters: Sequence[Any], f: Any) -> Any:
        """V f and what boundary conditions add, of which κ may be a part."""
        kappa = self._along(parameters)
        if self._flux_form.fed and not kappa:
            kappa = [
                values if isinstance(values, float | complex) else self._asarray(values)
                for values in kappa_of(self._given)
            ]
        right = self._flux_form.right_hand_side(kappa, self._in_front(f))
        return right if right.ndim == len(self.shape) else self._xp.moveaxis(right, 0, -1)

    def _in_front(self, vectors: Any) -> Any:
        """Several vectors with the axis in front that counts them, as `FluxForm` has them."""
        return vectors if vectors.ndim == len(self.shape) else self._xp.moveaxis(vectors, -1, 0)

    def _along(self, parameters: Sequence[Any]) -> Sequence[Any]:
        """κ along x, y, z; nothing where none is a parameter."""
        kappa = parameters[: self._kappas]
        return [kappa[0]] * 3 if len(kappa) == 1 else kappa


def cells_of(
    problem: Any, kappa: Any, sigma: Any, xp: Any, asarray: Callable[[Any], Array]
) -> tuple[ParametricSystem, list[Any]]:
    """The system of a problem, and its parameters. InputError: it is no problem, or has no such parameters."""
    check_problem(problem)
    if isinstance(problem.rule, Diffusion):
        if problem.rule.fixed or problem.rule.velocity or problem.rule.cross:
            what = "fixed cells" if problem.rule.fixed else "a flow" if problem.rule.velocity else "a full tensor"
            raise InputError(
                f"{problem.name} has {what}, through which nothing is differentiated yet: its rows, "
                f"problem.to_scipy(), are differentiated in b, and sparse matrices in their entries"
            )
        kappas = [] if kappa is None else list(kappa) if isinstance(kappa, list | tuple) else [kappa]
        if len(kappas) not in (0, 1, len(KAPPA)):
            count = counted(len(kappas), "entry", "entries")
            raise InputError(f"kappa has {count}: give one for all axes, or three, along x, y and z")
        named = [*(("kappa", value) for value in kappas), *([] if sigma is None else [(SIGMA, sigma)])]
        parameters = [_coefficient(name, value, problem.grid, asarray) for name, value in named]
        return CellCoefficients(problem, len(kappas), sigma=sigma is not None, xp=xp, asarray=asarray), parameters
    check_unused(problem.name, kappa, sigma)
    return Fixed(problem), []


def _coefficient(name: str, value: Any, grid: tuple[int, ...], asarray: Callable[[Any], Array]) -> Any:
    values = array_of(name, value, asarray)
    shape = tuple(values.shape)
    if shape not in ((), grid):
        raise InputError(
            f"{name} has shape {shape}, but the grid is {grid}: give a number, or an array of that shape; vmap takes "
            f"several, and tensors have no gradients yet"
        )
    return values
