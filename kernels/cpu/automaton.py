"""Finite automata over bytes: where a text leaves a language."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled

WRONG: Final = 0
"""State from which no byte leads back."""
LANES: Final = 8
"""Parts of a text that are gone through side by side: a byte waits for the state before it, and their waits overlap."""


def first_wrong(text: bytes, table: npt.NDArray[np.uint16]) -> int:
    """The place of the first byte at which a text of whole lines is none of a language; -1 where there is none.

    Args:
        text: lines, each with its end.
        table: uint16 (states, 256), 256 times the state to which each byte leads. Lines begin in state 1.
    """
    found = np.frombuffer(text, np.uint8)
    cuts = [0]
    for lane in range(1, LANES):
        cuts.append(max(cuts[-1], text.rfind(b"\n", 0, len(text) * lane // LANES) + 1))
    ends = _last_states(found, np.array([*cuts, len(text)]), table.ravel())
    for lane in np.flatnonzero(ends == WRONG).tolist():
        return cuts[lane] + int(_place(found[cuts[lane] :], table.ravel()))
    return -1


@compiled()
def _last_states(text: Any, cuts: Any, table: Any) -> Any:
    """The states in which the lanes between the cuts end."""
    a, b, c, d, e, f, g, h = cuts[0], cuts[1], cuts[2], cuts[3], cuts[4], cuts[5], cuts[6], cuts[7]
    n = len(text)
    for lane in range(8):
        n = min(n, cuts[lane + 1] - cuts[lane])
    p = q = r = s = t = u = v = w = np.uint64(256)
    for k in range(n):
        p = np.uint64(table[p | np.uint64(text[a + k])])
        q = np.uint64(table[q | np.uint64(text[b + k])])
        r = np.uint64(table[r | np.uint64(text[c + k])])
        s = np.uint64(table[s | np.uint64(text[d + k])])
        t = np.uint64(table[t | np.uint64(text[e + k])])
        u = np.uint64(table[u | np.uint64(text[f + k])])
        v = np.uint64(table[v | np.uint64(text[g + k])])
        w = np.uint64(table[w | np.uint64(text[h + k])])
    ends = np.array([p, q, r, s, t, u, v, w])
    for lane in range(8):
        state = ends[lane]
        for k in range(cuts[lane] + n, cuts[lane + 1]):
            state = np.uint64(table[state | np.uint64(text[k])])
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
