"""Chunks that are masked in part or as a whole: their rows may be all alike where those of other chunks are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy import ndimage

import dsolver
from dsolver.grid.partition import Partition
from dsolver.preconditioners import Algebraic
from dsolver.problems import Problem, diffusion
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

PRECONDITIONERS: tuple[Any, ...] = (
    "mg",
    "amg",
    Algebraic(coarsening="aggregation"),
    "auto",
    "chebyshev",
    "jacobi",
    None,
)


@dataclass(frozen=True)
class Medium:
    """A grid in a plane or in space that is cut anywhere, with u = 0 at its faces."""

    kappa: F64
    mask: Mask
    chunks: tuple[int, ...]
    f: F64

    @property
    def problem(self) -> Problem:
        return diffusion(self.kappa.shape, self.kappa, mask=self.mask, chunks=self.chunks)

    def direct(self) -> F64:
        """The solution by LU factors."""
        number, shape = np.arange(self.mask.size).reshape(self.mask.shape), (self.mask.size,) * 2
        kappa, diagonal = np.where(self.mask, 0.0, self.kappa), self.mask.astype(np.float64)
        matrix = sp.csr_array(shape)
        for axis in range(self.mask.ndim):
            along, columns, out = (np.moveaxis(array, axis, 0) for array in (kappa, number, diagonal))
            a, b = along[1:], along[:-1]
            link = 2.0 * a * b / np.where(a + b > 0.0, a + b, 1.0)
            matrix -= sp.coo_array((link.ravel(), (columns[1:].ravel(), columns[:-1].ravel())), shape=shape)
            out[1:] += link
            out[:-1] += link
            out[0] += 2.0 * along[0]
            out[-1] += 2.0 * along[-1]
        factors = scipy.sparse.linalg.splu(sp.csc_array(matrix + matrix.T + sp.diags_array(diagonal.ravel())))
        x: F64 = factors.solve(np.where(self.mask, 0.0, self.f).ravel()).reshape(self.mask.shape)
        return x


def medium(seed: int) -> Medium:
    """One whose chunks are whole, masked in part, or masked; closed regions are masked, too."""
    rng, dimensions = np.random.default_rng(seed), 2 + seed % 2
    grid = tuple(rng.integers(2, {2: 15, 3: 8}[dimensions], dimensions).tolist())
    chunks = tuple(int(rng.integers(1, min(n, 4) + 1)) for n in grid)
    mask = rng.random(grid) < rng.choice([0.05, 0.2, 0.6])
    in_space: Any = ((*grid, 1)[:3], (*chunks, 1)[:3])
    parts = [chunk.box.slices for chunk in Partition(*in_space)]
    mask[parts[int(rng.integers(len(parts)))][:dimensions]] = True
    mask.flat[0] = False
    label, _ = ndimage.label(~mask)
    mask |= ~np.isin(
        label, np.concatenate([np.moveaxis(label, axis, 0)[[0, -1]].ravel() for axis in range(dimensions)])
    )
    kappa = 10.0 ** rng.uniform(-2, 2, grid) if rng.random() < 0.3 else np.ones(grid)
    return Medium(kappa=kappa, mask=mask, chunks=chunks, f=rng.standard_normal(grid))


@pytest.mark.parametrize(
    "m", PRECONDITIONERS, ids=lambda m: m.__class__.__name__ if isinstance(m, Algebraic) else str(m)
)
def test_solutions_are_those_of_a_direct_method(m: Any) -> None:
    for seed in range(8):
        drawn = medium(seed)
        x = dsolver.solve(drawn.problem, drawn.f, M=m, rtol=1e-11, maxiter=1000, device="cpu").x
        expected = drawn.direct()
        np.testing.assert_allclose(x, expected, rtol=0.0, atol=1e-8 * abs(expected).max(), err_msg=f"seed {seed}")


def test_engines_give_the_same_bits() -> None:
    """A cell alone, and chunks without any: rows of the identity, which elsewhere would not be stored."""
    mask = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=bool)
    problem, f = diffusion(mask.shape, mask=mask, chunks=(3, 2)), np.arange(9.0).reshape(mask.shape)
    serial = dsolver.solve(problem, f, M="mg", engine="reference", device="cpu")
    assert serial.converged
    with cluster(2) as client:
        for engine in ("resident", "graph"):
            found = dsolver.solve(problem, f, M="mg", client=client, engine=engine, device="cpu")
            assert found.residuals == serial.residuals, engine
            assert np.array_equal(np.asarray(found.x), serial.x), engine
