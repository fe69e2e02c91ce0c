"""Systems of blocks by finite elements: iterations and seconds of Stokes, Darcy and Oseen flow, by size.

Stokes flow in a channel of 2 by 1 with Taylor-Hood elements (quadratic velocity, linear pressure) on triangles, of
which there are four times as many each time, and Darcy flow with Raviart-Thomas elements through a medium whose
permeability is log-normal. Oseen flow around the middle of a square with the viscosity --viscosity, for which the
Reynolds number is 2 / viscosity, with Taylor-Hood elements, and with upwind differences on a staggered grid. Each is
one call of `dsolver.solve`, by default with what M="auto" takes, and for Oseen flow with pressure convection-diffusion.

    pip install scikit-fem
    python bench/stokes.py --refined 4 5 6
    python bench/stokes.py --flows oseen upwind --refined 4 5 6 7 --viscosity 0.1 0.02 --m own lsc
    python bench/stokes.py --refined 5 6 7 8 --device cuda
"""

import argparse
import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
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
from skfem.helpers import ddot, div, dot, grad, mul

import dsolver
from dsolver import preconditioners

M = {
    "own": None,
    "auto": "auto",
    "lsc": preconditioners.LeastSquaresCommutator(),
    "diagonal": preconditioners.BlockDiagonal(),
    "triangular": preconditioners.BlockTriangular(),
    "schur": preconditioners.Schur(),
    "simple": preconditioners.Schur(correction="diagonal"),
}


class Flow(NamedTuple):
    """Blocks [[a, bᵀ], [b, 0]], the right-hand side of both fields, and the preconditioner made for it."""

    a: Any
    b: Any
    right: Any
    own: Any = "auto"


@BilinearForm
def stiffness(u, v, _):
    return ddot(grad(u), grad(v))


@BilinearForm
def divergence(u, q, _):
    return -div(u) * q


@BilinearForm
def resistance(u, v, w):
    return dot(u, v) / w["permeability"]


@BilinearForm
def convection(u, v, w):
    return dot(mul(grad(u), w["flow"]), v)


@BilinearForm
def mass(p, q, _):
    return p * q


@BilinearForm
def diffusion(p, q, _):
    return dot(grad(p), grad(q))


@BilinearForm
def transport(p, q, w):
    return dot(grad(p), w["flow"]) * q


def channel(refined):
    return MeshTri.init_tensor(np.linspace(0.0, 2.0, 2 * 2**refined + 1), np.linspace(0.0, 1.0, 2**refined + 1))


def stokes(refined):
    """A parabolic inflow, walls, and an open end."""
    mesh = channel(refined)
    velocity = Basis(mesh, ElementVector(ElementTriP2()), intorder=4)
    pressure = velocity.with_element(ElementTriP1())
    a, b = asm(stiffness, velocity).tocsr(), asm(divergence, velocity, pressure).tocsr()
    held = velocity.get_dofs(lambda x: (x[0] == 0.0) | (x[1] == 0.0) | (x[1] == 1.0)).all()
    u = np.zeros(velocity.N)
    inflow = velocity.get_dofs(lambda x: x[0] == 0.0).all(["u^1", "u^1"])
    u[inflow] = 4.0 * velocity.doflocs[1, inflow] * (1.0 - velocity.doflocs[1, inflow])
    inner = np.setdiff1d(np.arange(velocity.N), held)
    return Flow(a[inner][:, inner], b[:, inner], -np.r_[(a @ u)[inner], b @ u])


def darcy(refined):
    """A source and a sink in the medium, whose boundary is open."""
    mesh = channel(refined)
    flux = Basis(mesh, ElementTriRT0(), intorder=2)
    pressure = flux.with_element(ElementTriP0())
    permeability = np.exp(2.0 * np.random.default_rng(0).standard_normal(mesh.nelements))
    a = asm(resistance, flux, permeability=pressure.interpolate(permeability)).tocsr()
    b = asm(divergence, flux, pressure).tocsr()
    wells = np.zeros(mesh.nelements)
    wells[[0, -1]] = -1.0, 1.0
    return Flow(a, b, np.r_[np.zeros(a.shape[0]), wells])


def oseen(refined, viscosity):
    """The flow (2 y (1 - x²), -2 x (1 - y²)) in the square from -1 to 1, and forces at random."""
    n = 2**refined
    velocity = Basis(
        MeshTri.init_tensor(*[np.linspace(-1.0, 1.0, n + 1)] * 2), ElementVector(ElementTriP2()), intorder=5
    )
    pressure = velocity.with_element(ElementTriP1())
    x, y = velocity.global_coordinates().value
    flow = np.stack([2.0 * y * (1.0 - x**2), -2.0 * x * (1.0 - y**2)])
    a = (viscosity * asm(stiffness, velocity) + asm(convection, velocity, flow=flow)).tocsr()
    b = asm(divergence, velocity, pressure).tocsr()
    inner = velocity.complement_dofs(velocity.get_dofs())
    laplacian = asm(diffusion, pressure).tocsr()
    own = preconditioners.PressureConvectionDiffusion(
        mass=asm(mass, pressure).tocsr(),
        laplacian=laplacian,
        convection=(viscosity * laplacian + asm(transport, pressure, flow=flow)).tocsr(),
    )
    return Flow(a[inner][:, inner], b[:, inner], forces(len(inner), pressure.N), own)


