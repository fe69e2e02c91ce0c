"""A script for `dsolver submit`: Client() is a client of the cluster that it was submitted to.

    dsolver submit --scheduler tcp://HOST:8786 -- python deploy/script.py --grid 512 --out x.npy

It goes on where it was, should the worker beside which it runs be lost.
"""

import argparse

import dask.array as da
import numpy as np
from distributed import Client

import dsolver
from dsolver.problems import Dirichlet, diffusion


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=64, help="cells along each side of a square")
    parser.add_argument("--out", default="x.npy", help="the solution")
    args = parser.parse_args()
    shape = (args.grid, args.grid)

    with Client() as client:
        problem = diffusion(
            shape, lambda x, y: 1.0 + 0.5 * np.sin(x + y), bc={"x-": Dirichlet(1.0), "x+": Dirichlet(0.0)}
        )
        solution = dsolver.solve(problem, da.zeros(shape), client=client, checkpoint="saves", resume="saves")
        np.save(args.out, solution.x.compute())
    print("status:", solution.status)
    print("iterations:", solution.iterations)


if __name__ == "__main__":
    main()
