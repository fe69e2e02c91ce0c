"""Roots of aggregates on a GPU: a launch for each pass of `dsolver.kernels.cpu.amg.aggregation.roots`."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cpu.amg.aggregation.roots import salt_of
from dsolver.kernels.cuda.launch.loader import NOTHING, for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse.starts import starts_of, taken
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE: Final = "amg/aggregation/roots.cu"
LANES: Final = (1, 4, 16)  # lanes of a node that there are kernels for
OF_LANE: Final = 8  # entries of a lane at most, on average, where there are kernels for so many lanes
ROUNDS: Final = 4  # rounds between two looks at how many nodes are left


def words(origin: Array, level: int) -> Array:
    return _words(origin, NOTHING, level)


def first_words(graph: Csr, origin: Array, level: int) -> Array:
    return _words(origin, graph.start, level)


def second_words(graph: Csr, below: int, found: Array, origin: Array, level: int) -> tuple[Array, Array]:
    own, open_ = cupy.empty(graph.size), cupy.empty(graph.size, dtype=np.bool_)
    _launch("second", graph, (np.int32(below), found, origin, np.uint64(salt_of(level)), own, open_))
    return own, open_


def largest_around(graph: Csr, below: int, values: Array, open_: Array) -> Array:
    out = cupy.empty(graph.size)
    _launch("around", graph, (np.int32(below), values, open_, NOTHING, np.int32(0), out))
    return out


def decided(graph: Csr, below: int, own: Array, near: Array, open_: Array) -> tuple[Array, Array]:
    out, left = cupy.empty(graph.size), counters(1)
    _launch("decide", graph, (np.int32(below), near, open_, left, np.int32(0), own, out))
    return out, left.astype(np.float64)


def settled(graph: Csr, own: Array, open_: Array) -> Array:
    """See `dsolver.kernels.cpu.amg.aggregation.roots.settled`. It waits after every few rounds."""
    own, near = own.copy(), cupy.empty(graph.size)
    while graph.size:
        left = counters(ROUNDS)
        for number in map(np.int32, range(ROUNDS)):
            _launch("around", graph, (np.int32(0), own, open_, left, number, near))
            _launch("decide", graph, (np.int32(0), near, open_, left, number, own, own))
        if not int(read_back(left)[-1]):
            break
    return own


def joined(graph: Csr, below: int, states: Array, numbers: Any, open_: Array, before: Any) -> Array:
    out = cupy.empty(graph.size)
    numbers, before = (NOTHING if one is None else one for one in (numbers, before))
    _launch("join", graph, (np.int32(below), states, numbers, open_, before, out))
    return out


def strayed(graph: Csr, below: int, found: Array) -> Array:
    out = cupy.empty(graph.size, dtype=np.int64)
    _launch("stray", graph, (np.int32(below), found, out), weighed=True)
    return out


def own_roots(led: Array, first: int) -> tuple[Array, Array, int]:
    """See `dsolver.kernels.cpu.amg.aggregation.roots.own_roots`. It waits."""
    nodes, known = len(led), counters(2)
    if not nodes:
        return cupy.zeros(1, dtype=np.int64), cupy.empty(0, dtype=np.int64), 0
    root = cupy.empty(nodes, dtype=np.int8)
    for_each(FILE, "mark_roots", nodes, led, np.int64(first), np.int32(nodes), root, known[1:])
    before = starts_of(root, known)
    count, outside = map(int, read_back(known))
    return before, taken(before, count), outside


def _words(origin: Array, start: Any, level: int) -> Array:
    count, out = len(origin), cupy.empty(len(origin))
    for_each(FILE, "words", count, origin, start, np.uint64(salt_of(level)), np.int32(count), out)
    return out


def _launch(name: str, graph: Csr, arguments: tuple[Any, ...], *, weighed: bool = False) -> None:
    lanes = next((lanes for lanes in LANES if OF_LANE * lanes >= graph.mean), LANES[-1])
    rows = graph if weighed else graph[:2]
    for_each(FILE, f"{name}_{lanes}", graph.size, *rows, np.int32(graph.size), *arguments, lanes=lanes)
