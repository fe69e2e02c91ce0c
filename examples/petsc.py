"""A preconditioner of dsolver in PETSc: algebraic multigrid under PETSc's conjugate gradients.

The temperature of a plate with random blocks that conduct 1 or 1000 times as well, its rim at zero. PETSc has the
matrix and the method; dsolver is its preconditioner "python" (PCPYTHON). PETSc's own incomplete factors are beside it.

    pip install petsc4py  # or a package of your system
    python examples/petsc.py --grid 200 --out petsc.png
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp

import dsolver

try:
    from petsc4py import PETSc
except (ImportError, ValueError) as error:  # the latter where it was built for another NumPy
    PETSc, why = None, str(error)


class Preconditioner:
    """Preconditioner for PETSc, which calls these methods of one that is written in Python."""

    def setUp(self, pc):
        _, p = pc.getOperators()
        start, columns, values = p.getValuesCSR()
        self.solver = dsolver.Solver(sp.csr_array((values, columns, start), shape=p.getSize()), M="amg")
        self.inverse = self.solver.aspreconditioner()

    def apply(self, _, r, z):
        z.setArray(self.inverse @ r.getArray(readonly=True))

    def destroy(self, _):
        self.solver.close()


def plate(n):
    """The matrix of n x n cells: five points, with harmonic means of both cells' conductivities."""
    rng = np.random.default_rng(0)
    kappa = np.where(np.kron(rng.random((10, 10)), np.ones((n // 10, n // 10))) < 0.5, 1.0, 1000.0)
    around = np.pad(kappa, 1, mode="edge")
    number = np.pad(np.arange(n * n).reshape(n, n), 1, constant_values=-1)
    a = sp.csr_array((n * n, n * n))
    here = number[1:-1, 1:-1].ravel()
    for i, j in ((0, 1), (2, 1), (1, 0), (1, 2)):
        there = number[i : i + n, j : j + n].ravel()
        face = 2.0 / (1.0 / kappa + 1.0 / around[i : i + n, j : j + n]).ravel()
        a += sp.diags_array(face)
        inner = there >= 0
        a -= sp.coo_array((face[inner], (here[inner], there[inner])), shape=a.shape).tocsr()
    return a.tocsr()


def solved(a, b, set_up):
    """x, and the residuals of PETSc's conjugate gradients with a preconditioner that `set_up` chooses."""
    matrix = PETSc.Mat().createAIJ(a.shape, csr=(a.indptr.astype(np.int32), a.indices.astype(np.int32), a.data))
    x, rhs = matrix.createVecs()
    rhs.setArray(b)
    ksp = PETSc.KSP().create()
    ksp.setOperators(matrix)
    ksp.setType("cg")
    ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
    ksp.setTolerances(rtol=1e-10, max_it=5000)
    ksp.setConvergenceHistory()
    pc = ksp.getPC()
    set_up(pc)
    ksp.solve(rhs, x)
    assert ksp.getConvergedReason() > 0, ksp.getConvergedReason()
    residuals = ksp.getConvergenceHistory() / np.linalg.norm(b)
    found = x.getArray().copy()
    ksp.destroy()
    return found, residuals


def ours(pc):
    pc.setType(PETSc.PC.Type.PYTHON)
    pc.setPythonContext(Preconditioner())


def draw(x, histories, path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    seen = axes[0].imshow(x.T, origin="lower", extent=(0, 1, 0, 1))
    axes[0].set(title="temperature", xlabel="x", ylabel="y")
    figure.colorbar(seen, ax=axes[0])
    for name, residuals in histories.items():
        axes[1].semilogy(residuals, label=name)
    axes[1].set(title="conjugate gradients of PETSc", xlabel="iteration", ylabel="‖b - Ax‖ / ‖b‖")
    axes[1].legend()
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=200, help="cells along each axis, a multiple of 10")
    parser.add_argument("--out", default="petsc.png", help="the picture")
    args = parser.parse_args()
    if PETSc is None:
        sys.exit(f"this example needs petsc4py, which cannot be loaded ({why}): pip install petsc4py")

    a = plate(args.grid)
    b = np.full(a.shape[0], 1.0 / args.grid**2)
    x, residuals = solved(a, b, ours)
    other, factors = solved(a, b, lambda pc: pc.setType("icc"))
    print("unknowns:", x.size)
    print("iterations with dsolver:", len(residuals) - 1)
    print("iterations with incomplete factors:", len(factors) - 1)
    print("residual:", np.linalg.norm(b - a @ x) / np.linalg.norm(b))
    print("largest difference:", np.abs(x - other).max() / np.abs(x).max())
    histories = {"algebraic multigrid of dsolver": residuals, "incomplete factors of PETSc": factors}
    draw(x.reshape(args.grid, args.grid), histories, args.out)


if __name__ == "__main__":
    main()
