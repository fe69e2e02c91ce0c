"""Smoothed aggregation: iterations, complexity and seconds of dsolver, beside PyAMG's.

    python bench/aggregation.py [--only NAME ...]

Matrices: 7 points on 48³; tetrahedra between 60,000 random points with u = 0 near the faces, slivers among them;
bilinear elements of diffusion that is 1000 times weaker across a direction, 256²; elasticity of clamped bodies with six
rigid motions, of regular tetrahedra, of a beam of such that are five times as long as wide, and of tetrahedra between
points that are off a lattice; and upwind convection around the middle of a square, 100², for GMRES and BiCGStab. b is A
times a random vector, the tolerance 1e-8. dsolver runs in one chunk on the cores there are. PyAMG's
smoothed_aggregation_solver has its defaults (a symmetric Gauss-Seidel sweep before and after, of blocks for elasticity)
and conjugate gradients; once more with a strength threshold of 0.08. The best of three of each, which take turns.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import pyamg
import scipy.sparse as sp
from lib import matrices
from scipy.spatial import Delaunay

import dsolver
from dsolver.preconditioners import Algebraic

Case = tuple[Any, Any]
"""A matrix, and coordinates of the points whose displacements its rows are, or None."""


def gradients(points: Any, cells: Any) -> tuple[Any, Any]:
    """Gradients of linear elements (cells, 4, 3), and volumes."""
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    inner = np.linalg.inv(edges).transpose(0, 2, 1)
    return np.concatenate([-inner.sum(axis=1, keepdims=True), inner], axis=1), abs(np.linalg.det(edges)) / 6


def sum_of_elements(local: Any, numbers: Any) -> Any:
    k = numbers.shape[1]
    at = np.repeat(numbers, k, axis=1).ravel(), np.tile(numbers, (1, k)).ravel()
    return sp.csr_array(sp.coo_array((local.ravel(), at)))


def delaunay(points: Any, least: float) -> Any:
    """Tetrahedra whose volumes are not next to nothing."""
    cells = Delaunay(points).simplices
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    return cells[abs(np.linalg.det(edges)) > least / len(points)]


def slivers(count: int) -> Case:
    points = np.random.default_rng(1).random((count, 3))
    cells = delaunay(points, 1e-9)
    g, volume = gradients(points, cells)
    a = sum_of_elements(np.einsum("cid,cjd,c->cij", g, g, volume), cells)
    free = np.flatnonzero(((points > 0.03) & (points < 0.97)).all(axis=1))
    return sp.csr_array(a[free][:, free]), None


def clamped(points: Any, cells: Any) -> Case:
    """Elasticity with Poisson's ratio 0.3; points with small x are fixed."""
    g, volume = gradients(points, cells)
    first, second = 0.3 / (1.3 * 0.4), 1 / 2.6
    local = first * np.einsum("cia,cjb,c->ciajb", g, g, volume) + second * np.einsum("cib,cja,c->ciajb", g, g, volume)
    same = np.einsum("cid,cjd->cij", g, g)
    local += second * np.einsum("cij,ab,c->ciajb", same, np.eye(3), volume)
    numbers = (3 * cells[:, :, None].astype(np.int64) + np.arange(3)).reshape(len(cells), 12)
    a = sum_of_elements(local.reshape(-1, 12, 12), numbers)
    free = np.flatnonzero(points[:, 0] > 0.05 * points[:, 0].max())
    rows = (3 * free[:, None] + np.arange(3)).ravel()
    return sp.csr_array(a[rows][:, rows]), points[free]


def lattice(m: int) -> tuple[Any, Any]:
    """Points of a lattice in a cube, and six tetrahedra in each of its cells."""
    axes = np.meshgrid(*[np.arange(m)] * 3, indexing="ij")
    places = np.stack(axes, axis=-1).reshape(-1, 3)
    corner, strides = places[(places < m - 1).all(axis=1)] @ [m * m, m, 1], [m * m, m, 1]
    ways = [np.concatenate([[0], np.cumsum([strides[axis] for axis in order])]) for order in permutations(range(3))]
    return places / (m - 1), np.concatenate([corner[:, None] + way for way in ways])


def jittered(m: int) -> Case:
    points = lattice(m)[0] + np.random.default_rng(1).uniform(-0.25, 0.25, (m**3, 3)) / m
    return clamped(points, delaunay(points, 1e-4))


