"""Pressure projection: makes the flow in a channel with an obstacle free of divergence.

The step at the heart of solvers for incompressible flow. Velocities are those through the faces of the cells; the guess
u* lets nothing through walls and obstacle but has divergence. With −∇²p = −∇·u*, no flux of ∇p through inlet, walls and
obstacle, and p = 0 at the outlet, u = u* − ∇p has none. A uniform flow as guess becomes the potential flow around the
obstacle.

    python examples/obstacle.py --grid 48 --out obstacle.png
"""

import argparse
from contextlib import nullcontext

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

import dsolver
from dsolver.problems import Dirichlet, diffusion


def sphere(n, h):
    """The cells of the obstacle, in a channel of 2n x n x n cells, 2 long and 1 wide and high."""
    x, y, z = (h * (np.arange(cells) + 0.5) for cells in (2 * n, n, n))
    return (x[:, None, None] - 0.6) ** 2 + (y[:, None] - 0.5) ** 2 + (z - 0.5) ** 2 < 0.22**2


def guess(solid):
    """u*: 1 along x, on all faces but those of the obstacle. Along an axis there is one face more than cells."""
    nx, ny, nz = solid.shape
    u, v, w = np.ones((nx + 1, ny, nz)), np.zeros((nx, ny + 1, nz)), np.zeros((nx, ny, nz + 1))
    u[1:][solid] = u[:-1][solid] = 0.0
    return u, v, w


def divergence(velocity, solid, h):
    """Volume of fluid that leaves each cell, for each unit of its volume."""
    return np.where(solid, 0.0, sum(np.diff(along, axis=axis) for axis, along in enumerate(velocity)) / h)


def corrected(velocity, p, solid, h):
    """u* − ∇p on all faces but inlet, walls and those of the obstacle. At the outlet p = 0, half a cell away."""
    u, v, w = (along.copy() for along in velocity)
    u[1:-1] -= np.where(solid[1:] | solid[:-1], 0.0, np.diff(p, axis=0) / h)
    u[-1] -= np.where(solid[-1], 0.0, (0.0 - p[-1]) / (h / 2))
    v[:, 1:-1] -= np.where(solid[:, 1:] | solid[:, :-1], 0.0, np.diff(p, axis=1) / h)
    w[:, :, 1:-1] -= np.where(solid[:, :, 1:] | solid[:, :, :-1], 0.0, np.diff(p, axis=2) / h)
    return u, v, w


def draw(velocity, before, after, solid, h, path):
    figure, axes = plt.subplots(3, 1, figsize=(7, 10), layout="constrained")
    k = solid.shape[2] // 2
    u, v = (
        0.5 * (velocity[0][1:] + velocity[0][:-1])[:, :, k],
        0.5 * (velocity[1][:, 1:] + velocity[1][:, :-1])[:, :, k],
    )
    x, y = (h * (np.arange(cells) + 0.5) for cells in u.shape)
    speed = np.where(solid[:, :, k], np.nan, np.hypot(u, v))
    axes[0].streamplot(x, y, u.T, v.T, density=1.2, linewidth=0.7, arrowsize=0.7, color="black")
    pictures = [(speed, "speed and streamlines after the projection", {"cmap": "viridis"})]
    for values, when in (before, after):
        title = f"log₁₀ |∇·u| {when} the projection"
        pictures.append((np.log10(np.abs(values[:, :, k]) + 1e-16), title, {"cmap": "magma", "vmin": -14, "vmax": 2}))
    for ax, (values, title, colors) in zip(axes, pictures, strict=True):
        seen = ax.imshow(values.T, origin="lower", extent=(0, 2, 0, 1), **colors)
        ax.set(title=title, xlim=(0, 2), ylim=(0, 1))
        figure.colorbar(seen, ax=ax, shrink=0.85)
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=48, help="cells across the channel, which is twice as long")
    parser.add_argument("--out", default="obstacle.png", help="the picture")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()
    h = 1.0 / args.grid

    solid = sphere(args.grid, h)
    velocity = guess(solid)
    before = divergence(velocity, solid, h)
    sides = {"x-": "neumann", "x+": Dirichlet(0.0), "y": "neumann", "z": "neumann"}
    problem = diffusion(solid.shape, spacing=h, bc=sides, mask=solid)
    with Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client:
        solution = dsolver.solve(problem, -before, client=client, rtol=1e-10)
    velocity = corrected(velocity, solution.x, solid, h)
    after = divergence(velocity, solid, h)

    print("status:", solution.status)
    print("iterations:", solution.iterations)
    print("largest divergence before:", np.abs(before).max())
    print("largest divergence after:", np.abs(after).max())
    print("flow in:", velocity[0][0].sum() * h**2)
    print("flow out:", velocity[0][-1].sum() * h**2)
    draw(velocity, (before, "before"), (after, "after"), solid, h, args.out)


if __name__ == "__main__":
    main()
