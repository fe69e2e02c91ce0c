"""An inverse problem by gradients: what a plate is made of is recovered from temperatures that were measured at points.

-div(kappa grad u) = f with u = 0 at the sides of a thin plate. It is heated in several places, one after the other, and
each time thermometers at some points read u. kappa is what minimizes the misfit, plus a little of its own roughness:
JAX differentiates through all solves at once, and L-BFGS of SciPy descends. Each gradient costs one more solve.

    pip install jax
    python examples/recover_kappa.py --grid 48 --out kappa.png
"""

import argparse
import itertools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import dsolver
from dsolver.problems import diffusion


def heated(n, places):
    """Sources, one for each experiment: a warm spot around a place."""
    x, y = np.meshgrid(*[(np.arange(n) + 0.5) / n] * 2, indexing="ij")
    spots = [np.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.005) for a, b in places]
    return np.stack(spots, axis=-1)[:, :, None]


def hidden(n):
    """kappa of the plate: 1, with a part that conducts well and one that hardly does."""
    x, y = np.meshgrid(*[(np.arange(n) + 0.5) / n] * 2, indexing="ij")
    kappa = np.where((x - 0.35) ** 2 + (y - 0.6) ** 2 < 0.03, 4.0, 1.0)
    return np.where((abs(x - 0.7) < 0.1) & (abs(y - 0.35) < 0.2), 0.25, kappa)[..., None]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=48, help="cells along each side of the plate")
    parser.add_argument("--steps", type=int, default=60, help="of the descent, at most")
    parser.add_argument("--out", default="kappa.png", help="the picture")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    n, rng = args.grid, np.random.default_rng(0)

    problem = diffusion((n, n, 1), spacing=1.0 / n, bc={"x": "dirichlet", "y": "dirichlet"})
    places = [(a, b) for a in (0.2, 0.5, 0.8) for b in (0.2, 0.5, 0.8)]
    f, true = jnp.asarray(heated(n, places)), hidden(n)
    sensors = rng.random((n, n, 1)) < 0.2
    measured = dsolver.jax.solve(problem, f, kappa=true, rtol=1e-10)[sensors]
    noise = 1e-3 * float(abs(measured).max())
    measured = measured + noise * rng.standard_normal(measured.shape)

    @jax.jit
    @jax.value_and_grad
    def misfit(log_kappa):
        s = log_kappa.reshape(n, n, 1)
        u = dsolver.jax.solve(problem, f, kappa=jnp.exp(s), rtol=1e-8)
        rough = sum(jnp.sqrt(jnp.diff(s, axis=axis) ** 2 + 1e-4).sum() for axis in (0, 1))
        return (((u[sensors] - measured) / noise) ** 2).mean() + 2.0 * rough / n**2

    steps = itertools.count(1)

    def tell(intermediate_result):  # minimize looks at the name
        if (step := next(steps)) % 10 == 0:
            print(f"step {step}: misfit {intermediate_result.fun:.4g}", flush=True)

    start = np.zeros(n * n)
    found = minimize(misfit, start, jac=True, method="L-BFGS-B", callback=tell, options={"maxiter": args.steps})
    kappa = np.exp(found.x).reshape(n, n)

    def error(values):
        return float(np.sqrt(np.mean((np.log(values) - np.log(true[..., 0])) ** 2)))

    print("thermometers:", int(sensors.sum()))
    print("misfit at the start:", float(misfit(start)[0]))
    print("misfit at the end:", float(found.fun))
    print("solves with gradients:", found.nfev)
    print("error of log kappa at the start:", error(np.ones((n, n))))
    print("error of log kappa at the end:", error(kappa))
    print("kappa in the good part:", float(kappa[true[..., 0] == 4.0].mean()))
    print("kappa in the bad part:", float(kappa[true[..., 0] == 0.25].mean()))
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for ax, values, title in ((axes[0], true[..., 0], "kappa of the plate"), (axes[1], kappa, "recovered")):
        shown = ax.imshow(np.log2(values).T, origin="lower", extent=(0, 1, 0, 1), vmin=-2.5, vmax=2.5, cmap="RdBu_r")
        ax.set(title=title, xlabel="x", ylabel="y")
    spots = np.argwhere(sensors[..., 0])
    axes[0].plot(*((spots + 0.5) / n).T, ".", color="black", markersize=2, label="thermometers")
    axes[0].legend(loc="upper right", fontsize="small")
    figure.colorbar(shown, ax=axes, label="log2 kappa")
    figure.savefig(args.out, dpi=80)


if __name__ == "__main__":
    main()
