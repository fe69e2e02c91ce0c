"""Counts of what makes algebraic levels on GPUs, forecast from the rows of a grid or matrix; see `Making`."""

from math import prod
from typing import Final

from dsolver.distributed.forecast import MatrixForecast, Part
from dsolver.multigrid.algebraic.options import COARSE_ROWS, GATHERED_ROWS
from dsolver.preconditioners.base import Making

FEWER: Final = (12.6, 6.0)
"""Rows of a level over those of the next one, where it is coarsened twice at once and elsewhere: 7 points, 40³, 64³."""
ENTRIES: Final = (34, 60)  # entries beside the diagonal of a row of the second level, and of the others: the same
SETUP_ROW: Final = 340
SETUP_ENTRY: Final = 85
"""Bytes of each row, and of each entry beside the diagonal, that set-up needs for a while: 5, 7 and 27 points, of grids
and matrices, took 0.8 to 1.1 times as much as is counted so, and 7 points of a grid on a GPU 0.7."""
PASSES: Final = 10.8  # times that these are moved, by the time of 3.4·10⁷ rows of 7 points on an H200
JOINED: Final = 1.1  # times as much where there are several chunks: what is sent, joined and selected
ENTRY: Final = 16  # bytes of an entry that is sent, with its column
HOST: Final = (1.8e-3, 8.0e-3)  # seconds: of 4·10⁶ rows on one H200, and on two, with 270 launches more of 22 µs
ROUNDS: Final = 7  # of messages of a level, counted on 2, 4 and 8 ranks, where sizes are told
QUESTIONS: Final = 4
MOVES: Final = 3  # rounds in which rows of boxes travel to ranges of rows, and transfers back


def making_of(part: Part, a: MatrixForecast) -> Making:
    """Levels by coarse points, the finest one coarsened twice at once."""
    partition = part.partition
    chunks, rows, entries = len(partition), float(prod(partition.grid)), a.entries / max(1, a.rows)
    levels = []
    while rows > COARSE_ROWS[True]:
        levels.append((rows, entries))
        rows, entries = rows / FEWER[len(levels) > 1], float(ENTRIES[len(levels) > 1])
    cut = [level for n, level in enumerate(levels) if chunks > 1 and (n == 0 or level[0] > GATHERED_ROWS[True])]
    whole = levels[len(cut) :] if cut else []
    moved = sum(map(_moved, cut or levels)) / chunks * (JOINED if cut else 1.0)
    peers = min(chunks - 1, 4 * (1 + prod(partition.grid[:2]) // a.rows))  # whom one may hear of, in ranges of rows
    boxes = prod(partition.counts[:2])  # that share their planes with a range
    messages, sent = ROUNDS * len(cut) * peers, 2.0 * SETUP_ROW * prod(partition.grid[:2]) * bool(cut)
    if boxes > 1:
        messages, sent = messages + MOVES * (boxes - 1), sent + ENTRY * 2 * (a.entries + a.rows)
    return Making(
        moved=moved,
        whole=sum(map(_moved, whole)),
        gathered=sum(ENTRY * n * (1 + each) for n, each in whole[:1]),
        sent=sent,
        levels=(len(cut), len(levels) - len(cut)),
        host=HOST,
        rounds=ROUNDS * len(cut) + MOVES * (boxes > 1),
        messages=messages,
        questions=QUESTIONS * len(cut),
        tables=len(cut) + bool(cut),
    )


def _moved(level: tuple[float, float]) -> float:
    """Bytes that are moved for a level of so many rows, with so many entries each beside the diagonal."""
    rows, entries = level
    return PASSES * rows * (SETUP_ROW + SETUP_ENTRY * entries)
