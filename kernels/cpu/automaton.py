"""Finite automata over bytes: where a text leaves a language."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dsolver.kernels.cpu.loops.compiled import compiled

WRONG: Final = 0  # state from which no byte leads back
LANES: Final = 8
"""Parts of a text that are gone through side by side: a byte waits for the state before it, and their waits overlap."""


class Automaton:
    """States of a language of lines, and where each byte leads.

    Args:
        table: (states, 256), the state to which a byte leads, fewer than 256. State 0 is `WRONG`; lines begin in
            state 1.

    Attributes:
        bytes: uint16 (states * 256,), 256 times these states.
        pairs: uint8 (states * 65536,), the states to which two bytes lead, of which the second counts 256. One look for
            two bytes takes half of the time; the places of digits, which are looked at, fit into a core's first cache.
    """

    def __init__(self, table: Sequence[Sequence[int]]) -> None:
        states = np.array(table, np.uint8)
        self.bytes = (states.astype(np.uint16) << 8).ravel()
        self.pairs = np.ascontiguousarray(states[states].transpose(0, 2, 1)).ravel()


def first_wrong(text: bytes, language: Automaton) -> int:
    """The place of the first byte at which a text of whole lines is none of a language; -1 where there is none."""
    found = np.frombuffer(text, np.uint8)
    cuts = [0]
    for lane in range(1, LANES):
        cuts.append(max(cuts[-1], text.rfind(b"\n", 0, len(text) * lane // LANES) + 1))
    ends = _last_states(found, np.array([*cuts, len(text)]), language.pairs, language.bytes)
    for lane in np.flatnonzero(ends == WRONG).tolist():
        return cuts[lane] + int(_place(found[cuts[lane] :], language.bytes))
    return -1


@compiled()
def _pair(text: Any, at: Any) -> Any:
    """Two bytes as one number; one load of the processor."""
    return np.uint64(text[at]) | np.uint64(text[at + np.uint64(1)]) << np.uint64(8)


@compiled()
def _last_states(text: Any, cuts: Any, pairs: Any, table: Any) -> Any:
    """The states in which the lanes between the cuts end."""
    a, b, c, d = np.uint64(cuts[0]), np.uint64(cuts[1]), np.uint64(cuts[2]), np.uint64(cuts[3])
    e, f, g, h = np.uint64(cuts[4]), np.uint64(cuts[5]), np.uint64(cuts[6]), np.uint64(cuts[7])
    n = len(text)
    for lane in range(8):
        n = min(n, cuts[lane + 1] - cuts[lane])
    n = n // 2 * 2
    p = q = r = s = t = u = v = w = np.uint64(1)
    by = np.uint64(16)
    for place in range(0, n, 2):
        k = np.uint64(place)
        p = np.uint64(pairs[p << by | _pair(text, a + k)])
        q = np.uint64(pairs[q << by | _pair(text, b + k)])
        r = np.uint64(pairs[r << by | _pair(text, c + k)])
        s = np.uint64(pairs[s << by | _pair(text, d + k)])
        t = np.uint64(pairs[t << by | _pair(text, e + k)])
        u = np.uint64(pairs[u << by | _pair(text, f + k)])
        v = np.uint64(pairs[v << by | _pair(text, g + k)])
        w = np.uint64(pairs[w << by | _pair(text, h + k)])
    ends = np.array([p, q, r, s, t, u, v, w])
    for lane in range(8):
        state = ends[lane] << np.uint64(8)
        for place in range(cuts[lane] + n, cuts[lane + 1]):
            state = np.uint64(table[state | np.uint64(text[place])])
        ends[lane] = state
    return ends


@compiled()
def _place(text: Any, table: Any) -> Any:
    """The place of the first wrong byte of a text that has one."""
    state, k = np.uint64(256), -1
    while state != 0:
        k += 1
        state = np.uint64(table[state | np.uint64(text[k])])
    return k
