"""Slow flow through a channel with obstacles: velocity and pressure as a system of blocks.

−Δu + ∇p = 0 and ∇·u = 0 on a staggered grid (MAC, Harlow and Welch 1965): velocities lie on the faces of cells, the
pressure in their centers. Fluid enters on the left with a parabolic profile, walls and obstacles hold it, and the right
end is open. One call solves for both; iterations hardly depend on the grid.

    pip install scipy
    python examples/stokes.py --grid 96 --out stokes.png
"""

import argparse
from contextlib import nullcontext

import numpy as np
import scipy.sparse as sp
from distributed import Client

import dsolver

OUTSIDE, WALL, INLET = -1, -2, -3


def open_cells(n):
    """Cells of a channel of 3 by 1, n across, without those in three disks."""
    x, y = np.meshgrid((np.arange(3 * n) + 0.5) / n, (np.arange(n) + 0.5) / n, indexing="ij")
    disks = ((0.7, 0.5, 0.18), (1.4, 0.25, 0.14), (1.7, 0.7, 0.16))
    return np.all([(x - a) ** 2 + (y - b) ** 2 > r**2 for a, b, r in disks], axis=0)


def numbered(free, first):
    """Numbers of the unknowns from `first` on where `free` is true, WALL elsewhere."""
    numbers = np.full(free.shape, WALL)
    numbers[free] = first + np.arange(free.sum())
    return numbers


def shifted(numbers, axis, step, beyond):
    """The neighbor of each place along an axis, and `beyond` where there is none."""
    padded = np.pad(numbers, [(1, 1) if a == axis else (0, 0) for a in (0, 1)], constant_values=beyond)
    return np.take(padded, np.arange(numbers.shape[axis]) + 1 + step, axis=axis)


class Flow:
    """The blocks of a channel with n cells across, and the right-hand sides of both fields."""

    def __init__(self, n):
        cells = open_cells(n)
        both = np.pad(cells, ((1, 1), (0, 0)), constant_values=True)
        free = both[1:] & both[:-1]  # faces across x, the right end's among them
        free[0] = False
        self.u = numbered(free, 0)
        self.u[0] = INLET
        both = np.pad(cells, ((0, 0), (1, 1)))
        self.v = numbered(both[:, 1:] & both[:, :-1], self.u.max() + 1)
        self.p, self.n = numbered(cells, 0), n
        y = (np.arange(n) + 0.5) / n
        self.inflow = 4.0 * y * (1.0 - y)
        self.size = self.v.max() + 1
        self.forces = np.zeros(self.size)
        self.a, self.b = self._viscosity(), self._divergence()
        self.sources = np.zeros(cells.sum())
        self.sources[self.p[0]] = -self.inflow / n

    def _viscosity(self):
        """−Δ of both components, times h²; a wall beside a face is half a cell away."""
        rows, columns = [], []
        diagonal = np.zeros(self.size)
        for numbers, along in ((self.u, 0), (self.v, 1)):
            for axis in (0, 1):
                for step in (-1, 1):
                    near = shifted(numbers, axis, step, OUTSIDE if axis == 0 else WALL)
                    if along == 1 and axis == 0 and step < 0:
                        near[0] = WALL  # no flow along the inlet
                    here, there = numbers[numbers >= 0], near[numbers >= 0]
                    inner = there >= 0
                    rows.append(here[inner])
                    columns.append(there[inner])
                    diagonal[here[inner | (there == INLET)]] += 1.0
                    diagonal[here[there == WALL]] += 1.0 if axis == along else 2.0
                    if (there == INLET).any():
                        self.forces[here[there == INLET]] += self.inflow[: (there == INLET).sum()]
        rows, columns = np.concatenate(rows), np.concatenate(columns)
        couplings = sp.csr_array((-np.ones(len(rows)), (rows, columns)), shape=(self.size, self.size))
        return couplings + sp.diags_array(diagonal)

    def _divergence(self):
        """−∇· of the cells, times h."""
        rows, columns, values = [], [], []
        for faces, sign in ((self.u[1:], -1), (self.u[:-1], 1), (self.v[:, 1:], -1), (self.v[:, :-1], 1)):
            there = (self.p >= 0) & (faces >= 0)
            rows.append(self.p[there])
            columns.append(faces[there])
            values.append(np.full(there.sum(), sign / self.n))
        places = np.concatenate(rows), np.concatenate(columns)
        return sp.csr_array((np.concatenate(values), places), shape=(self.p.max() + 1, self.size))

    def solved(self, client=None):
        system = dsolver.block([[self.a, self.b.T], [self.b, None]], name="Stokes")
        return dsolver.solve(system, np.concatenate([self.forces, self.sources]), client=client, rtol=1e-9)

    def fields(self, x):
        """Velocities at faces, and the pressure in cells; NaN in obstacles."""
        u, v = (np.where(numbers >= 0, x[np.maximum(numbers, 0)], 0.0) for numbers in (self.u, self.v))
        u[0] = self.inflow
        return u, v, np.where(self.p >= 0, x[self.size + np.maximum(self.p, 0)], np.nan)


def draw(u, v, p, path):
    import matplotlib.pyplot as plt  # not above: each worker process imports this script

    n = p.shape[1]
    across, along = 0.5 * (u[1:] + u[:-1]), 0.5 * (v[:, 1:] + v[:, :-1])
    speed = np.where(np.isnan(p), np.nan, np.hypot(across, along))
    figure, axes = plt.subplots(2, 1, figsize=(9, 6.4), layout="constrained")
    for axis, values, title in ((axes[0], speed, "speed, and lines of the flow"), (axes[1], p, "pressure")):
        seen = axis.imshow(values.T, origin="lower", extent=(0.0, 3.0, 0.0, 1.0))
        axis.set(title=title, aspect="equal")
        figure.colorbar(seen, ax=axis)
    x, y = (np.arange(3 * n) + 0.5) / n, (np.arange(n) + 0.5) / n
    axes[0].streamplot(x, y, across.T, along.T, density=1.1, color="white", linewidth=0.6, arrowsize=0.7)
    axes[0].set(xlim=(0.0, 3.0), ylim=(0.0, 1.0))
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=96, help="cells across the channel, three times as many along it")
    parser.add_argument("--out", default="stokes.png", help="the picture")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()

    with Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client:
        coarse = Flow(args.grid // 2).solved(client)
        flow = Flow(args.grid)
        solution = flow.solved(client)
    u, v, p = flow.fields(solution.x)

    print("unknowns:", solution.x.size)
    print("status:", solution.status)
    print("solved by:", solution.solved_by)
    print("iterations:", solution.iterations)
    print("iterations on half the grid:", coarse.iterations)
    print("flow in:", u[0].sum() / flow.n)
    print("flow out:", u[-1].sum() / flow.n)
    print(
        "largest divergence:",
        np.abs(np.where(np.isnan(p), 0.0, np.diff(u, axis=0) + np.diff(v, axis=1))).max() * flow.n,
    )
    print("pressure drop:", p[0].mean() - p[-1].mean())
    draw(u, v, p, args.out)
    print("written:", args.out)


if __name__ == "__main__":
    main()
