"""Coefficients of the kinds that people bring, for programs that measure: reservoirs, chips, rocks, batteries and more.

Each is κ on a cube of n³ cells, drawn from a seed, with u = 0 around it. Features are one to a few cells thin at any n,
so a finer grid has more of them, and contrasts reach 10⁶. `made` makes one by its name in `FIELDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy import ndimage

import dsolver

F64 = npt.NDArray[np.float64]
Rng = np.random.Generator


@final
@dataclass(frozen=True, kw_only=True)
class Field:
    """κ on the cells of a box.

    Attributes:
        kappa: float64 (nx, ny, nz), positive.
        sizes: of the cells along x, y, z, (n,) each.
        solid: cells that are left out, bool; None for none.
    """

    kappa: F64
    sizes: tuple[F64, F64, F64]
    solid: npt.NDArray[np.bool_] | None = None

    def problem(self, chunks: Any = None) -> dsolver.Problem:
        """-∇·(κ∇u) on the grid."""
        grid: Any = self.kappa.shape
        return dsolver.problems.diffusion(grid, self.kappa, spacing=self.sizes, mask=self.solid, chunks=chunks)

    def matrix(self, xp: Any = np, sparse: Any = sp) -> Any:
        """Finite volumes in compressed rows, without those of cells that are left out.

        Args:
            xp: NumPy, or CuPy for a matrix on the GPU.
            sparse: the module of sparse matrices that belongs to it.
        """
        own = xp.asarray(np.ones(self.kappa.shape, dtype=bool) if self.solid is None else ~self.solid)
        kappa = xp.where(own, xp.asarray(self.kappa), 0.0)
        number = (xp.cumsum(own, dtype=np.int32) - 1).reshape(own.shape).astype(np.int32)
        sizes, diagonal = [xp.asarray(size) for size in self.sizes], xp.zeros(kappa.shape)
        rows, columns, values = [number[own]], [number[own]], []
        for axis in range(3):
            across = [sizes[other] for other in range(3) if other != axis]
            half = 2.0 * xp.moveaxis(kappa, axis, 0) * xp.outer(*across) / sizes[axis][:, None, None]  # center to face
            d, i = xp.moveaxis(diagonal, axis, 0), xp.moveaxis(number, axis, 0)
            total = half[:-1] + half[1:]
            face = xp.where(total > 0.0, half[:-1] * half[1:] / xp.where(total > 0.0, total, 1.0), 0.0)
            d[:-1] += face
            d[1:] += face
            d[0] += half[0]
            d[-1] += half[-1]
            kept = face > 0.0
            rows += [i[:-1][kept], i[1:][kept]]
            columns += [i[1:][kept], i[:-1][kept]]
            values += [-face[kept], -face[kept]]
        entries = xp.concatenate([diagonal[own], *values])
        places = xp.concatenate(rows), xp.concatenate(columns)
        return sparse.csr_matrix((entries, places), shape=(len(rows[0]),) * 2)


def made(name: str, n: int, seed: int = 0) -> Field:
    """The field of a name on n³ cells."""
    found = FIELDS[name](n, np.random.default_rng(seed))
    return found if isinstance(found, Field) else Field(kappa=found, sizes=_cubes(n))


# -- regular ones ------------------------------------------------------------------------------------------------------


def constant(n: int, _: Rng) -> F64:
    return np.ones((n, n, n))


def smooth(n: int, rng: Rng) -> F64:
    """A few waves over two decades."""
    waves = _scaled(ndimage.gaussian_filter(rng.standard_normal((n, n, n)), n / 8, mode="wrap"))
    return 10.0**waves


def bodies(n: int, _: Rng) -> F64:
    """A few large bodies that jump by 10⁴."""
    x, y, z = _axes(n)
    kappa = np.ones((n, n, n))
    kappa[(x - 0.3) ** 2 + (y - 0.4) ** 2 + (z - 0.5) ** 2 < 0.04] = 1e4
    kappa[(x > 0.6) & (y > 0.5) & (z > 0.2) & (z < 0.8)] = 1e-2
    return kappa


# -- hard ones ---------------------------------------------------------------------------------------------------------


def channels(n: int, rng: Rng) -> F64:
    """Straight lines of one cell that conduct 10⁵ times better, along every axis."""
    kappa = np.ones((n, n, n))
    for _ in range(n * n // 20):
        line: list[Any] = rng.integers(0, n, 2).tolist()
        line.insert(int(rng.integers(3)), slice(None))
        kappa[tuple(line)] = 1e5
    return kappa


def reservoir(n: int, rng: Rng) -> F64:
    """Layers of sand and shale with winding channels of one to three cells: seven decades."""
    kappa = np.repeat(_layers(n, rng, 1, 5, -2.0, 1.0)[None, None, :], n, 0).repeat(n, 1)
    kappa *= 10.0 ** (0.5 * rng.standard_normal((n, n, n)))
    x = np.arange(n)
    for _ in range(n):
        middle = rng.uniform(0, n) + n / 8 * np.sin(rng.uniform(1, 4) * np.pi * x / n + rng.uniform(0, 6))
        depth, width = int(rng.integers(0, n)), int(rng.integers(1, 4))
        y = (middle[:, None].astype(int) + np.arange(width)) % n
        kappa[x[:, None], y, depth] = 1e4
    return kappa


def aquifer(n: int, rng: Rng) -> Field:
    """Flat layers with flat lenses of clay, cells ten times as wide as high: 10⁶."""
    kappa = np.repeat(_layers(n, rng, 2, 8, -1.0, 1.0)[None, None, :], n, 0).repeat(n, 1)
    for _ in range(3 * n):
        place, size = rng.uniform(0, n, 3), np.array([*rng.uniform(2, n / 6, 2), rng.uniform(0.5, 2)])
        kappa[_ellipsoid(n, place, size)] = 1e-5 if rng.random() < 0.7 else 10.0
    return Field(kappa=kappa, sizes=(np.full(n, 10.0), np.full(n, 10.0), np.ones(n)))


def chip(n: int, rng: Rng) -> Field:
    """A package: layers of flat cells and blocks over three decades."""
    kappa = np.repeat(_layers(n, rng, 1, 6, -1.5, 1.5)[None, None, :], n, 0).repeat(n, 1)
    for _ in range(40):
        low, size = rng.integers(0, n, 3), rng.integers(2, max(3, n // 4), 3)
        high = low + np.array([size[0], size[1], max(1, size[2] // 4)])
        kappa[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = 10.0 ** rng.uniform(-1.5, 1.5)
    return Field(kappa=kappa, sizes=(np.full(n, 10.0), np.full(n, 10.0), np.ones(n)))


def board(n: int, rng: Rng) -> Field:
    """A printed board: copper traces one cell thick in every fourth layer of resin, and vias: 1400."""
    kappa = np.full((n, n, n), 0.3)
    for z in range(0, n, 4):
        for _ in range(n // 2):
            a, b, wide = rng.integers(0, n), np.sort(rng.integers(0, n, 2)), int(rng.integers(1, 3))
            along = (slice(a, a + wide), slice(b[0], b[1] + 1))
            kappa[(*(along if rng.random() < 0.5 else along[::-1]), z)] = 400.0
    for _ in range(n):
        kappa[*rng.integers(0, n, 2), :] = 400.0
    return Field(kappa=kappa, sizes=(np.full(n, 3.0), np.full(n, 3.0), np.ones(n)))


def rock(n: int, rng: Rng) -> F64:
    """Porous rock whose grains conduct 10⁻⁶ of what its pores do, which are 35 % of the cells."""
    noise = ndimage.gaussian_filter(rng.standard_normal((n, n, n)), 1.5)
    return np.where(noise > np.quantile(noise, 0.65), 1.0, 1e-6)


def pores(n: int, rng: Rng) -> Field:
    """Pores without the grains: the largest connected part of them."""
    open_ = rock(n, rng) > 0.5
    part, _ = ndimage.label(open_)
    largest = part == np.bincount(part[open_]).argmax()
    return Field(kappa=np.ones((n, n, n)), sizes=_cubes(n), solid=~largest)


def grains(n: int, rng: Rng) -> Field:
    """Rock whose grains are left out, with the pockets of its pores: they balance by themselves."""
    return Field(kappa=np.ones((n, n, n)), sizes=_cubes(n), solid=rock(n, rng) < 0.5)


def spheres(n: int, rng: Rng) -> Field:
    """The room between spheres of 6 to 12 cells, two thirds of all."""
    solid = np.zeros((n, n, n), dtype=bool)
    for _ in range(max(4, n**3 // 950)):
        solid[_ellipsoid(n, rng.uniform(0, n, 3), np.full(3, rng.uniform(3, 6)))] = True
    return Field(kappa=np.ones((n, n, n)), sizes=_cubes(n), solid=solid)


def obstacles(n: int, rng: Rng) -> Field:
    """A few large bodies that are left out, a tenth of all cells."""
    solid = np.zeros((n, n, n), dtype=bool)
    for center in rng.uniform(0.2, 0.8, (4, 3)) * n:
        solid[_ellipsoid(n, center, np.full(3, n / 6))] = True
    return Field(kappa=np.ones((n, n, n)), sizes=_cubes(n), solid=solid)


def packing(n: int, rng: Rng) -> F64:
    """Spheres of 4 to 8 cells that conduct 10⁴ times better than what is between them, and touch."""
    kappa = np.ones((n, n, n))
    for _ in range(max(8, n**3 // 700)):
        kappa[_ellipsoid(n, rng.uniform(0, n, 3), np.full(3, rng.uniform(2, 4)))] = 1e4
    return kappa


def bubbles(n: int, rng: Rng) -> F64:
    """Two fluids with a sharp and winding interface: 10³, as densities of water and air."""
    noise = ndimage.gaussian_filter(rng.standard_normal((n, n, n)), 3.0)
    return np.where(noise > 0.0, 1e-3, 1.0)


def membranes(n: int, rng: Rng) -> F64:
    """Cells of a foam or a tissue behind walls one cell thin that conduct 10⁻⁵."""
    seeds = rng.uniform(0, n, (max(8, n**3 // 500), 3))
    where = np.round(seeds).astype(int) % n
    marks = np.zeros((n, n, n), dtype=int)
    marks[tuple(where.T)] = np.arange(1, len(seeds) + 1)
    nearest: Any = ndimage.distance_transform_edt(marks == 0, return_distances=False, return_indices=True)
    region = marks[tuple(nearest)]
    wall = np.zeros((n, n, n), dtype=bool)
    for axis in range(3):
        here = np.moveaxis(region, axis, 0)
        np.moveaxis(wall, axis, 0)[1:] |= here[1:] != here[:-1]
    return np.where(wall, 1e-5, 1.0)


def screens(n: int, rng: Rng) -> F64:
    """Plates one cell thin that conduct 10⁻⁶, five cells apart, with a hole of one cell for every 30 of theirs."""
    kappa = np.ones((n, n, n))
    for x in range(2, n, 5):
        kappa[x] = np.where(rng.random((n, n)) < 1 / 30, 1.0, 1e-6)
    return kappa


def fractures(n: int, rng: Rng) -> F64:
    """Fractures one cell thin in any direction that conduct 10⁶ times better than the rock."""
    x, y, z = _axes(n)
    kappa = np.ones((n, n, n))
    for _ in range(12):
        a, b, c = (normal := rng.standard_normal(3)) / np.linalg.norm(normal)
        center, radius = rng.uniform(0.1, 0.9, 3), rng.uniform(0.15, 0.5)
        off = a * (x - center[0]) + b * (y - center[1]) + c * (z - center[2])
        away = (x - center[0]) ** 2 + (y - center[1]) ** 2 + (z - center[2]) ** 2
        kappa[(abs(off) < 0.6 / n) & (away < radius**2)] = 1e6
    return kappa


def battery(n: int, rng: Rng) -> F64:
    """Two electrodes of flat grains with a little binder, between foils, and a separator of fibers: 10⁵."""
    kappa = np.full((n, n, n), 1e-2)
    for _ in range(n**3 // 350):
        kappa[_ellipsoid(n, rng.uniform(0, n, 3), rng.uniform((1.5, 3.0, 3.0), (2.5, 6.0, 6.0)))] = 1.0
    binder = ndimage.gaussian_filter(rng.standard_normal((n, n, n)), 1.0)
    kappa[(kappa < 1.0) & (binder > np.quantile(binder, 0.9))] = 100.0
    middle = slice(int(0.45 * n), int(0.55 * n))
    kappa[middle] = np.where(rng.random(kappa[middle].shape) < 0.4, 1e-3, 1.0)
    kappa[:2] = kappa[-2:] = 100.0
    return kappa


def front(n: int, rng: Rng) -> F64:
    """A wrinkled front: burnt behind it, fresh before it, and a skin of one cell that conducts 10⁴ times better."""
    x, _, _ = _axes(n)
    wrinkles = _scaled(ndimage.gaussian_filter(rng.standard_normal((n, n)), 2.0, mode="wrap"))
    ahead = x - 0.5 - 0.12 * wrinkles[None, :, :] + 0.0 * np.ones((n, n, n))
    kappa = np.where(ahead > 0.0, 1.0, 1e-2)
    kappa[abs(ahead) < 0.7 / n] = 1e4
    return kappa


def stretched(n: int, rng: Rng) -> Field:
    """Cells that grow from walls, 500 times in all along each axis, and bodies that jump by 10³."""
    half = 500.0 ** (np.arange(n // 2) / max(1, n // 2 - 1))
    sizes = np.concatenate([half, half[::-1], half[-1:]])[:n]
    noise = ndimage.gaussian_filter(rng.standard_normal((n, n, n)), 4.0)
    return Field(kappa=np.where(noise > 0.0, 1e3, 1.0), sizes=(sizes, sizes, sizes))


def fractal(n: int, rng: Rng) -> F64:
    """Log-normal over six decades and more, with features of all sizes down to a cell."""
    waves = [np.fft.fftfreq(n) * n] * 3
    length = np.sqrt(sum(w**2 for w in np.meshgrid(*waves, indexing="ij")))
    length[0, 0, 0] = np.inf
    noise = np.fft.ifftn(np.fft.fftn(rng.standard_normal((n, n, n))) * length**-1.75).real
    return 10.0 ** (1.5 * _scaled(noise))


def noise(n: int, rng: Rng) -> F64:
    """A coefficient of each cell's own over six decades."""
    return 10.0 ** rng.uniform(-3.0, 3.0, (n, n, n))


