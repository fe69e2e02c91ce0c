"""Algebraic multigrid of matrices in compressed rows on one GPU: seconds, iterations and memory.

    python bench/amg_csr.py points smooth jumps aniso blocks box --size 256
    python bench/amg_csr.py points --size 128 512 --runs 1
    python bench/amg_csr.py tetra tetra2 elastic rotated [--save FOLDER] [--precond-dtype float64 float32] [--update]

Lattices of n³ points: 7 points, κ smooth, κ in large jumps, couplings 1:1:100, κ 1 or 10⁴ in blocks of eight cells, 27
points, and what a flow carries, which is not symmetric. Finite elements, six tetrahedra in each cube of a lattice whose
points are moved at random by up to 0.16 of an edge: linear ones, quadratic ones, and displacements of an elastic body
that is held on one side (Poisson's ratio 0.3); and bilinear elements for diffusion 1000 times weaker across a
direction, in a plane. u = 0 around all others. --size is for lattices; elements have --points along an edge, quadratic
ones 0.75 times as many.

They are made on the GPU, where the clock starts with them; b is standard normal, the relative residual 1e-8. Seconds of
set-up and first solve, and of a later one with another b, the best of --runs; --update adds those of `update` with
other values, and with reuse="interpolation", after one that finds the places of products. Memory is the most that
CuPy's pool held, in a run of its own that begins with an empty one, beside A: b, x and those of a later solve are among
it.
--save writes A as FOLDER/NAME.npz, for other solvers.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lib.matrices import rotated_anisotropy

import dsolver

Offset = tuple[int, ...]
Slots = dict[Offset, Any]
"""Entries by the offset of their columns, each an array over all points, zero where there is none."""


class Case(NamedTuple):
    """A matrix in compressed rows; coordinates (n, 3) of points whose displacements its rows are, or None."""

    rows: Any
    places: Any = None


# -- compressed rows ---------------------------------------------------------------------------------------------------


def csr(xp: Any, slots: Slots) -> Any:
    """Compressed rows of points in order, the last axis fastest, with the entries that are not zero and are inside.

    Slots may have blocks: (k, k, *points).
    """
    offsets = sorted(slots)
    dimensions = len(offsets[0])
    first = slots[offsets[0]]
    shape, block = first.shape[-dimensions:], first.shape[0] if first.ndim > dimensions else 1
    points, strides = int(np.prod(shape)), [int(np.prod(shape[axis + 1 :])) for axis in range(dimensions)]
    table = xp.empty((points, block, len(offsets), block))
    for place, offset in enumerate(offsets):
        values = slots.pop(offset)
        for axis, step in enumerate(offset):
            if step:
                edge = slice(-step, None) if step > 0 else slice(0, -step)
                values[(..., edge, *(slice(None),) * (dimensions - 1 - axis))] = 0.0
        table[:, :, place] = values.reshape(block, block, points).transpose(2, 0, 1)
    del values, first
    steps = np.array([np.dot(strides, offset) for offset in offsets], dtype=np.int32)
    wide = xp.asarray((block * steps[:, None] + np.arange(block, dtype=np.int32)).ravel())
    table = table.reshape(points * block, len(wide))
    there = table != 0.0
    start = xp.zeros(points * block + 1, dtype=xp.int64)
    start[1:] = xp.cumsum(there.sum(axis=1))
    data = table[there]
    del table
    base = xp.repeat(block * xp.arange(points, dtype=xp.int32), block)
    columns = (base[:, None] + wide)[there]
    return module(xp).csr_matrix((data, columns, start.astype(xp.int32)), shape=(points * block,) * 2)


def module(xp: Any) -> Any:
    """The sparse matrices of NumPy or CuPy."""
    if xp is np:
        import scipy.sparse

        return scipy.sparse
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse


# -- lattices ----------------------------------------------------------------------------------------------------------


def flux(xp: Any, kappa: Any) -> Slots:
    """Finite volumes of -∇·(κ∇u) on cubes, times h²."""
    diagonal, slots = xp.zeros(kappa.shape), {}
    for axis in range(3):
        along = xp.moveaxis(kappa, axis, 0)
        face = 2.0 * along[1:] * along[:-1] / (along[1:] + along[:-1])
        d = xp.moveaxis(diagonal, axis, 0)
        d[1:] += face
        d[:-1] += face
        d[0] += 2.0 * along[0]
        d[-1] += 2.0 * along[-1]
        for step, cut in ((-1, slice(1, None)), (1, slice(0, -1))):
            values = xp.zeros(kappa.shape)
            xp.moveaxis(values, axis, 0)[cut] = -face
            slots[tuple(step * (other == axis) for other in range(3))] = values
    return {(0, 0, 0): diagonal, **slots}


def even(xp: Any, shape: Offset, weights: dict[Offset, float]) -> Slots:
    """Slots of one stencil for all points."""
    return {offset: xp.full(shape, value) for offset, value in weights.items()}


def star(x: float, y: float, z: float) -> dict[Offset, float]:
    out: dict[Offset, float] = {(0, 0, 0): 2.0 * (x + y + z)}
    for axis, step in product(range(3), (-1, 1)):
        out[tuple(step * (other == axis) for other in range(3))] = -(x, y, z)[axis]
    return out


def lattice(name: str, xp: Any, n: int) -> Case:
    return Case(csr(xp, LATTICES[name](xp, n)))


def kappa_of(xp: Any, name: str, n: int) -> Any:
    x, y, z = (xp.linspace(0.0, 1.0, n).reshape([-1 if a == b else 1 for b in range(3)]) for a in range(3))
    if name == "smooth":
        return xp.exp(xp.sin(6.0 * x) * xp.cos(5.0 * y) * xp.sin(4.0 * z + 1.0))
    if name == "jumps":
        return 1.0 + (1e4 - 1.0) * ((x < 0.4) ^ (y < 0.55) ^ (z < 0.3))
    few = np.random.default_rng(0).integers(0, 2, (-(-n // 8),) * 3)
    return xp.asarray(np.kron(np.where(few, 1e4, 1.0), np.ones((8, 8, 8)))[:n, :n, :n])


def carried(xp: Any, n: int) -> Slots:
    """Diffusion and a flow that turns in planes of x and y, of 3 times its strength a cell at the rim; upwind."""
    x, y = (xp.linspace(-1.0, 1.0, n).reshape([-1 if a == b else 1 for b in range(3)]) for a in range(2))
    slots = even(xp, (n, n, n), star(1.0, 1.0, 1.0))
    for axis, speed in enumerate((3.0 * y, -3.0 * x)):
        for step in (-1, 1):
            weight = xp.maximum(-step * speed, 0.0)
            slots[tuple(step * (other == axis) for other in range(3))] -= weight
            slots[0, 0, 0] += weight
    return slots


LATTICES: dict[str, Callable[[Any, int], Slots]] = {
    "points": lambda xp, n: even(xp, (n, n, n), star(1.0, 1.0, 1.0)),
    "smooth": lambda xp, n: flux(xp, kappa_of(xp, "smooth", n)),
    "jumps": lambda xp, n: flux(xp, kappa_of(xp, "jumps", n)),
    "aniso": lambda xp, n: even(xp, (n, n, n), star(1.0, 1.0, 100.0)),
    "blocks": lambda xp, n: flux(xp, kappa_of(xp, "blocks", n)),
    "box": lambda xp, n: even(xp, (n, n, n), {o: 26.0 if not any(o) else -1.0 for o in product((-1, 0, 1), repeat=3)}),
    "carried": carried,
}


# -- finite elements ---------------------------------------------------------------------------------------------------


def places_of(xp: Any, cubes: int) -> Any:
    """Points (3, m, m, m) of a lattice with so many cubes along an edge, moved at random."""
    at = xp.stack(xp.meshgrid(*[xp.arange(cubes + 1.0)] * 3, indexing="ij"))
    return at + xp.asarray(np.random.default_rng(1).uniform(-0.16, 0.16, at.shape))


def gradients(xp: Any, corners: list[Any]) -> tuple[list[Any], Any]:
    """Gradients (3, ...) of the four linear functions on tetrahedra, and their volumes (...)."""
    a, b, c = (corner - corners[0] for corner in corners[1:])

    def cross(u: Any, v: Any) -> Any:
        after, before = (partial(xp.roll, shift=shift, axis=0) for shift in (-1, 1))
        return after(u) * before(v) - before(u) * after(v)

    inner = [cross(b, c), cross(c, a), cross(a, b)]
    det = (a * inner[0]).sum(axis=0)
    inner = [g / det for g in inner]
    return [-(inner[0] + inner[1] + inner[2]), *inner], abs(det) / 6.0


def tetrahedra(xp: Any, places: Any) -> Iterator[tuple[list[Offset], list[Any], Any]]:
    """The six tetrahedra of all cubes: offsets of their corners, gradients, volumes."""
    cubes = places.shape[1] - 1
    for order in permutations(range(3)):
        at = [np.zeros(3, dtype=int)]
        for axis in order:
            at.append(at[-1] + (np.arange(3) == axis))
        corners = [tuple(map(int, corner)) for corner in at]
        g, volume = gradients(xp, [places[(slice(None), *(slice(c, c + cubes) for c in corner))] for corner in corners])
        yield corners, g, volume


def add(xp: Any, slots: Slots, shape: Offset, nodes: list[Offset], pair: tuple[int, int], step: int, part: Any) -> None:
    """Add to an entry of each element; step: points of the lattice of nodes from one cube to the next."""
    one, other = (nodes[k] for k in pair)
    offset = tuple(q - p for p, q in zip(one, other, strict=True))
    values = slots.setdefault(offset, xp.zeros((*part.shape[:-3], *shape)))
    cubes = part.shape[-1]
    values[(..., *(slice(p, p + step * (cubes - 1) + 1, step) for p in one))] += part


def linear(xp: Any, cubes: int) -> Case:
    slots: Slots = {}
    for nodes, g, volume in tetrahedra(xp, places_of(xp, cubes)):
        for i, j in product(range(4), repeat=2):
            add(xp, slots, (cubes + 1,) * 3, nodes, (i, j), 1, (g[i] * g[j]).sum(axis=0) * volume)
    return Case(csr(xp, {offset: values[1:-1, 1:-1, 1:-1].copy() for offset, values in slots.items()}))


def quadratic(xp: Any, cubes: int) -> Case:
    """Unknowns at corners and in the middle of edges; a quadrature that is exact."""
    slots: Slots = {}
    far, near = (5 - 5**0.5) / 20, (5 + 3 * 5**0.5) / 20
    for corners, g, volume in tetrahedra(xp, places_of(xp, cubes)):
        edges = list(combinations(range(4), 2))
        nodes = [tuple(2 * c for c in corner) for corner in corners]
        nodes += [tuple(p + q for p, q in zip(corners[i], corners[j], strict=True)) for i, j in edges]
        local: dict[tuple[int, int], Any] = dict.fromkeys(product(range(10), range(10)), 0.0)
        for corner in range(4):
            at = [near if k == corner else far for k in range(4)]
            slopes = [(4 * at[i] - 1) * g[i] for i in range(4)]
            slopes += [4 * (at[i] * g[j] + at[j] * g[i]) for i, j in edges]
            for i, j in product(range(10), repeat=2):
                local[i, j] = local[i, j] + (slopes[i] * slopes[j]).sum(axis=0) * (volume / 4)
        for pair, part in local.items():
            add(xp, slots, (2 * cubes + 1,) * 3, nodes, pair, 2, part)
    return Case(csr(xp, {offset: values[1:-1, 1:-1, 1:-1].copy() for offset, values in slots.items()}))


def elastic(xp: Any, cubes: int) -> Case:
    """Three displacements a point; those of one face are held."""
    slots: Slots = {}
    places = places_of(xp, cubes)
    first, second = 0.3 / (1.3 * 0.4), 1 / 2.6
    for nodes, g, volume in tetrahedra(xp, places):
        for i, j in product(range(4), repeat=2):
            part = first * g[i][:, None] * g[j][None] + second * g[j][:, None] * g[i][None]
            same = second * (g[i] * g[j]).sum(axis=0)
            for k in range(3):
                part[k, k] += same
            add(xp, slots, (cubes + 1,) * 3, nodes, (i, j), 1, part * volume)
    free = places[:, 1:].reshape(3, -1).T
    return Case(csr(xp, {offset: values[:, :, 1:].copy() for offset, values in slots.items()}), free)


def rotated(xp: Any, points: int) -> Case:
    return Case(csr(xp, even(xp, (points, points), rotated_anisotropy())))


ELEMENTS: dict[str, Callable[[Any, int], Case]] = {
    "tetra": lambda xp, points: linear(xp, points + 1),
    "tetra2": lambda xp, points: quadratic(xp, 3 * points // 8 + 1),
    "elastic": lambda xp, points: elastic(xp, points - 1),
    "rotated": lambda xp, points: rotated(xp, int(points**1.5)),
}


# -- solves ------------------------------------------------------------------------------------------------------------


class Times(NamedTuple):
    """Seconds."""

    setup: float
    first: float
    later: float
    update: float = 0.0
    placing: float = 0.0
    kept: float = 0.0


class Machine:
    """A device on which the work is done; xp: NumPy or CuPy."""

    def __init__(self, device: Any) -> None:
        if device == "cuda":
            import cupy

            self.xp: Any = cupy
        else:
            self.xp = np
        self.device = device

    def clock(self) -> float:
        """Seconds, when the GPU has nothing left to do."""
        if self.xp is not np:
            self.xp.cuda.Device().synchronize()
        return time.perf_counter()

    def held(self) -> float:
        """GB in CuPy's pool."""
        return 0.0 if self.xp is np else self.xp.get_default_memory_pool().total_bytes() / 1e9

    def tidied(self) -> None:
        gc.collect()
        if self.xp is not np:
            self.xp.get_default_memory_pool().free_all_blocks()

    def most_held(self, work: Callable[[], object]) -> float:
        """GB that CuPy's pool holds at most while some work is done, beside what was in use before."""
        self.tidied()
        if self.xp is np:
            work()
            return 0.0
        before, found = self.xp.get_default_memory_pool().used_bytes() / 1e9, self.held()

        class Held(self.xp.cuda.MemoryHook):  # type: ignore[misc, name-defined]
            name = "held"

            def malloc_postprocess(hook, **_: Any) -> None:  # noqa: N805
                nonlocal found
                found = max(found, self.held())

        with Held():
            work()
        return found - before

    def solved(self, case: Case, dtype: Any, *, update: bool) -> tuple[Times, Any, Any]:
        """Seconds, the later solution and the hierarchy."""
        rng = self.xp.random.default_rng(1)
        sides = [rng.standard_normal(case.rows.shape[0]) for _ in range(2)]
        told: Any = {}
        if case.places is not None:
            told = {"near_nullspace": dsolver.rigid_body_modes(case.places), "block_size": 3}
        other = 1.5 * case.rows if update else None
        began = self.clock()
        a = dsolver.matrix(case.rows, chunks=1, **told)
        with dsolver.Solver(a, M="amg", device=self.device, precond_dtype=dtype) as solver:
            ready = self.clock()
            solver.solve(sides[0], rtol=1e-8)
            first = self.clock()
            solution = solver.solve(sides[1], rtol=1e-8)
            times = Times(ready - began, first - ready, self.clock() - first)
            if update:
                later = []
                for reuse in (None, *3 * ("interpolation",)):  # the first of these makes what the others need
                    began = self.clock()
                    solver.update(dsolver.matrix(other, chunks=1, **told), reuse=reuse)
                    later.append(self.clock() - began)
                times = times._replace(update=later[0], placing=later[-2], kept=later[-1])
            return times, solution, solver.hierarchy

    def measured(self, name: str, case: Case, dtypes: list[Any], runs: int, *, update: bool) -> None:
        for dtype in dtypes:
            most, all_times = self.most_held(partial(self.solved, case, dtype, update=update)), []
            for _ in range(runs):
                times, solution, hierarchy = self.solved(case, dtype, update=update)
                all_times.append(times)
            best = Times(*map(min, zip(*all_times, strict=True)))
            again = f", update {best.update:.4f}, kept {best.kept:.4f} after {best.placing:.4f}" if update else ""
            print(
                f"{name:10} {dtype:8} {case.rows.shape[0]:10} rows {case.rows.nnz:11} entries: {solution.iterations:3}"
                f"{'' if solution.converged else '!'} iterations, {best.setup + best.first:.4f} = {best.setup:.4f} + "
                f"{best.first:.4f}, later {best.later:.4f}{again}; complexity {hierarchy.operator_complexity:.2f}, "
                f"{most:.2f} GB",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrices", nargs="+", choices=[*LATTICES, *ELEMENTS])
    parser.add_argument("--size", type=int, nargs="+", default=[256])
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--precond-dtype", nargs="+", default=["auto"], dest="dtypes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    machine = Machine(options.device)
    for name in options.matrices:
        for n in options.size if name in LATTICES else [options.points]:
            make = partial(lattice, name) if name in LATTICES else ELEMENTS[name]
            for small in (True, False) if n > 32 else (False,):  # kernels are compiled with few points
                case = make(machine.xp, 24 if small else n)
                if small:
                    machine.solved(case, "auto", update=options.update)
            title = f"{name} {n}" if len(options.size) > 1 else name
            if options.save is not None:
                options.save.mkdir(parents=True, exist_ok=True)
                host = case.rows if machine.xp is np else case.rows.get()
                np.savez(options.save / f"{name}.npz", data=host.data, indices=host.indices, indptr=host.indptr)
            machine.measured(title, case, options.dtypes, options.runs, update=options.update)


if __name__ == "__main__":
    main()
