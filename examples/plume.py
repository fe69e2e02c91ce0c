"""A plume in a rotating flow: a source beside the middle of a box feeds what the flow carries around.

−∇·(κ∇u) + ∇·(v u) + σu = f with u = 0 at the faces, for three κ: cell Péclet numbers |v| h / κ of 1, 100 and 10,000.
What comes from the source decays on its way, or leaves through the faces. The rows are not symmetric; algebraic
multigrid with BiCGStab solves them.

    python examples/plume.py --grid 128 --out plume.png
"""

import argparse
from contextlib import nullcontext

import numpy as np
from distributed import Client

import dsolver
from dsolver.problems import diffusion

PECLET = (1.0, 100.0, 10_000.0)
RADIUS, SOURCE = 0.04, (0.5, 0.75)  # of the source, and its place
DECAY = 0.5


def rotating(n):
    """Velocities at faces from a stream function: no flow through faces of the box, none in or out of any cell."""
    along = np.sin(np.pi * np.arange(n + 1) / n)
    stream = along[:, None] * along / np.pi
    return n * np.diff(stream, axis=1), -n * np.diff(stream, axis=0)


def plume(n, peclet, client):
    """The solution for a cell Péclet number."""
    x, y = ((np.arange(n) + 0.5) / n - at for at in SOURCE)
    f = (x[:, None] ** 2 + y**2 < RADIUS**2) / (np.pi * RADIUS**2)
    problem = diffusion((n, n), 1.0 / (n * peclet), DECAY, velocity=rotating(n), spacing=1.0 / n)
    solution = dsolver.solve(problem, f, M="amg", rtol=1e-10, client=client)
    assert solution.converged, solution.advice
    return solution, f.sum() / n**2


def draw(found, path):
    import matplotlib.pyplot as plt  # not above: each worker process imports this script

    figure, axes = plt.subplots(1, len(found), figsize=(10, 3.4), layout="constrained")
    for axis, (peclet, solution) in zip(axes, found, strict=True):
        u = solution.x / solution.x.max()
        seen = axis.imshow(u.T, origin="lower", extent=(0, 1, 0, 1), cmap="magma")
        axis.set(title=f"cell Péclet number {peclet:g}", xlabel="x", ylabel="y")
        figure.colorbar(seen, ax=axis, shrink=0.8)
    figure.suptitle("u over its largest value")
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=128, help="cells along each side")
    parser.add_argument("--out", default="plume.png", help="the picture")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()

    found = []
    with Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client:
        for peclet in PECLET:
            solution, fed = plume(args.grid, peclet, client)
            left = sum(solution.flux(face) for face in ("x-", "x+", "y-", "y+"))
            left += DECAY * solution.x.sum() / args.grid**2
            print(f"iterations, {peclet:g}: {solution.iterations}")
            print(f"left over fed, {peclet:g}: {left / fed:.10f}")
            print(f"least over largest, {peclet:g}: {solution.x.min() / solution.x.max():.3e}")
            found.append((peclet, solution))
    draw(found, args.out)


if __name__ == "__main__":
    main()
