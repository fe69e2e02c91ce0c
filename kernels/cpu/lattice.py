"""Interpolation and Galerkin operators on a CPU, line by line of the lattice.

Arrays have ghost layers (`lattice.coarsening`); a line is one (z, y). The innermost loops run along x with
everything else fixed, so that the compiler makes vector instructions of them. Sums run in the order of the NumPy text,
whatever the range of lines.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt
from numba import njit

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.lattice.coarsening import (
    BETWEEN,
    COARSE_OFFSETS,
    CORNERS,
    FIRST,
    LOWER,
    NEGLIGIBLE,
    OUTSIDE,
    SECOND,
    UPPER,
    Axis,
    Coarsening,
    Triple,
    lattice_weights,
    offsets_below,
)
from dsolver.kernels.lattice.setup import LatticeSetup

F64 = npt.NDArray[np.float64]
CENTER = 13
LINES_WORTH_A_THREAD = 32


@final
class CpuLattice(LatticeSetup):
    """Set-up of lattices.

    Args:
        team: shares the lines.
    """

    def __init__(self, team: Team) -> None:
        super().__init__(np)
        self._team = team

    def interpolation(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> F64:
        w = lattice_weights(coarsening, offsets, weights)
        p = np.zeros((len(CORNERS), *coarsening.ghosted))
        steps = np.array(offsets, dtype=np.int64)
        kinds = tuple(axis.kind for axis in coarsening.axes)
        opens = tuple(axis.open for axis in coarsening.axes)
        own = np.flatnonzero((kinds[0] == FIRST) | (kinds[0] == SECOND))
        between = np.flatnonzero(kinds[0][1:-1] == BETWEEN) + 1
        lines, worth = p.shape[1] * p.shape[2], LINES_WORTH_A_THREAD
        self._team.run(take_own, 0, lines, own, kinds, p, worth=worth)
        for count in range(1, sum(coarsening.factors) - 2):
            for in_x, members in ((0, own), (1, between)):
                which = (count, in_x, members)
                self._team.run(interpolate, 0, lines, *which, steps, w, kinds, opens, p, worth=worth)
        return p

    def galerkin(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64, p: F64) -> F64:
        w = lattice_weights(coarsening, offsets, weights)
        x, y, z = coarsening.coarse_shape
        out = np.empty((len(COARSE_OFFSETS), z, y, x))
        steps = np.array(offsets, dtype=np.int64)
        kinds = tuple(axis.kind for axis in coarsening.axes)
        bases = tuple(axis.base for axis in coarsening.axes)
        layout = np.array([(axis.first, axis.reach, not axis.folded) for axis in coarsening.axes], dtype=np.int64)
        regular = np.array(_regular(coarsening.axes[0], x), dtype=np.int64)
        read, lines, worth = (steps, w, p), z * y, LINES_WORTH_A_THREAD
        if regular[0] < regular[1]:
            self._team.run(regular_weights, 0, lines, *read, kinds, bases, layout, regular, out, worth=worth)
        if regular[1] - regular[0] < x:
            self._team.run(other_weights, 0, lines, *read, bases, layout, regular, out, worth=worth)
        kept = offsets_below(coarsening.factors, offsets)
        if kept != COARSE_OFFSETS:
            out = out[[COARSE_OFFSETS.index(o) for o in kept]]
        return out.reshape(len(kept), -1)


def _regular(axis: Axis, points: int) -> tuple[int, int]:
    """A range of coarse points around which kinds and bases are those of an endless axis: all but some at a seam."""
    if axis.folded:
        return 0, 0
    own = np.arange(points)
    good = np.full(points, True)
    for step in range(-1 - axis.reach, 2 + axis.reach):
        place = axis.first + (axis.reach + 1) * own + step
        good &= place < len(axis.kind)
        place = np.minimum(place, len(axis.kind) - 1)
        kind = BETWEEN if axis.reach and step % 2 else FIRST
        usual = (axis.kind[place] == kind) & (axis.base[place] == own + step // (axis.reach + 1))
        good &= usual | (axis.kind[place] == OUTSIDE)
    found = np.flatnonzero(good)
    if len(found) == 0:
        return 0, 0
    ends = np.flatnonzero(~good[found[0] :])
    return int(found[0]), int(found[0] + (ends[0] if len(ends) else points - found[0]))


@njit(inline="always")
def _leaves(step: Any, open_sides: Any) -> Any:
    """Whether a step leaves the domain."""
    return (step < 0 and not open_sides & LOWER) or (step > 0 and not open_sides & UPPER)


@njit(inline="always")
def _bit(number: Any, axis: Any) -> Any:
    """A corner's 0 or 1 along an axis."""
    return (number >> axis) & 1


