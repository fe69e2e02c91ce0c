"""A solve on a live Dask cluster, ended before its time and taken up again by another one.

Water seeps through rock from x = 0 (pressure 1) to x = 1 (pressure 0). The permeability is log-normal: it varies over
orders of magnitude. It is a Dask array, made on the workers, and the pressure comes back as one. The first cluster is
closed after a few iterations, as when a batch job's time is up. The second one has another number of workers and goes
on from the checkpoint. The page whose address is printed shows each while it runs.

    python examples/live.py --grid 64 --out live.png --workers 2
"""

import argparse
import tempfile
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client

import dsolver
from dsolver.problems import Dirichlet, diffusion


def permeability(n):
    """exp of smoothed noise, its logarithm with a standard deviation of 2; blocks are made where they are needed."""
    noise = da.random.default_rng(11).standard_normal((n, n, n), chunks=(-(-n // 2), n, n))
    smooth = noise
    for axis in (0, 1, 2):
        smooth = smooth + da.roll(smooth, 1, axis) + da.roll(smooth, 2, axis)
    return da.exp(2.0 * smooth / smooth.std())


def solve(workers, n, folder, **options):
    """One cluster, one solve; what is left of it, small enough to take along, and the pressure in one layer."""
    sides = {"x-": Dirichlet(1.0), "x+": Dirichlet(0.0), "y": "neumann", "z": "neumann"}
    with Client(n_workers=workers, threads_per_worker=1) as client:
        print("dashboard:", client.dashboard_link.replace("/status", "/dsolver"))
        kappa = permeability(n).persist()
        problem = diffusion((n, n, n), kappa, spacing=1.0 / n, bc=sides)
        source = da.zeros(problem.grid, chunks=kappa.chunks)
        checkpoint = dsolver.Checkpoint(folder, every=0)  # after every superstep; by default every 30 s
        solution = dsolver.solve(
            problem, source, client=client, checkpoint=checkpoint, progress=dsolver.Live(), rtol=1e-9, **options
        )
        print(solution)
        assert isinstance(solution.x, da.Array)
        layer, rock = da.compute(solution.x[:, :, n // 2], kappa[:, :, n // 2])
        into, out = da.compute(
            2 * n * ((1 - solution.x[0]) * kappa[0]).mean(), 2 * n * (solution.x[-1] * kappa[-1]).mean()
        )
    return solution, layer, rock, (into, out)


def draw(first, second, layer, rock, path):
    import matplotlib.pyplot as plt  # not above: each worker process imports this script

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for ax, values, title in ((left, np.log10(rock), "log₁₀ permeability"), (middle, layer, "pressure")):
        seen = ax.imshow(values.T, origin="lower", extent=(0, 1, 0, 1))
        ax.set(title=title, xlabel="x", ylabel="y")
        figure.colorbar(seen, ax=ax)
    right.semilogy(np.array(first.residuals) / first.b_norm, "o-", markersize=3, label="first cluster")
    later = np.arange(len(second.residuals)) + first.iterations
    right.semilogy(later, np.array(second.residuals) / second.b_norm, "o-", markersize=3, label="second cluster")
    right.set(title="‖b − Ax‖ / ‖b‖", xlabel="iteration")
    right.legend()
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=64, help="cells along each axis")
    parser.add_argument("--out", default="live.png", help="the picture")
    parser.add_argument("--workers", type=int, default=2, help="of the first cluster; the second has one more")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "checkpoint"
        first, *_ = solve(args.workers, args.grid, store, callback=lambda state: state.iteration == 5)
        second, layer, rock, (into, out) = solve(args.workers + 1, args.grid, store, resume=store)

    print("first:", first.status)
    print("first ended at residual:", first.true_residual)
    print("second began at residual:", second.residuals[0])
    print("second:", second.status)
    print("iterations:", first.iterations + second.iterations)
    print("flow in:", into)
    print("flow out:", out)
    draw(first, second, layer, rock, args.out)


if __name__ == "__main__":
    main()
