"""The impedance of a microstrip line, from its cross section: a problem in a plane.

A strip at 1 V lies on a board above a grounded plate, in a grounded box. −∇·(ε∇u) = 0 gives the potential, the charge
of the strip its capacitance C for each meter, and once more without the board C₀. With the speed of light c the
impedance is 1 / (c √(C C₀)), to be compared with the formula of Hammerstad (1975) for an infinitely thin strip without
a box.

    python examples/microstrip.py --grid 256 --out microstrip.png
"""

import argparse
from contextlib import nullcontext

import numpy as np
from distributed import Client

import dsolver
from dsolver.problems import diffusion

EPSILON = 4.2  # of the board, as a multiple of that of a vacuum
EPSILON_0, LIGHT = 8.8541878128e-12, 299792458.0
HEIGHT, WIDTH = 1 / 16, 1 / 8  # of the board and of the strip, as parts of the box


def cross_section(n):
    """The board's and the strip's cells in a box of n cells by half as many, bool (n, n / 2)."""
    x, y = (np.arange(n) + 0.5)[:, None] / n, (np.arange(n // 2) + 0.5) / n
    board = (y < HEIGHT) & (x > 0.0)
    strip = (abs(x - 0.5) < WIDTH / 2) & (y > HEIGHT) & (y < HEIGHT + 1 / n)
    return board, strip


def charge(strip, epsilon, client):
    """The strip's charge at 1 V over ε₀, for each meter, and the solution."""
    problem = diffusion(strip.shape, np.where(strip, np.inf, epsilon), fixed=(strip, 1.0))
    solution = dsolver.solve(problem, np.zeros(strip.shape), client=client, rtol=1e-10)
    assert solution.converged, solution.status.advice
    return -solution.flux(strip), solution


def hammerstad(ratio, epsilon):
    """The impedance in Ω of a strip that is at least as wide as the board is high."""
    effective = (epsilon + 1) / 2 + (epsilon - 1) / 2 / np.sqrt(1 + 12 / ratio)
    return 120 * np.pi / np.sqrt(effective) / (ratio + 1.393 + 0.667 * np.log(ratio + 1.444))


def draw(u, residuals, path):
    import matplotlib.pyplot as plt  # not above: each worker process imports this script

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), width_ratios=(2, 1), layout="constrained")
    seen = left.imshow(u.T, origin="lower", extent=(0, 1, 0, 0.5), cmap="viridis")
    x, y = ((np.arange(n) + 0.5) / u.shape[0] for n in u.shape)
    left.contour(x, y, u.T, levels=np.linspace(0.1, 0.9, 9), colors="white", linewidths=0.6)
    left.axhline(HEIGHT, color="white", linestyle=":")
    left.set(title="potential; dotted: the board", xlabel="x", ylabel="y")
    figure.colorbar(seen, ax=left, label="V")
    right.semilogy(residuals, marker=".")
    right.set(title="residual", xlabel="iteration", ylabel="‖b − Ax‖")
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=256, help="cells along the longer side, a multiple of 16")
    parser.add_argument("--out", default="microstrip.png", help="the picture")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()

    board, strip = cross_section(args.grid)
    with Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client:
        filled, solution = charge(strip, np.where(board, EPSILON, 1.0), client)
        empty, _ = charge(strip, np.ones(strip.shape), client)

    print("status:", solution.status)
    print("iterations:", solution.iterations)
    print("capacitance in pF/m:", 1e12 * EPSILON_0 * filled)
    print("impedance in Ω:", 1.0 / (LIGHT * EPSILON_0 * np.sqrt(filled * empty)))
    print("Hammerstad's formula:", hammerstad(WIDTH / HEIGHT, EPSILON))
    draw(solution.x, solution.residuals, args.out)


if __name__ == "__main__":
    main()
