"""Tortuosity of a rock: how much longer the ways through its pores are than straight ones.

The image is smooth noise above a threshold, as a stand-in for one of a scanner; a boolean array of any such image will
do. Its tortuosity along each axis is one call. Fluxes through the layers show that as much leaves as comes in.

    python examples/rock.py --grid 96 --out rock.png
"""

import argparse
from contextlib import nullcontext

import numpy as np
from distributed import Client
from scipy import ndimage

import dsolver

POROSITY = 0.3


def rock(n):
    """An image that is True in pores, bool (n, n, n)."""
    noise = ndimage.gaussian_filter(np.random.default_rng(7).standard_normal((n, n, n)), n / 40, mode="wrap")
    return noise > np.quantile(noise, 1.0 - POROSITY)


def draw(image, found, path):
    import matplotlib.pyplot as plt  # not above: each worker process imports this script

    solution, middle = found.conduction.solution, image.shape[2] // 2
    along = solution.face_fluxes()[0]
    speed = (0.5 * (along[1:] + along[:-1]))[:, :, middle]
    pores = image[:, :, middle]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    pictures = (
        ("pores", pores, "gray", None),
        ("concentration", np.where(pores, solution.x[:, :, middle], np.nan), "viridis", None),
        ("flux along x", np.where(pores, speed, np.nan), "magma", np.nanpercentile(speed[pores], 99)),
    )
    for axis, (title, values, colors, most) in zip(axes, pictures, strict=True):
        seen = axis.imshow(values.T, origin="lower", cmap=colors, vmax=most)
        axis.set(title=title, xlabel="x", ylabel="y")
        figure.colorbar(seen, ax=axis, shrink=0.8)
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=96, help="cells along each side")
    parser.add_argument("--out", default="rock.png", help="the picture")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()

    image = rock(args.grid)
    with Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client:
        found = {axis: dsolver.tortuosity(image, axis, client=client) for axis in "xyz"}
    print("porosity:", found["x"].porosity)
    for axis, each in found.items():
        print(f"passed along {axis}:", each.passed)
        print(f"tortuosity along {axis}:", each.tortuosity)
        print(f"out over in along {axis}: {each.conduction.outflow / each.conduction.inflow:.10f}")
        print(f"iterations along {axis}:", each.conduction.solution.iterations)
    layers = found["x"].conduction.solution.face_fluxes()[0].sum(axis=(1, 2))
    print(f"largest difference between layers: {np.ptp(layers) / layers.mean():.1e}")
    draw(image, found["x"], args.out)


if __name__ == "__main__":
    main()
