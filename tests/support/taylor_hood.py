"""Oseen flow in a square by Taylor-Hood elements: velocities biquadratic, pressures bilinear (Hood and Taylor 1973)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse as sp

Shape = tuple[int, int]
"""Degree of an element's functions along an axis, and how often they are differentiated."""
Weight = Callable[[Any], Any]
SHAPES: Final[dict[Shape, Callable[[Any], list[Any]]]] = {
    (1, 0): lambda s: [(1 - s) / 2, (1 + s) / 2],
    (1, 1): lambda s: [-0.5 + 0 * s, 0.5 + 0 * s],
    (2, 0): lambda s: [s * (s - 1) / 2, 1 - s * s, s * (s + 1) / 2],
    (2, 1): lambda s: [s - 0.5, -2 * s, s + 0.5],
}


class Oseen(NamedTuple):
    """Blocks of the system, and matrices of the pressure."""

    a: Any
    bt: Any
    mass: Any
    laplacian: Any
    convection: Any


def line(n: int, rows: Shape, columns: Shape, weight: Weight = np.ones_like) -> Any:
    """∫ weight φ ψ along an axis from -1 to 1 in n elements, with functions φ of rows and ψ of columns."""
    points, weights = np.polynomial.legendre.leggauss(5)
    f = weight((2 * np.arange(n)[:, None] + 1 + points) / n - 1)
    phi, psi = np.array(SHAPES[rows](points)), np.array(SHAPES[columns](points))
    values = np.einsum("q,eq,iq,jq->eij", weights, f, phi, psi) * float(n) ** (rows[1] + columns[1] - 1)
    first = np.arange(n)[:, None, None]
    i, j = rows[0] * first + np.arange(len(phi))[:, None], columns[0] * first + np.arange(len(psi))
    where = np.broadcast_to(i, values.shape).ravel(), np.broadcast_to(j, values.shape).ravel()
    return sp.coo_array((values.ravel(), where), shape=(rows[0] * n + 1, columns[0] * n + 1)).tocsr()


def oseen(n: int, viscosity: float, *, channel: bool) -> Oseen:
    """The flow in n² elements: through a channel from x = -1 to 1, or around the middle of a box."""

    def convected(degree: int) -> Any:
        """ν ∇u·∇v + (w·∇u) v."""
        same, slope = (degree, 0), (degree, 1)
        mass, stiffness = line(n, same, same), line(n, slope, slope)
        found = viscosity * (sp.kron(stiffness, mass) + sp.kron(mass, stiffness))
        if channel:
            return found + sp.kron(line(n, same, slope), line(n, same, same, lambda y: 1 - y * y))
        out, across = line(n, same, slope, lambda t: 2 - 2 * t * t), line(n, same, same, lambda t: t)
        return found + sp.kron(out, across) - sp.kron(across, out)

    u, mass, stiffness = convected(2).tocsr(), line(n, (1, 0), (1, 0)), line(n, (1, 1), (1, 1))
    laplacian, convection = (sp.kron(stiffness, mass) + sp.kron(mass, stiffness)).tocsr(), convected(1).tocsr()
    inner = np.arange(1, 2 * n)
    free = (np.arange(1, 2 * n + 1) if channel else inner)[:, None] * (2 * n + 1) + inner
    free = free.ravel()
    bt = [
        -sp.kron(line(n, (2, 1), (1, 0)), line(n, (2, 0), (1, 0))),
        -sp.kron(line(n, (2, 0), (1, 0)), line(n, (2, 1), (1, 0))),
    ]
    if channel:  # Elman and Tuminaro: held where fluid leaves, and what enters
        enters = sp.csr_array(([1.0], ([0], [0])), shape=(n + 1, n + 1))
        convection = convection + sp.kron(enters, line(n, (1, 0), (1, 0), lambda y: 1 - y * y))
        laplacian, convection = (held(rows, np.arange(n * (n + 1), (n + 1) ** 2)) for rows in (laplacian, convection))
    return Oseen(
        a=sp.csr_array(sp.block_diag([u[free][:, free]] * 2)),
        bt=sp.csr_array(sp.vstack([each.tocsr()[free] for each in bt])),
        mass=sp.csr_array(sp.kron(mass, mass)),
        laplacian=laplacian,
        convection=sp.csr_array(convection),
    )


def held(rows: Any, places: Any) -> Any:
    """A matrix with zeros but on the diagonal in some rows and columns."""
    kept = np.ones(rows.shape[0])
    kept[places] = 0.0
    kept, others = sp.diags_array(kept), sp.diags_array((1.0 - kept) * rows.diagonal())
    return sp.csr_array(kept @ rows @ kept + others)