def upwind(refined, viscosity):
    """Flow of `oseen` on a staggered grid of as many unknowns: a velocity has a cell around each face of the grid."""
    n = 2 * 2**refined
    h, line = 2.0 / n, np.linspace(-1.0, 1.0, n + 1)
    inner, middle = line[1:-1], (line[1:] + line[:-1]) / 2.0
    step = sp.diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    a = sp.block_diag(
        [
            volumes((inner, middle), h, viscosity, walls=(1.0, 2.0)),
            volumes((middle, inner), h, viscosity, walls=(2.0, 1.0)),
        ]
    )
    b = sp.csr_array(h * sp.vstack([sp.kron(step, sp.eye_array(n)), sp.kron(sp.eye_array(n), step)]).T)
    own = preconditioners.PressureConvectionDiffusion(
        mass=h**2 * sp.eye_array(n * n),
        laplacian=b @ b.T / h**2,
        convection=volumes((middle, middle), h, viscosity, walls=(0.0, 0.0)),
    )
    return Flow(sp.csr_array(a), b, forces(a.shape[0], b.shape[0]), own)


def volumes(places, h, viscosity, walls):
    """Upwind finite volumes of width h around places along both axes; walls: one over the distance to them, times h."""
    shape = [len(each) for each in places]
    rows = sp.csr_array((shape[0] * shape[1],) * 2)
    corners = [[1.0 - np.clip(each + side, -1.0, 1.0) ** 2 for side in (-h / 2.0, h / 2.0)] for each in places]
    for along, sign in ((0, 1.0), (1, -1.0)):
        across = corners[1 - along][1] - corners[1 - along][0]  # of the stream function, along a face
        for side, step in ((0, -1), (1, 1)):
            flux = sign * step * np.multiply.outer(corners[along][side], across)
            flux = (flux if along == 0 else flux.T).ravel()
            units = [sp.eye_array(length) for length in shape]
            units[along] = sp.eye_array(shape[along], k=step)
            beside = sp.csr_array(sp.kron(*units))
            conducts = viscosity * np.where(beside.sum(axis=1) > 0.0, 1.0, walls[along])
            rows = rows + sp.diags_array(conducts + np.maximum(flux, 0.0))
            rows = rows + sp.diags_array(np.minimum(flux, 0.0) - viscosity) @ beside
    return sp.csr_array(rows)


def forces(velocities, pressures):
    """Standard normal numbers on velocities; nothing on pressures, which are known up to a constant."""
    return np.r_[np.random.default_rng(0).standard_normal(velocities), np.zeros(pressures)]


def measured(flow, m, options):
    began = time.perf_counter(), time.process_time()
    problem = dsolver.block([[flow.a, flow.b.T], [flow.b, None]])
    solution = dsolver.solve(problem, flow.right, M=flow.own if m is None else m, **options)
    return solution, time.perf_counter() - began[0], time.process_time() - began[1]


NAMES = ("stokes", "darcy", "oseen", "upwind")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flows", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--refined", type=int, nargs="+", default=[4, 5, 6], help="2**refined cells across the channel")
    parser.add_argument("--viscosity", type=float, nargs="+", default=[0.02], help="of Oseen flow")
    parser.add_argument("--m", nargs="+", choices=M, default=["own"], help="preconditioners")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rtol", type=float, default=1e-8)
    args = parser.parse_args()
    made = {"stokes": stokes, "darcy": darcy}
    for viscosity in args.viscosity:
        made |= {f"{each.__name__} {viscosity:g}": partial(each, viscosity=viscosity) for each in (oseen, upwind)}
    print("| flow | unknowns | M | iterations | s | s of processors | set-up s | residual |\n" + "|---" * 8 + "|")
    for name in (each for each in made if each.split()[0] in args.flows):
        for refined in args.refined:
            flow = made[name](refined)
            for m in args.m:
                solution, wall, cpu = measured(flow, M[m], {"device": args.device, "rtol": args.rtol})
                print(
                    f"| {name} | {solution.x.size:,} | {solution.solved_by} | {solution.iterations} | {wall:.2f} | "
                    f"{cpu:.2f} | {solution.timings['setup']:.2f} | {solution.relative_residual:.1e} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