@njit(inline="always")
def _step(number: Any) -> Any:
    """The steps -1, 0 or 1 along x, y and z with this number, 0 .. 26."""
    return number % 3 - 1, number // 3 % 3 - 1, number // 9 - 1


@njit(inline="always")
def _is_constant(w: Any) -> Any:
    return w.shape[1] * w.shape[2] * w.shape[3] == 1  # the box of a stored lattice has its ghost layers


@njit(inline="always")
def _has(kind: Any, bit: Any) -> Any:
    """Whether a point of this kind has a corner 0 or 1."""
    return (kind == BETWEEN) | (kind == bit)  # a tuple would have its own function compiled


@compiled()
def take_own(first: Any, last: Any, members: Any, kinds: Any, p: Any) -> None:
    """p = 1 at the coarse points of lines [first, last)."""
    for line in range(first, last):
        z, y = line // p.shape[2], line % p.shape[2]
        kind_y, kind_z = kinds[1][y], kinds[2][z]
        if kind_y in (FIRST, SECOND) and kind_z in (FIRST, SECOND):
            for x in members:
                p[kinds[0][x] + 2 * kind_y + 4 * kind_z, z, y, x] = 1.0


@njit(inline="always")
def _collapse(
    members: Any, z: Any, y: Any, inside: Any, steps: Any, w: Any, opens: Any, collapsed: Any, size: Any
) -> None:
    """collapsed (27, m): the rows of m points of a line, seen along the axes in `inside`; size (m,): absolute sums."""
    constant = _is_constant(w)
    collapsed[:] = 0.0
    size[:] = 0.0
    for k in range(len(steps)):
        dx, dy, dz = steps[k]
        if _leaves(dy, opens[1][y]) or _leaves(dz, opens[2][z]):
            continue
        to = collapsed[CENTER + dx * inside[0] + 3 * dy * inside[1] + 9 * dz * inside[2]]
        for i in range(len(members)):
            x = members[i]
            if not _leaves(dx, opens[0][x]):
                weight = w[k, 0, 0, 0] if constant else w[k, z, y, x]
                to[i] += weight
                size[i] += abs(weight)


@njit(inline="always")
def _add_neighbors(part: Any, members: Any, place: Any, step: Any, kinds: Any, p: Any, value: Any) -> None:
    """value (8, m) += part * p of the neighbors at a step, corner by corner; place is (z, y) of the neighbors."""
    dx, dy, dz = step
    z, y = place
    for corner in range(len(value)):
        a, b, c = _bit(corner, 0), _bit(corner, 1), _bit(corner, 2)
        if not _has(kinds[1][y], b) or not _has(kinds[2][z], c):
            continue
        to_x = a if dx == 0 else (dx + 1) // 2
        to_y = b if dy == 0 else (dy + 1) // 2
        to_z = c if dz == 0 else (dz + 1) // 2
        to, source = value[to_x + 2 * to_y + 4 * to_z], p[corner, z, y]
        for i in range(len(members)):
            to[i] += part[i] * source[members[i] + dx]


