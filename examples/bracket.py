"""Vibration of a bracket: its lowest frequencies and how it moves, by finite elements.

A steel bracket, a plate on the wall and a shelf with a rib between them, of cubes of trilinear elements: K x = λ M x
with the stiffness K and the masses M of the nodes; the frequencies are √λ / 2π. Algebraic multigrid of nodes, which
keeps the rigid motions, is the preconditioner of the eigenvalue solver.

    python examples/bracket.py --grid 24 --out bracket.png
"""

import argparse
from contextlib import nullcontext

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from distributed import Client
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

import dsolver

LENGTH = 0.1  # m
YOUNG, POISSON, DENSITY = 210e9, 0.3, 7850.0  # Pa, 1, kg/m³
CORNERS = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])


def bracket(n):
    """The cells of n x n/2 x n that are steel; x points away from the wall, z up."""
    x, y, z = np.ogrid[:n, : n // 2, :n]
    thick = max(2, n // 8)
    rib = (x + z < 0.7 * n) & (abs(y - n // 4 + 0.5) < 0.5 * thick)
    return (x < thick) | (z < thick) | rib


def stiffness(h):
    """Stiffness (24, 24) of a cube with the edge h, by the strain of each unknown at 2 x 2 x 2 points."""
    elastic = np.zeros((6, 6))
    elastic[:3, :3] = YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
    elastic[range(6), range(6)] += YOUNG / (1 + POISSON) * np.array([1, 1, 1, 0.5, 0.5, 0.5])
    made = np.zeros((24, 24))
    for point in 0.5 + (CORNERS - 0.5) / np.sqrt(3):
        factors = np.where(CORNERS == 1, point, 1 - point)
        signs = np.where(CORNERS == 1, 1.0, -1.0) / h
        slopes = [signs[:, axis] * np.delete(factors, axis, axis=1).prod(axis=1) for axis in range(3)]
        strain = np.zeros((6, 24))
        for axis in range(3):
            strain[axis, axis::3] = slopes[axis]
            first, second = axis, (axis + 1) % 3
            strain[3 + axis, first::3], strain[3 + axis, second::3] = slopes[second], slopes[first]
        made += strain.T @ elastic @ strain * h**3 / 8
    return made


def assembled(steel, h):
    """K and the masses of all unknowns that are free, the nodes, and the nodes that are free."""
    cells = np.argwhere(steel)
    corners = cells[:, None] + CORNERS  # (cells, 8, 3)
    nodes, number = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    unknowns = (3 * number.reshape(-1, 8, 1) + np.arange(3)).reshape(-1, 24)
    entries = np.tile(stiffness(h).ravel(), len(cells))
    places = np.repeat(unknowns, 24, axis=1).ravel(), np.tile(unknowns, 24).ravel()
    whole = sp.csr_array((entries, places), shape=(3 * len(nodes),) * 2)
    mass = DENSITY * h**3 / 8 * np.bincount(unknowns.ravel(), minlength=whole.shape[0])
    free = nodes[:, 0] > 0  # the plate is clamped to the wall
    each = np.repeat(free, 3)
    return whole[each][:, each], mass[each], h * nodes, free


def surface(steel):
    """The faces of cells that have air on the other side: corners as nodes, (faces, 4, 3)."""
    padded, found = np.pad(steel, 1), []
    for axis in range(3):
        along = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
        square = np.roll(along, (axis + 1) % 3, axis=1)
        for side in (0, 1):
            other = np.roll(padded, 1 if side == 0 else -1, axis=axis)[1:-1, 1:-1, 1:-1]
            shift = np.eye(3, dtype=int)[axis] * side
            found.append(np.argwhere(steel & ~other)[:, None] + square + shift)
    return np.concatenate(found)


def draw(steel, nodes, free, h, frequencies, modes, path):
    faces = surface(steel)
    order = np.full(np.array(steel.shape) + 1, -1)
    order[tuple(np.rint(nodes / h).astype(int).T)] = np.arange(len(nodes))
    corners = order[tuple(np.moveaxis(faces, -1, 0))]
    figure, axes = plt.subplots(2, 2, figsize=(9, 8), subplot_kw={"projection": "3d"}, layout="constrained")
    for axis, frequency, mode in zip(axes.ravel(), frequencies, modes.T, strict=False):
        moved = np.zeros_like(nodes)
        moved[free] = mode.reshape(-1, 3)
        size = np.linalg.norm(moved, axis=1)
        at = nodes + 0.15 * LENGTH * moved / size.max()
        colors = plt.cm.viridis(size[corners].mean(axis=1) / size.max())
        axis.add_collection3d(Poly3DCollection(at[corners], facecolors=colors, edgecolors="none"))
        axis.set(xlim=(0, LENGTH), ylim=(-LENGTH / 4, 3 * LENGTH / 4), zlim=(0, LENGTH), title=f"{frequency:.0f} Hz")
        axis.set_box_aspect((1, 1, 1))
        axis.set_axis_off()
        axis.view_init(20, 40)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, default=24, help="cells along an edge")
    parser.add_argument("--workers", type=int, default=0, help="a Dask cluster of so many CPU workers")
    parser.add_argument("--out", default="bracket.png")
    arguments = parser.parse_args()
    steel, h = bracket(arguments.grid), LENGTH / arguments.grid
    matrix, mass, nodes, free = assembled(steel, h)
    problem = dsolver.matrix(matrix, near_nullspace=dsolver.rigid_body_modes(nodes[free]), block_size=3, name="bracket")
    workers = arguments.workers
    with Client(n_workers=workers, threads_per_worker=1) if workers else nullcontext() as client:
        found = dsolver.eigsh(problem, 4, B=mass, client=client or False)
    frequencies = np.sqrt(found.values) / (2 * np.pi)
    print(f"unknowns: {matrix.shape[0]}")
    print(f"status: {found.status}")
    print(f"iterations: {found.iterations}")
    print(f"mass in kg: {DENSITY * h**3 * steel.sum():.6f}")
    print(f"frequencies in Hz: {' '.join(f'{frequency:.3f}' for frequency in frequencies)}")
    products = found.vectors.T @ (mass[:, None] * found.vectors)
    print(f"departure from orthonormality: {abs(products - np.eye(4)).max():.1e}")
    draw(steel, nodes, free, h, frequencies, found.vectors, arguments.out)


if __name__ == "__main__":
    main()