def beam(m: int) -> Case:
    points, cells = lattice(m)
    return clamped(points * [5, 1, 1], cells)


def convection(n: int, peclet: float) -> Case:
    """Upwind differences; peclet: of a cell, at the rim."""
    x, y = np.meshgrid(*[np.linspace(-1.0, 1.0, n)] * 2, indexing="ij")
    i = np.arange(n * n).reshape(n, n)
    rows, columns, values = [i.ravel()], [i.ravel()], [(4.0 + peclet * (abs(x) + abs(y))).ravel()]
    for axis, speed in enumerate((y, -x)):
        for step in (-1, 1):
            at = tuple(slice(*((1, None) if step < 0 else (0, -1))) if axis == k else slice(None) for k in range(2))
            rows.append(i[at].ravel())
            columns.append(np.roll(i, -step, axis=axis)[at].ravel())
            values.append(-(1.0 + peclet * np.maximum(-step * speed, 0.0))[at].ravel())
    return sp.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))), None


SYMMETRIC = {
    "7 points": lambda: (matrices.stencil((48,) * 3, matrices.star(3)), None),
    "slivers": lambda: slivers(60000),
    "rotated": lambda: (matrices.stencil((256, 256), matrices.rotated_anisotropy()), None),
    "elastic, regular": lambda: clamped(*lattice(22)),
    "elastic, beam": lambda: beam(22),
    "elastic, jittered": lambda: jittered(22),
}
PECLET = (0.1, 1.0, 10.0, 1000.0)
OURS = {"pmis": Algebraic(), "aggregation": Algebraic(coarsening="aggregation")}


def ours(case: Case, b: Any, m: Any, method: str = "cg") -> tuple[float, str]:
    a, points = case
    told = {} if points is None else {"near_nullspace": dsolver.rigid_body_modes(points), "block_size": 3}
    began = time.perf_counter()
    with dsolver.Solver(dsolver.matrix(a, chunks=1, **told), M=m, method=method, device="cpu") as solver:
        solution = solver.solve(b, rtol=1e-8, maxiter=500)
        seconds = time.perf_counter() - began
        iterations = str(solution.iterations) if solution.converged else str(solution.status)
        if method != "cg":
            return seconds, iterations
        return seconds, f"{iterations} ({solver.hierarchy.operator_complexity:.2f})"


def theirs(case: Case, b: Any, theta: float) -> tuple[float, str]:
    a, points = case
    began = time.perf_counter()
    a = sp.csr_matrix(a) if points is None else sp.csr_matrix(a).tobsr((3, 3))
    modes = None if points is None else dsolver.rigid_body_modes(points)
    made = pyamg.smoothed_aggregation_solver(a, B=modes, strength=("symmetric", {"theta": theta}))
    history: list[float] = []
    made.solve(b, tol=1e-8, accel="cg", maxiter=500, residuals=history)
    return time.perf_counter() - began, f"{len(history) - 1} ({made.operator_complexity():.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[*SYMMETRIC, "convection"])
    names = parser.parse_args().only
    for name in [name for name in SYMMETRIC if name in names]:
        case = SYMMETRIC[name]()
        b = case[0] @ np.random.default_rng(1).standard_normal(case[0].shape[0])
        runs = {key: partial(ours, case, b, m) for key, m in OURS.items()}
        runs |= {f"pyamg {theta}": partial(theirs, case, b, theta) for theta in (0.0, 0.08)}
        rounds = [{key: run() for key, run in runs.items()} for _ in range(3)]
        best = {key: min(done[key] for done in rounds) for key in runs}
        shown = "   ".join(f"{key}: {iterations}, {seconds:.2f} s" for key, (seconds, iterations) in best.items())
        print(f"{name}, {case[0].shape[0]} rows, {case[0].nnz} entries\n  {shown}", flush=True)
    for peclet in PECLET if "convection" in names else ():
        case = convection(100, peclet)
        b = case[0] @ np.random.default_rng(1).standard_normal(case[0].shape[0])
        made = {"amg": "amg", "W": Algebraic(cycle="W"), "pmis": Algebraic(coarsening="pmis"), "ilu0": "ilu0"}
        found = {key: [ours(case, b, m, method)[1] for method in ("gmres", "bicgstab")] for key, m in made.items()}
        print(f"convection, Péclet {peclet}: " + "   ".join(f"{key}: {', '.join(f)}" for key, f in found.items()))


if __name__ == "__main__":
    main()
