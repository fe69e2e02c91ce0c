"""A matrix from a Matrix Market file, solved on a Dask cluster of this machine.

Without --matrix a file is made first: the Laplacian of a triangulation of random points, with a little on its diagonal.
Its rows are in no good order, so the rows of each worker are put together by METIS where that is installed.

    python examples/matrix_file.py --workers 2 --out matrix_file.png
    python examples/matrix_file.py --matrix A.mtx.gz --out A.png
"""

import argparse
import importlib.util
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

import dsolver


def write_mesh_laplacian(file, points):
    """Laplacian of the graph of a triangulation, and 1 % of each degree."""
    import scipy.io  # not above: each worker process imports this script
    import scipy.sparse as sp
    from scipy.spatial import Delaunay

    corners = Delaunay(np.random.default_rng(0).random((points, 2))).simplices
    i = corners[:, [0, 1, 2]].ravel()
    j = corners[:, [1, 2, 0]].ravel()
    links = sp.coo_array((np.ones(i.size), (i, j)), shape=(points, points)).tocsr()
    links = ((links + links.T) > 0).astype(float)
    scipy.io.mmwrite(file, sp.diags_array(1.01 * links.sum(axis=1)) - links)


def draw(a, order, residuals, path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for ax, matrix, title in ((axes[0], a, "the file's order"), (axes[1], a[order][:, order], "chunk after chunk")):
        ax.spy(matrix, markersize=0.3)
        ax.set(title=title)
    axes[2].semilogy(residuals)
    axes[2].set(title="‖b − A x‖", xlabel="iteration")
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrix", help="the file; one is made by default")
    parser.add_argument("--points", type=int, default=20000, help="of the triangulation, where a file is made")
    parser.add_argument("--out", default="matrix_file.png", help="the picture")
    parser.add_argument("--workers", type=int, default=2, help="of the Dask cluster; 0: none")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        file = args.matrix or Path(folder) / "A.mtx"
        if args.matrix is None:
            write_mesh_laplacian(file, args.points)
        a = dsolver.read_matrix(file)
    b = np.random.default_rng(1).standard_normal(a.shape[0])
    partition = "graph" if importlib.util.find_spec("pymetis") else "rows"
    problem = dsolver.matrix(a, partition=partition, chunks=max(1, args.workers))

    with (
        LocalCluster(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as cluster,
        Client(cluster) if args.workers else nullcontext() as client,
        dsolver.Solver(problem, client=client) as solver,
    ):
        print(solver)
        solution = solver.solve(b, rtol=1e-10)

    print("rows:", a.shape[0])
    print("entries:", a.nnz)
    print("partition:", partition)
    print("status:", solution.status)
    print("iterations:", solution.iterations)
    print("residual:", np.linalg.norm(b - a @ solution.x) / np.linalg.norm(b))
    order = np.arange(a.shape[0]) if problem.numbers is None else problem.numbers
    draw(a, order, solution.residuals, args.out)


if __name__ == "__main__":
    main()
