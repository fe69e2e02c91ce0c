"""Systems of blocks by finite elements: iterations and seconds of Stokes and Darcy flow, by size.

Stokes flow in a channel of 2 by 1 with Taylor-Hood elements (quadratic velocity, linear pressure) on triangles, of
which there are four times as many each time, and Darcy flow with Raviart-Thomas elements through a medium whose
permeability is log-normal. Each is one call of `dsolver.solve`, by default with what M="auto" takes.

    pip install scikit-fem
    python bench/stokes.py --refined 4 5 6
    python bench/stokes.py --refined 5 6 7 8 --device cuda
"""

import argparse
import time

import numpy as np
from skfem import (
    Basis,
    BilinearForm,
    ElementTriP0,
    ElementTriP1,
    ElementTriP2,
    ElementTriRT0,
    ElementVector,
    MeshTri,
    asm,
)
from skfem.helpers import ddot, div, dot, grad

import dsolver
from dsolver import preconditioners

M = {
    "auto": "auto",
    "diagonal": preconditioners.BlockDiagonal(),
    "triangular": preconditioners.BlockTriangular(),
    "schur": preconditioners.Schur(),
    "simple": preconditioners.Schur(correction="diagonal"),
}


@BilinearForm
def stiffness(u, v, _):
    return ddot(grad(u), grad(v))


@BilinearForm
def divergence(u, q, _):
    return -div(u) * q


@BilinearForm
def resistance(u, v, w):
    return dot(u, v) / w["permeability"]


def channel(refined):
    return MeshTri.init_tensor(np.linspace(0.0, 2.0, 2 * 2**refined + 1), np.linspace(0.0, 1.0, 2**refined + 1))


def stokes(refined):
    """Blocks, and right-hand sides of both fields: a parabolic inflow, walls, and an open end."""
    mesh = channel(refined)
    velocity = Basis(mesh, ElementVector(ElementTriP2()), intorder=4)
    pressure = velocity.with_element(ElementTriP1())
    a, b = asm(stiffness, velocity).tocsr(), asm(divergence, velocity, pressure).tocsr()
    held = velocity.get_dofs(lambda x: (x[0] == 0.0) | (x[1] == 0.0) | (x[1] == 1.0)).all()
    u = np.zeros(velocity.N)
    inflow = velocity.get_dofs(lambda x: x[0] == 0.0).all(["u^1", "u^1"])
    u[inflow] = 4.0 * velocity.doflocs[1, inflow] * (1.0 - velocity.doflocs[1, inflow])
    inner = np.setdiff1d(np.arange(velocity.N), held)
    return a[inner][:, inner], b[:, inner], -(a @ u)[inner], -(b @ u)


def darcy(refined):
    """Blocks, and right-hand sides of both fields: a source and a sink in the medium, whose boundary is open."""
    mesh = channel(refined)
    flux = Basis(mesh, ElementTriRT0(), intorder=2)
    pressure = flux.with_element(ElementTriP0())
    permeability = np.exp(2.0 * np.random.default_rng(0).standard_normal(mesh.nelements))
    a = asm(resistance, flux, permeability=pressure.interpolate(permeability)).tocsr()
    b = asm(divergence, flux, pressure).tocsr()
    wells = np.zeros(mesh.nelements)
    wells[[0, -1]] = -1.0, 1.0
    return a, b, np.zeros(a.shape[0]), wells


def measured(blocks, m, options):
    a, b, *right = blocks
    began = time.perf_counter(), time.process_time()
    solution = dsolver.solve(dsolver.block([[a, b.T], [b, None]]), np.concatenate(right), M=m, **options)
    return solution, time.perf_counter() - began[0], time.process_time() - began[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refined", type=int, nargs="+", default=[4, 5, 6], help="2**refined cells across the channel")
    parser.add_argument("--m", nargs="+", choices=M, default=["auto"], help="preconditioners")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rtol", type=float, default=1e-8)
    args = parser.parse_args()
    print("| flow | unknowns | M | iterations | s | s of processors | set-up s | residual |\n" + "|---" * 8 + "|")
    for name, made in (("Stokes", stokes), ("Darcy", darcy)):
        for refined in args.refined:
            blocks = made(refined)
            for m in args.m:
                solution, wall, cpu = measured(blocks, M[m], {"device": args.device, "rtol": args.rtol})
                print(
                    f"| {name} | {solution.x.size:,} | {solution.solved_by} | {solution.iterations} | {wall:.2f} | "
                    f"{cpu:.2f} | {solution.timings['setup']:.2f} | {solution.relative_residual:.1e} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
