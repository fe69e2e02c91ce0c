"""Statistics of a lattice's rows: strengths of couplings along each axis, their jumps, and which way they lean."""

from typing import Any

import numpy as np

from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.coarsening import Triple
from dsolver.kernels.views import without_base


def couplings(xp: Any, offsets: tuple[Triple, ...], weights: Array) -> Array:
    """Strength of couplings along x, y and z: float64 (3,).

    For each axis the sum over all rows of -w_o / w_0, over all offsets o that step along it. An axis is worth
    coarsening when its sum is at least half of the largest: what a point smoother leaves is smooth along strong
    couplings alone (Trottenberg, Oosterlee, Schüller, Multigrid, 5.1).

    `weights`: (K, rows), of own rows alone, or (K,), which counts as one row.
    """
    by_offset = dict(zip(offsets, weights.reshape(len(offsets), -1), strict=True))
    diagonal = by_offset[0, 0, 0]
    sums = []
    for axis in range(3):
        across = xp.zeros_like(diagonal)
        for offset, weight in by_offset.items():
            if offset[axis]:
                across -= weight
        sums.append((across / diagonal).sum())
    return xp.stack(sums)


def jumps(xp: Any, offsets: tuple[Triple, ...], weights: Array, ratio: float) -> Array:
    """Numbers of rows and axes where couplings jump from point to point, could jump, and end: float64 (3,).

    Where a row is coupled to both neighbors along an axis they could, and do if one coupling is more than a ratio times
    the other. Where it is coupled to one of them alone they end.

    `weights`: (K, rows), of own rows alone.
    """
    counts = xp.zeros(3)
    for forth, back in pairs(offsets):
        ahead, behind = xp.abs(without_base(weights[forth])), xp.abs(without_base(weights[back]))
        less, more = xp.minimum(ahead, behind), xp.maximum(ahead, behind)
        counts[0] += ((less > 0.0) & (more > ratio * less)).sum()
        counts[1] += (less > 0.0).sum()
        counts[2] += ((less == 0.0) & (more > 0.0)).sum()
    return counts


def leanings(xp: Any, offsets: tuple[Triple, ...], weights: Array) -> Array:
    """The sums of how far rows lean towards one axis from another, and of how many rows they are: float64 (6,).

    For x and y, x and z, y and z, in turn the sum and the number. A row leans by the logarithm of the ratio of its
    couplings along both axes, each the stronger one of two. Rows without any along one of them do not count.
    """
    lean = _leanings(xp, offsets, weights)
    counts = xp.isfinite(lean)
    return xp.stack([xp.where(counts, lean, 0.0).sum(axis=1), counts.sum(axis=1)], axis=1).reshape(-1)


def turns(xp: Any, offsets: tuple[Triple, ...], weights: Array, sums: Array, limits: tuple[float, ...]) -> Array:
    """The numbers of rows that lean further than each limit from the mean, for any two axes: float64 (limits,).

    `sums`: what `leanings` has found, of all chunks: float64 (6,). Means are zero where there are no rows.
    """
    lean, (total, count) = _leanings(xp, offsets, weights), sums.reshape(-1, 2).T
    means = xp.where(count > 0.0, total, 0.0) / xp.maximum(count, 1.0)
    far = xp.where(xp.isfinite(lean), xp.abs(lean - means[:, None]), 0.0).max(axis=0)
    return xp.stack([(far > limit).sum().astype(np.float64) for limit in limits])


def _leanings(xp: Any, offsets: tuple[Triple, ...], weights: Array) -> Array:
    """The lean of rows: float64 (3, rows); NaN where a row has no coupling along one of the axes."""
    size = xp.stack(
        [xp.maximum(xp.abs(without_base(weights[f])), xp.abs(without_base(weights[b]))) for f, b in pairs(offsets)]
    )
    x, y, z = xp.log(xp.where(size > 0.0, size, np.nan))
    return xp.stack([x - y, x - z, y - z])


def outweighed(xp: Any, offsets: tuple[Triple, ...], weights: Array, part: float) -> Array:
    """1 where some row's couplings exceed a part of its diagonal, or that is not positive, else 0: float64 (1,)."""
    center = offsets.index((0, 0, 0))
    for low in range(0, weights.shape[1], AT_ONCE):
        rows = weights[:, low : low + AT_ONCE]
        couplings = xp.zeros(rows.shape[1])
        for number, weight in enumerate(rows):
            if number != center:
                couplings += xp.abs(weight)
        if not bool(((couplings <= part * rows[center]) & (rows[center] > 0.0)).all()):
            return xp.ones(1)
    return xp.zeros(1)


def unfit(xp: Any, values: Array, least: float, *, left_out: bool) -> int:
    """The number of values below `least`, or equal to it where it is left out, or infinite, or no number."""
    good = values > least if left_out else values >= least
    return int(values.size) - int((good & xp.isfinite(values)).sum())


def pairs(offsets: tuple[Triple, ...]) -> list[tuple[int, int]]:
    """The numbers of the offsets to the next point and to the last one along x, y and z."""
    axes = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    return [(offsets.index((x, y, z)), offsets.index((-x, -y, -z))) for x, y, z in axes]


AT_ONCE = 1 << 16  # rows that `outweighed` looks at before it ends at one that is found