@compiled()
def interpolate(first: Any, last: Any, *given: Any) -> None:
    """p of points `members` of lines [first, last) that lie between coarse points along so many axes; it was zero.

    `in_x` is whether x is one of the axes.
    """
    between, in_x, members, steps, w, kinds, opens, p = given
    _, nz, ny, _ = p.shape
    count = len(members)
    collapsed, value = np.empty((27, count)), np.empty((8, count))
    size, part = np.empty(count), np.empty(count)
    for line in range(first, last):
        z, y = line // ny, line % ny
        inside = (in_x, int(kinds[1][y] == BETWEEN), int(kinds[2][z] == BETWEEN))
        outside = kinds[1][y] == OUTSIDE or kinds[2][z] == OUTSIDE
        ends = (inside[1] and (y == 0 or y == ny - 1)) or (inside[2] and (z == 0 or z == nz - 1))
        if inside[0] + inside[1] + inside[2] != between or outside or ends:
            continue
        _collapse(members, z, y, inside, steps, w, opens, collapsed, size)
        center = collapsed[CENTER]
        value[:] = 0.0
        for number in range(27):
            dx, dy, dz = _step(number)
            if number == CENTER or abs(dx) > inside[0] or abs(dy) > inside[1] or abs(dz) > inside[2]:
                continue
            for i in range(count):
                part[i] = -collapsed[number, i] / center[i] if center[i] > NEGLIGIBLE * size[i] else 0.0
            _add_neighbors(part, members, (z + dz, y + dy), (dx, dy, dz), kinds, p, value)
        for corner in range(8):
            for i in range(count):
                if value[corner, i] != 0.0:
                    p[corner, z, y, members[i]] = value[corner, i]


@njit(inline="always")
def _add_products(
    rw: Any, z: Any, y: Any, x: Any, odd: Any, own: Any, p: Any, kinds: Any, bases: Any, layout: Any, sums: Any
) -> None:
    """sums (27, m) += rw (m,) * p of the fine points x, x + stride, ... of a line, corner by corner.

    They lie between two coarse points along x if `odd`; `own` is (z, y) of the coarse line and their corner 0's offset
    along x.
    """
    stride = layout[0, 1] + 1
    for c in range(2):
        for b in range(2):
            if not _has(kinds[1][y], b) or not _has(kinds[2][z], c):
                continue
            dy = (bases[1][y] + b - own[1]) * layout[1, 2]
            dz = (bases[2][z] + c - own[0]) * layout[2, 2]
            for a in range(1 + odd):
                to, source = sums[CENTER + own[2] + a + 3 * dy + 9 * dz], p[a + 2 * b + 4 * c, z, y]
                for i in range(len(rw)):
                    to[i] += rw[i] * source[x + stride * i]


