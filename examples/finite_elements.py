"""Finite elements on an unstructured mesh: scikit-fem assembles the matrix, dsolver solves with it.

A membrane over a disk under constant load: −Δu = 1 with u = 0 on the circle, whose solution is (1 − r²) / 4. The mesh
is refined several times; with linear triangles the error falls fourfold each time.

    pip install scikit-fem
    python examples/finite_elements.py --refined 6 --out membrane.png
"""

import argparse
from contextlib import nullcontext

import numpy as np
from distributed import Client
from skfem import Basis, ElementTriP1, MeshTri, condense
from skfem.models.poisson import laplace, unit_load

import dsolver


def solved(refined, client):
    """The mesh, the solution at its nodes and what is known of the solve."""
    mesh = MeshTri.init_circle(refined)
    basis = Basis(mesh, ElementTriP1())
    a, b, x, inner = condense(laplace.assemble(basis), unit_load.assemble(basis), D=basis.get_dofs())
    solution = dsolver.solve(a, b, M="amg", client=client, rtol=1e-10)
    x[inner] = solution.x
    return mesh, x, solution


def largest_error(mesh, u):
    return np.abs(u - (1.0 - (mesh.p**2).sum(axis=0)) / 4.0).max()


def draw(mesh, u, path):
    import matplotlib.pyplot as plt  # not above: each worker process imports this script

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    seen = axes[0].tripcolor(*mesh.p, mesh.t.T, u, shading="gouraud")
    axes[0].set(title="deflection", aspect="equal")
    figure.colorbar(seen, ax=axes[0])
    coarse = MeshTri.init_circle(3)
    axes[1].triplot(*coarse.p, coarse.t.T, linewidth=0.6, color="black")
    axes[1].set(title="the mesh, refined three times", aspect="equal")
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refined", type=int, default=6, help="how many times the mesh is refined")
    parser.add_argument("--out", default="membrane.png", help="the picture")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()

    with Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client:
        coarse = largest_error(*solved(args.refined - 1, client)[:2])
        mesh, u, solution = solved(args.refined, client)

    print("unknowns:", solution.x.size)
    print("status:", solution.status)
    print("iterations:", solution.iterations)
    print("largest error:", largest_error(mesh, u))
    print("error of the coarser mesh / error:", coarse / largest_error(mesh, u))
    draw(mesh, u, args.out)


if __name__ == "__main__":
    main()
