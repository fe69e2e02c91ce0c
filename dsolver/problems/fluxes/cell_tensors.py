"""κ of each cell as a full tensor."""

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.problems.coefficient_names import CROSS, MASK
from dsolver.problems.coordinates import F64
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.coefficients import field_of, kappa_of

if TYPE_CHECKING:
    from dsolver.problems.problem import Problem

PAIRS: Final = ((0, 1), (0, 2), (1, 2))  # axes of `CROSS`


def absent_cells(problem: "Problem") -> npt.NDArray[np.bool_]:
    """Cells that are left out, of the grid's own axes."""
    rule, shape = problem.rule, problem.shape
    assert isinstance(rule, Diffusion)
    return (field_of(problem, MASK) != 0.0).reshape(shape) if rule.mask else np.zeros(shape, dtype=np.bool_)


def cell_tensors(problem: "Problem") -> F64:
    """κ of each cell: (*shape, 3, 3)."""
    rule, shape = problem.rule, problem.shape
    assert isinstance(rule, Diffusion)
    out = np.zeros((*shape, 3, 3))
    for axis, along in enumerate(kappa_of(problem)):
        out[..., axis, axis] = np.broadcast_to(along, rule.grid).reshape(shape)
    for name, number, (i, j) in zip(CROSS, rule.cross, PAIRS, strict=True):
        values = field_of(problem, name) if number is None else number
        out[..., i, j] = out[..., j, i] = np.broadcast_to(values, rule.grid).reshape(shape)
    return out


def definite(kappa: F64, present: npt.NDArray[np.bool_]) -> F64:
    """The tensors, 1 where there is no cell; raises InputError where one is not positive definite."""
    kappa = np.where(present[..., None, None], kappa, np.eye(kappa.shape[-1]))
    if not (np.isfinite(kappa).all() and (np.linalg.eigvalsh(kappa)[..., 0] > 0.0).all()):
        raise InputError(
            "kappa must be finite and positive definite in each cell: mend its values, or leave such cells out with "
            "mask="
        )
    return kappa