@njit(inline="always")
def _add_lines(
    line: Any, begin: Any, steps: Any, w: Any, p: Any, kinds: Any, bases: Any, layout: Any, sums: Any, size: Any
) -> None:
    """sums (27, m) and size (m,) of m regular coarse points of a line, the first of which is `begin`."""
    constant = _is_constant(w)
    stride = layout[0, 1] + 1
    count = len(size)
    restricted, rw = np.empty(count), np.empty(count)
    for number in range(27):
        sx, sy, sz = _step(number)
        if abs(sx) > layout[0, 1] or abs(sy) > layout[1, 1] or abs(sz) > layout[2, 1]:
            continue
        x = layout[0, 0] + stride * begin + sx
        y = layout[1, 0] + (layout[1, 1] + 1) * line[1] + sy
        z = layout[2, 0] + (layout[2, 1] + 1) * line[0] + sz
        b, c = line[1] - bases[1][y], line[0] - bases[2][z]
        if (b | c) & ~1:  # no corner of these points
            continue
        reads = p[int(sx < 0) + 2 * b + 4 * c, z, y]
        for i in range(count):
            restricted[i] = reads[x + stride * i]
        for k in range(len(steps)):
            dx, dy, dz = steps[k]
            for i in range(count):
                rw[i] = restricted[i] * (w[k, 0, 0, 0] if constant else w[k, z, y, x + stride * i])
                size[i] += abs(rw[i])
            own = (line[0], line[1], (sx + dx) // stride)
            odd = layout[0, 1] * ((sx + dx) & 1)
            _add_products(rw, z + dz, y + dy, x + dx, odd, own, p, kinds, bases, layout, sums)


@njit(inline="always")
def _add_row(restricted: Any, at: Any, own: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, sums: Any) -> Any:
    """sums[27] += restricted * (a fine point's row of A P). Returns the absolute sum of restricted * (row of A)."""
    x, y, z = at
    constant = _is_constant(w)
    size = 0.0
    for k in range(len(steps)):
        weight = restricted * (w[k, 0, 0, 0] if constant else w[k, z, y, x])
        size += abs(weight)
        nx, ny, nz = x + steps[k, 0], y + steps[k, 1], z + steps[k, 2]
        jx, jy, jz = bases[0][nx] - own[0], bases[1][ny] - own[1], bases[2][nz] - own[2]
        for corner in range(8):
            value = p[corner, nz, ny, nx]
            if value != 0.0:
                dx = (jx + _bit(corner, 0)) * layout[0, 2]
                dy = (jy + _bit(corner, 1)) * layout[1, 2]
                dz = (jz + _bit(corner, 2)) * layout[2, 2]
                sums[CENTER + dx + 3 * dy + 9 * dz] += weight * value
    return size


@njit(inline="always")
def _add_rows(own: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, sums: Any) -> Any:
    """sums[27] of one coarse point anywhere; returns its size."""
    size = 0.0
    for number in range(27):
        sx, sy, sz = _step(number)
        if abs(sx) > layout[0, 1] or abs(sy) > layout[1, 1] or abs(sz) > layout[2, 1]:
            continue
        x = layout[0, 0] + (layout[0, 1] + 1) * own[0] + sx
        y = layout[1, 0] + (layout[1, 1] + 1) * own[1] + sy
        z = layout[2, 0] + (layout[2, 1] + 1) * own[2] + sz
        a, b, c = own[0] - bases[0][x], own[1] - bases[1][y], own[2] - bases[2][z]
        if (a | b | c) & ~1:  # no corner of this point
            continue
        restricted = p[a + 2 * b + 4 * c, z, y, x]
        if restricted != 0.0:
            size += _add_row(restricted, (x, y, z), own, steps, w, p, bases, layout, sums)
    return size


@njit(inline="always")
def _complete(center: Any, scale: Any) -> Any:
    """The diagonal of a coarse row; that of a row without one is its absolute sum, or 1."""
    if center <= NEGLIGIBLE * scale:
        return scale if scale > 0.0 else 1.0
    return center


@compiled()
def regular_weights(first: Any, last: Any, *given: Any) -> None:
    """The weights of the coarse rows of coarse lines [first, last), at their regular points."""
    steps, w, p, kinds, bases, layout, regular, out = given
    lines, (begin, end) = out.shape[2], regular
    sums, size = np.empty((27, end - begin)), np.empty(end - begin)
    for line in range(first, last):
        z, y = line // lines, line % lines
        sums[:] = 0.0
        size[:] = 0.0
        _add_lines((z, y), begin, steps, w, p, kinds, bases, layout, sums, size)
        for x in range(end - begin):
            sums[CENTER, x] = _complete(sums[CENTER, x], size[x])
            for number in range(27):  # a statement that copies them all takes as long to compile as the rest
                out[number, z, y, begin + x] = sums[number, x]


@compiled()
def other_weights(
    first: Any, last: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, regular: Any, out: Any
) -> None:
    """The weights of the coarse rows of coarse lines [first, last), at the points around the regular ones."""
    lines, points = out.shape[2:]
    sums = np.empty(27)
    for line in range(first, last):
        z, y = line // lines, line % lines
        for x in range(points):
            if regular[0] <= x < regular[1]:
                continue
            sums[:] = 0.0
            scale = _add_rows((x, y, z), steps, w, p, bases, layout, sums)
            sums[CENTER] = _complete(sums[CENTER], scale)
            for number in range(27):
                out[number, z, y, x] = sums[number]
