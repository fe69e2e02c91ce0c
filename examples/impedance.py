"""Impedance tomography: conductivity and permittivity inside a body, from currents and voltages at its surface.

Sixteen electrodes stand around a square body. Alternating current goes in through one and out through the next, and
the voltages between all neighbors are measured. κ = conductivity + i ω permittivity is found by Gauss and Newton: with
the fields u of all pairs a change of κ in a cell changes the voltage between pair i for the current of pair j by the
product of the fluxes of both, as rows are those of finite volumes. Each step is a least squares problem, damped, for
the change of log κ in smooth blobs.

    python examples/impedance.py --grid 48 --out impedance.png
"""

import argparse
from contextlib import nullcontext

import numpy as np
import scipy.sparse as sp
from distributed import Client
from scipy import ndimage

import dsolver
from dsolver.problems import diffusion

ELECTRODES = 16
NOISE = 1e-3
STEPS = 6
DAMPING = 0.02


def body(n):
    """The true κ, complex (n, n): a good conductor and a bad one with much permittivity in a uniform body."""
    x, y = np.meshgrid((np.arange(n) + 0.5) / n, (np.arange(n) + 0.5) / n, indexing="ij")
    good, bad = ((x - 0.3) ** 2 + (y - 0.65) ** 2 < 0.15**2), ((x - 0.7) ** 2 + (y - 0.35) ** 2 < 0.15**2)
    return np.where(good, 4.0 + 0.2j, np.where(bad, 0.3 + 0.5j, 1.0 + 0.1j)), good, bad


def currents(n):
    """Current of each pair of neighboring electrodes, in and out of a cell at the surface: (pairs, n, n)."""
    side = (np.arange(ELECTRODES // 4) + 0.5) / (ELECTRODES // 4) * n
    side, end = side.astype(int), n - 1
    around = [(i, 0) for i in side] + [(end, i) for i in side] + [(i, end) for i in side[::-1]]
    around += [(0, i) for i in side[::-1]]
    found = np.zeros((ELECTRODES, n, n))
    for pair, (one, other) in enumerate(zip(around, around[1:] + around[:1], strict=True)):
        found[pair][one], found[pair][other] = 1.0, -1.0
    return found


def fields(solver, pairs):
    """u of each pair's current, and how many iterations they took on average."""
    solutions = [solver.solve(current, rtol=1e-10) for current in pairs]
    assert all(solution.converged for solution in solutions)
    return np.array([solution.x for solution in solutions]), np.mean([each.iterations for each in solutions])


def sensitivities(kappa, u):
    """Derivatives of the voltage of pair i for the current of pair j in log κ of each cell: (pairs, pairs, n, n)."""
    found = np.zeros((len(u), *u.shape), dtype=complex)
    for axis in (0, 1):
        k, du = np.moveaxis(kappa, axis, 0), np.diff(np.moveaxis(u, 1 + axis, 1), axis=1)
        products = -du[:, None] * du[None]  # and T = 2 k k' / (k + k') of a face
        out = np.moveaxis(found, 2 + axis, 2)
        out[:, :, :-1] += products * 2.0 * k[:-1] * (k[1:] / (k[:-1] + k[1:])) ** 2
        out[:, :, 1:] += products * 2.0 * k[1:] * (k[:-1] / (k[:-1] + k[1:])) ** 2
    return found


def smooth(values, n):
    """Each of some images (..., n, n) as the blobs that it is made of, and back: the operator is symmetric."""
    return ndimage.gaussian_filter(values, (0,) * (values.ndim - 2) + (n / 24, n / 24), mode="nearest")


def improved(log_kappa, u, missing, n):
    """log κ after a step: the smallest change, damped, that explains the missing voltages."""
    rows = sensitivities(np.exp(log_kappa), u).reshape(-1, n, n)
    rows = (smooth(rows.real, n) + 1j * smooth(rows.imag, n)).reshape(len(rows), -1)
    both = sp.csr_array(np.block([[rows.real, -rows.imag], [rows.imag, rows.real]]))  # for both parts
    scale = np.sqrt((both.data**2).sum() / both.shape[0])
    found = dsolver.lsmr(both, np.concatenate([missing.real, missing.imag]), damp=DAMPING * scale, maxiter=500)[0]
    real, imaginary = (smooth(part, n) for part in found.reshape(2, n, n))
    return log_kappa + real + 1j * imaginary


def draw(true, kappa, misfits, path):
    import matplotlib.pyplot as plt  # not above: each worker process imports this script

    places = [["0 true", "0 found", "misfit"], ["1 true", "1 found", "misfit"]]
    figure, axes = plt.subplot_mosaic(places, figsize=(10, 6), layout="constrained")
    for row, (name, part) in enumerate((("conductivity", np.real), ("permittivity times ω", np.imag))):
        for what, values in (("true", true), ("found", kappa)):
            axis, limits = axes[f"{row} {what}"], (part(true).min(), part(true).max())
            seen = axis.imshow(part(values).T, origin="lower", vmin=limits[0], vmax=limits[1])
            axis.set(title=f"{name}, {what}", xticks=[], yticks=[])
            figure.colorbar(seen, ax=axis, shrink=0.8)
    axes["misfit"].semilogy(misfits, "o-")
    axes["misfit"].axhline(NOISE, color="gray", linestyle=":")
    axes["misfit"].set(title="missing part of the voltages", xlabel="step")
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=48, help="cells along each side")
    parser.add_argument("--out", default="impedance.png", help="the picture")
    parser.add_argument("--workers", type=int, default=0, help="of a Dask cluster on this machine; 0: no cluster")
    args = parser.parse_args()

    n = args.grid
    (true, good, bad), pairs = body(n), currents(n)
    random = np.random.default_rng(1)
    with (
        Client(n_workers=args.workers, threads_per_worker=1) if args.workers else nullcontext() as client,
        dsolver.Solver(diffusion((n, n), true, bc="neumann"), M="amg", client=client) as solver,
    ):
        u, _ = fields(solver, pairs)
        measured = np.einsum("ixy,jxy->ij", pairs, u)
        size = np.linalg.norm(measured)
        noise = random.standard_normal((2, *measured.shape)) * NOISE * size / measured.size**0.5
        measured = measured + (noise[0] + 1j * noise[1]) / np.sqrt(2.0)
        log_kappa, misfits, iterations = np.full((n, n), np.log(1.0 + 0.1j)), [], 0.0
        for step in range(STEPS + 1):
            solver.update(kappa=np.exp(log_kappa))
            u, iterations = fields(solver, pairs)
            missing = measured - np.einsum("ixy,jxy->ij", pairs, u)
            misfits.append(np.linalg.norm(missing) / size)
            if step < STEPS:
                log_kappa = improved(log_kappa, u, missing.ravel(), n)
    kappa = np.exp(log_kappa)
    print("iterations of a field:", iterations)
    print("misfit at the start:", misfits[0])
    print("misfit at the end:", misfits[-1])
    for name, inside in (("good", good), ("bad", bad), ("rest", ~(good | bad))):
        found = np.exp(log_kappa[inside].mean())
        print(f"conductivity, {name} part: {found.real:.3f}")
        print(f"permittivity, {name} part: {found.imag:.3f}")
    draw(true, kappa, misfits, args.out)


if __name__ == "__main__":
    main()
