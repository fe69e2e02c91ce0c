"""A star's passes on chunks: each gets, to the bit, what the whole grid gets in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.grid.box import Box, Triple
from dsolver.grid.partition import Cut, Partition
from dsolver.kernels import Backend, load
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import OFFSETS
from dsolver.kernels.lattice.star import COARSE_LAYERS, LAYERS, Around, star_transfer
from dsolver.multigrid.geometric.constant_star import fits
from dsolver.multigrid.geometric.star_layers import around, layer_offsets, received, with_layers

F64 = npt.NDArray[np.float64]
STAR = {(0, 0, 0): 6.5, (1, 0, 0): -1.0, (0, 1, 0): -1.25, (0, 0, 1): -0.75}
BACKENDS = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
NEVER = (False, False, False)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A star on a grid, and how that is cut."""

    grid: Triple
    cut: Cut
    wraps: tuple[bool, bool, bool] = NEVER

    def __str__(self) -> str:
        wraps = "".join(a for a, w in zip("xyz", self.wraps, strict=True) if w)
        return f"{self.grid}-{self.cut}{wraps}".replace(" ", "")

    @property
    def coarse(self) -> Triple:
        """Points of the coarser grid."""
        x, y, z = (n // 2 for n in self.grid)
        return x, y, z

    @property
    def partition(self) -> Partition:
        """The chunks."""
        return Partition(self.grid, self.cut, self.wraps)

    @property
    def coarse_partition(self) -> Partition:
        """Chunks of the coarser grid."""
        ends = ([sum(sizes[: n + 1]) // 2 for n in range(len(sizes))] for sizes in self.partition.sizes)
        x, y, z = (tuple(b - a for a, b in zip((0, *e), e, strict=False)) for e in ends)
        return Partition(self.coarse, (x, y, z), self.wraps)

    @property
    def stencil(self) -> ConstantStencil:
        """The star."""
        faces = tuple(0.0 if self.wraps[n // 2] else 0.1 * (n + 1) - 0.3 for n in range(6))
        weights = tuple(STAR.get((i, j, k), STAR.get((-i, -j, -k), 0.0)) for i, j, k in OFFSETS)
        return ConstantStencil(shape=self.grid, weights=weights, faces=faces, wraps=self.wraps, lo=(0, 0, 0))


CASES = [
    Case(grid=(8, 9, 10), cut=(2, 1, 1)),
    Case(grid=(9, 8, 11), cut=(1, 2, 1)),
    Case(grid=(5, 6, 17), cut=(1, 1, 4)),
    Case(grid=(8, 12, 8), cut=(2, 3, 2)),
    Case(grid=(17, 13, 14), cut=((4, 6, 7), (8, 5), (4, 10))),
    Case(grid=(8, 12, 8), cut=(2, 3, 2), wraps=(True, True, True)),
    Case(grid=(10, 8, 9), cut=(1, 2, 2), wraps=(True, True, False)),
    Case(grid=(132, 74, 60), cut=((70, 62), (36, 38), (28, 32))),
    Case(grid=(131, 60, 64), cut=((64, 67), (32, 28), (30, 34)), wraps=(False, True, False)),
]


def part(values: F64, box: Box) -> F64:
    """The values (x, y, z) in a box, which may lie across an axis that wraps."""
    return values[np.ix_(*(np.arange(a, b) % n for a, b, n in zip(box.lo, box.hi, values.shape, strict=True)))]


def halo(backend: Backend, partition: Partition, number: int, layers: tuple[int, int], values: F64) -> Any:
    """Halo that an exchange brings a chunk."""
    pieces = partition.halo_pieces(number, layer_offsets(partition, layers))
    found = [part(values, piece.box).ravel(order="F") for piece in pieces]
    return backend.asarray(np.pad(np.concatenate([*found, np.zeros(0)]), backend.guard).astype(backend.dtype))


def vector(backend: Backend, values: F64) -> Any:
    """A block in lattice order."""
    layout = backend.layouts.plain(values.shape)
    out = backend.zeros(layout.size)
    backend.kernel("load")(layout, backend.asarray(values), out)
    return out


@dataclass(frozen=True, kw_only=True)
class Passes:
    """A star's passes on the chunks of a case. `gathered`: each has the whole coarser level."""

    case: Case
    partition: Partition
    below: Partition
    backend: Backend
    gathered: bool = False

    def chunk(self, number: int) -> Around:
        """Neighbors of a chunk of the finer level."""
        return around(self.partition, number, layer_offsets(self.partition, LAYERS), LAYERS, self.backend.guard)

    def run(self, r: F64, xc: F64) -> tuple[F64, F64]:
        """R (r - A x), and x afterwards, on the whole grid."""
        rc, out, backend = np.zeros(self.case.coarse), np.zeros(self.case.grid), self.backend
        for number, (chunk, coarse) in enumerate(zip(self.partition, self.below, strict=True)):
            layout = backend.layouts.plain(coarse.box.shape)
            below, place = (
                (Partition(self.case.coarse, (1, 1, 1), self.case.wraps), 0)
                if self.gathered
                else (
                    self.below,
                    number,
                )
            )
            corrected = around(below, place, layer_offsets(below, COARSE_LAYERS), COARSE_LAYERS, backend.guard)
            star = star_transfer(self.case.stencil, self.chunk(number), corrected, layout)
            transfer = backend.stencil.transfer(star)
            own, around_it = vector(backend, part(r, chunk.box)), halo(backend, self.partition, number, LAYERS, r)
            restricted = backend.zeros(layout.size)
            backend.kernel("star_down")(transfer, own, around_it, restricted)
            rc[coarse.box.slices] = backend.to_host(backend.vectors.unload(layout, restricted))
            lattice = with_layers(backend, corrected)
            solution = backend.zeros(lattice.size)
            solution[lattice.position] = backend.asarray(part(xc, below[place].box).ravel(order="F"))
            around_coarse = halo(backend, below, place, COARSE_LAYERS, xc)
            backend.kernel("move")(received(backend, corrected), around_coarse, solution)
            x = backend.zeros(len(own))
            x[:] = 7.0  # what was there before must not matter
            backend.kernel("star_up")(transfer, own, around_it, solution, x)
            fine = backend.layouts.plain(chunk.box.shape)
            out[chunk.box.slices] = backend.to_host(backend.vectors.unload(fine, x))
        return rc, out


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", BACKENDS)
def test_chunks_get_the_bits_of_one(case: Case, name: str, dtype: str) -> None:
    backend, rng = load(name, dtype=dtype), np.random.default_rng(1)
    r, xc = rng.standard_normal(case.grid), rng.standard_normal(case.coarse)
    one = Partition(case.grid, (1, 1, 1), case.wraps), Partition(case.coarse, (1, 1, 1), case.wraps)
    expected = Passes(case=case, partition=one[0], below=one[1], backend=backend).run(r, xc)
    for gathered in (False, True):
        cut = Passes(
            case=case, partition=case.partition, below=case.coarse_partition, backend=backend, gathered=gathered
        )
        for found, whole in zip(cut.run(r, xc), expected, strict=True):
            assert (found == whole).all()


@pytest.mark.parametrize(
    ("sizes", "fitting"),
    [
        (((8,), (9,), (7,)), True),
        (((4, 4), (9,), (7,)), True),
        (((4, 6, 5), (9,), (4, 7)), True),
        (((8,), (5, 4), (7,)), False),
        (((2, 6), (9,), (7,)), False),
        (((8,), (9,), (4, 3)), False),
    ],
)
def test_which_chunks_have_a_way(sizes: Any, fitting: bool) -> None:
    x, y, z = map(sum, sizes)
    assert fits(Partition((x, y, z), sizes)) == fitting
    assert fits(Partition((x, y, z), sizes, (x % 2 == 0, y % 2 == 0, z % 2 == 0))) == fitting
    assert not fits(Partition((x, y, z), sizes, (False, False, True)))