def blocks(n: int, rng: Rng) -> F64:
    """1 or 10⁴ at random in blocks of eight cells."""
    few = np.where(rng.random((-(-n // 8),) * 3) < 0.5, 1.0, 1e4)
    return np.kron(few, np.ones((8, 8, 8)))[:n, :n, :n]


EASY: Final[dict[str, Callable[[int, Rng], F64 | Field]]] = {
    "constant": constant,
    "smooth": smooth,
    "bodies": bodies,
}
HARD: Final[dict[str, Callable[[int, Rng], F64 | Field]]] = {
    "channels": channels,
    "reservoir": reservoir,
    "aquifer": aquifer,
    "chip": chip,
    "board": board,
    "rock": rock,
    "pores": pores,
    "grains": grains,
    "spheres": spheres,
    "obstacles": obstacles,
    "packing": packing,
    "bubbles": bubbles,
    "membranes": membranes,
    "screens": screens,
    "fractures": fractures,
    "battery": battery,
    "front": front,
    "stretched": stretched,
    "fractal": fractal,
    "noise": noise,
    "blocks": blocks,
}
FIELDS: Final = {**EASY, **HARD}
"""Makers of fields by name: of n cells along each axis and a generator of random numbers."""


# -- parts of them -----------------------------------------------------------------------------------------------------


def _cubes(n: int) -> tuple[F64, F64, F64]:
    return np.ones(n), np.ones(n), np.ones(n)


def _axes(n: int) -> tuple[F64, F64, F64]:
    """Centers of cells in 0 .. 1."""
    x, y, z = np.meshgrid(*((np.arange(n) + 0.5) / n,) * 3, indexing="ij")
    return x, y, z


def _scaled(values: F64) -> F64:
    """Values with mean 0 and variance 1."""
    return (values - values.mean()) / values.std()


def _layers(n: int, rng: Rng, thin: int, thick: int, low: float, high: float) -> F64:
    """Powers of ten of `low` to `high`, the same for `thin` to `thick` cells: (n,)."""
    sizes = rng.integers(thin, thick + 1, n)
    return np.repeat(10.0 ** rng.uniform(low, high, n), sizes)[:n]


def _ellipsoid(n: int, center: F64, radii: F64) -> Any:
    """The cells of an ellipsoid, as an index."""
    low = np.maximum(0, np.floor(center - radii)).astype(int)
    high = np.minimum(n, np.ceil(center + radii) + 1).astype(int)
    x, y, z = np.meshgrid(*(np.arange(a, b) for a, b in zip(low, high, strict=True)), indexing="ij")
    inside = sum(((w - c) / r) ** 2 for w, c, r in zip((x, y, z), center, radii, strict=True)) <= 1.0
    return x[inside], y[inside], z[inside]
