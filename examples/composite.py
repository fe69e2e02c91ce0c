"""Steady heat through a composite: blocks whose conductivity is 1 or 10 000, at random.

−∇·(κ∇u) = 0 in a cube of edge 1, u = 1 on the face x = 0 and 0 on x = 1, the other faces insulated. What flows in must
flow out; divided by the difference of the temperatures it is the conductivity of the composite as a whole, which lies
between the harmonic and the arithmetic mean of κ (Wiener's bounds).

    python examples/composite.py --grid 64 --out composite.png
"""

import argparse
from contextlib import nullcontext

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

import dsolver
from dsolver.problems import Dirichlet, diffusion

BLOCKS = 8  # along each axis
JUMP = 1e4


def conductivity(n):
    """κ of n x n x n cells: a third of the blocks conduct well."""
    good = np.random.default_rng(3).random((BLOCKS,) * 3) < 1 / 3
    block = np.arange(n) * BLOCKS // n
    return np.where(good[np.ix_(block, block, block)], JUMP, 1.0)


def heat(kappa, u, h):
    """Heat that flows in through x = 0 and out through x = 1: half a cell lies between a face and a cell's center."""
    into = (h**2 * kappa[0] * (1.0 - u[0]) / (h / 2)).sum()
    out = (h**2 * kappa[-1] * u[-1] / (h / 2)).sum()
    return into, out


def draw(kappa, u, solution, path):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    layer = kappa.shape[2] // 2
    left.imshow(np.log10(kappa[:, :, layer].T), origin="lower", extent=(0, 1, 0, 1), cmap="Greys")
    left.set(title="conductivity: 1 (white), 10 000 (black)", xlabel="x", ylabel="y")
    seen = middle.imshow(u[:, :, layer].T, origin="lower", extent=(0, 1, 0, 1), cmap="inferno")
    middle.set(title="temperature", xlabel="x")
    figure.colorbar(seen, ax=middle)
    right.semilogy(np.array(solution.residuals) / solution.b_norm, "o-", markersize=3)
    right.set(title="‖b − Ax‖ / ‖b‖", xlabel="iteration")
    right.grid(alpha=0.4)
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=64, help="cells along each axis")
    parser.add_argument("--out", default="composite.png", help="the picture")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()
    n, h = args.grid, 1.0 / args.grid

    kappa = conductivity(n)
    sides = {"x-": Dirichlet(1.0), "x+": Dirichlet(0.0), "y": "neumann", "z": "neumann"}
    problem = diffusion((n, n, n), kappa, spacing=h, bc=sides)
    with Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client:
        solution = dsolver.solve(problem, np.zeros(problem.grid), client=client, rtol=1e-10)

    into, out = heat(kappa, solution.x, h)
    print("status:", solution.status)
    print("iterations:", solution.iterations)
    print("heat in:", into)
    print("heat out:", out)
    print("effective conductivity:", 0.5 * (into + out))
    print("harmonic mean:", 1.0 / np.mean(1.0 / kappa))
    print("arithmetic mean:", np.mean(kappa))
    draw(kappa, solution.x, solution, args.out)


if __name__ == "__main__":
    main()
