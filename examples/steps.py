"""A blob that diffuses, by implicit time steps: one Solver is set up once and solves every step.

∂u/∂t = ∇·(κ∇u) with backward Euler is −∇·(κ∇u) + σu = σ u_old, σ = 1/dt, in steps that may be larger than an explicit
scheme could take. κ is ten times larger along x than along y and z. Nothing leaves the box, and far from its walls the
variance of the blob along an axis grows by 2κt: both hold for the discrete equations too, so they check the whole run.
Every solve begins at a guess, extrapolated from the last two steps.

    python examples/steps.py --grid 48 --out steps.png
"""

import argparse
from contextlib import nullcontext

import dask.array as da
import numpy as np
from distributed import Client

import dsolver
from dsolver.problems import diffusion

KAPPA = (1e-2, 1e-3, 1e-3)


def blob(n, h):
    """A Gaussian in the middle of the unit cube, with a standard deviation of 0.05."""
    distance2 = (h * (np.arange(n) + 0.5) - 0.5) ** 2
    return np.exp(-(distance2[:, None, None] + distance2[:, None] + distance2) / (2 * 0.05**2))


def variance(u, axis, h):
    """Variance of the blob along an axis, about the middle."""
    along = u.sum(axis=tuple({0, 1, 2} - {axis}))
    return float((along * (h * (np.arange(along.size) + 0.5) - 0.5) ** 2).sum() / along.sum())


def draw(snapshots, path):
    import matplotlib.pyplot as plt  # not above: each worker process imports this script

    figure, axes = plt.subplots(1, len(snapshots), figsize=(11, 3.2), layout="constrained")
    for ax, (time, u) in zip(axes, snapshots, strict=True):
        seen = ax.imshow(u[:, :, u.shape[2] // 2].T, origin="lower", extent=(0, 1, 0, 1), cmap="viridis")
        ax.set(title=f"t = {time:.2f}", xlabel="x", ylabel="y")
        figure.colorbar(seen, ax=ax, shrink=0.8)
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=48, help="cells along each axis")
    parser.add_argument("--out", default="steps.png", help="the picture")
    parser.add_argument("--steps", type=int, default=10, help="time steps")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()
    n, h, dt = args.grid, 1.0 / args.grid, 0.05

    problem = diffusion((n, n, n), KAPPA, 1.0 / dt, spacing=h, bc="neumann")
    start = blob(n, h)
    before = u = da.from_array(start, chunks=-(-n // 2)) if args.workers else start  # on a cluster it stays there
    snapshots, iterations = [(0.0, start)], []
    with (
        Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client,
        dsolver.Solver(problem, client=client) as solver,
    ):
        for step in range(1, args.steps + 1):
            solution = solver.solve(u / dt, x0=2.0 * u - before, rtol=1e-10)
            assert solution.converged, solution.status.advice
            before, u = u, solution.x
            iterations.append(solution.iterations)
            if step in (args.steps // 4, args.steps):
                snapshots.append((step * dt, np.asarray(u)))
        cold = solver.solve(before / dt, rtol=1e-10)  # the last step once more, from zero

    end = snapshots[-1][1]
    print("steps:", args.steps)
    print("time step / the largest of an explicit scheme:", dt * 2 * sum(KAPPA) / h**2)
    print("iterations, first step:", iterations[0])
    print("iterations, last step:", iterations[-1])
    print("iterations, last step from zero:", cold.iterations)
    print("amount at the end / at the start:", end.sum() / start.sum())
    for axis, name in enumerate("xyz"):
        print(f"variance along {name} grew by:", variance(end, axis, h) - variance(start, axis, h))
        print(f"2κt along {name}:", 2 * KAPPA[axis] * args.steps * dt)
    draw(snapshots, args.out)


if __name__ == "__main__":
    main()
