"""Convection and diffusion on meshes: iterations, processor time and size of algebraic multigrid by both coarsenings.

    python bench/convection.py                            triangles, 10,000 points; needs scikit-fem
    python bench/convection.py --points 40000 --tetra     tetrahedra
    python bench/convection.py A.npz B.mtx                matrices of files

A rotating flow in a square or a cube, at cell Péclet numbers |v| h / 2κ from 0.1 to 10,000, by linear elements with
streamline diffusion (SUPG), and upwind by edges: couplings of the wrong sign are made zero by diffusion along the edge.
Each entry: iterations of GMRES to 1e-8, milliseconds of a first solve, entries of all levels over those of A.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import dsolver
from dsolver.preconditioners import Algebraic

PECLET = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
MOST = 300
RUNS = 2


def mesh(points: int, *, tetra: bool) -> tuple[Any, Any, float]:
    """A basis of linear elements, the flow at its points of integration, and the length of an edge."""
    import skfem
    from scipy.spatial import Delaunay

    count = round(points ** (1 / 3 if tetra else 1 / 2))
    line = np.linspace(0.0, 1.0, count)
    if tetra:
        basis = skfem.Basis(skfem.MeshTet.init_tensor(line, line, line), skfem.ElementTetP1(), intorder=2)
    else:
        at = np.stack(np.meshgrid(line, line)).reshape(2, -1)
        inner = ((at > 0.0) & (at < 1.0)).all(axis=0)
        at[:, inner] += np.random.default_rng(0).uniform(-0.3, 0.3, (2, inner.sum())) / count
        corners = np.ascontiguousarray(Delaunay(at.T).simplices.T)
        basis = skfem.Basis(skfem.MeshTri(at, corners), skfem.ElementTriP1(), intorder=2)
    x, y, *z = np.pi * basis.global_coordinates().value
    flow = [np.sin(x) * np.cos(y), -np.cos(x) * np.sin(y), *(0.2 + 0.0 * each for each in z)]
    return basis, np.stack(flow), 1.0 / count


def flow_matrix(basis: Any, flow: Any, h: float, peclet: float, scheme: str) -> sp.csr_array:
    """Rows of the inner points."""
    from skfem import BilinearForm, asm
    from skfem.helpers import dot, grad

    kappa = h / (2.0 * peclet)
    spread = asm(BilinearForm(lambda u, v, _: kappa * dot(grad(u), grad(v))), basis)
    carried = sp.csr_array(asm(BilinearForm(lambda u, v, w: dot(w.flow, grad(u)) * v), basis, flow=flow))
    if scheme == "SUPG":
        speed = np.sqrt((flow**2).sum(axis=0)) + 1e-30
        delay = h / (2.0 * speed) * np.clip(speed * h / (6.0 * kappa), 0.0, 1.0)
        form = BilinearForm(lambda u, v, w: w.delay * dot(w.flow, grad(u)) * dot(w.flow, grad(v)))
        added = asm(form, basis, flow=flow, delay=delay)
    else:
        beside = sp.csr_array(carried - sp.diags_array(carried.diagonal()))
        along = beside.maximum(beside.T).maximum(sp.csr_array(beside.shape))
        added = sp.diags_array(np.asarray(along.sum(axis=1)).ravel()) - along
    inner = basis.complement_dofs(basis.get_dofs())
    made = sp.csr_array(sp.csr_array(spread + carried + added)[inner][:, inner])
    made.eliminate_zeros()
    return made


def told(a: Any, coarsening: str | None) -> str:
    """Figures of a first solve."""
    b, seconds = np.random.default_rng(0).standard_normal(a.shape[0]), []
    for _ in range(RUNS):
        began = time.process_time()
        with dsolver.Solver(a, M=Algebraic(coarsening=coarsening), method="gmres") as solver:
            found = solver.solve(b, maxiter=MOST)
            seconds.append(time.process_time() - began)
            size = sum(level.entries for level in solver.hierarchy.levels) / a.nnz
    iterations = f"{found.iterations}{'' if found.converged else '!'}"
    return f"{iterations:>5} {1e3 * min(seconds):6.0f} {size:5.2f}"


def show(name: str, a: Any) -> None:
    """Print the figures of a matrix."""
    rows = "  ".join(f"{each or 'default'} {told(a, each)}" for each in (None, "aggregation", "air"))
    print(f"{name:16s} {a.shape[0]:7d} rows of {a.nnz / a.shape[0]:4.1f}: {rows}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--tetra", action="store_true")
    asked = parser.parse_args()
    for file in asked.files:
        show(file.stem, sp.csr_array(dsolver.read_matrix(str(file))))
    if asked.files:
        return
    basis, flow, h = mesh(asked.points, tetra=asked.tetra)
    for scheme in ("upwind", "SUPG"):
        for peclet in PECLET:
            show(f"{scheme} {peclet:g}", flow_matrix(basis, flow, h, peclet, scheme))


if __name__ == "__main__":
    main()
