"""Drawing of measured spans: a color for each kind, and rectangles in a lane for each rank and stream or thread."""

from typing import Any, Final

from dsolver.monitor.history import SolveRecord
from dsolver.monitor.spans import HALO, KINDS

COLORS: Final = {
    "inner": "#1f77b4",
    "boundary": "#17becf",
    "coarse": "#9467bd",
    "pack": "#bcbd22",
    "exchange": "#ff7f0e",
    "reduce": "#d62728",
    "wait": "#c7c7c7",
}
"""The color of each kind of span: work in blue and violet, moving numbers in yellow to red, waiting in gray."""
MEANINGS: Final = {
    "inner": "work that reads no halo",
    "boundary": "work on rows that read the halo",
    "coarse": "the coarsest level",
    "pack": "collecting what neighbors read",
    "exchange": "halo values under way",
    "reduce": "sums over chunks and ranks",
    "wait": "nothing to do until something arrives",
}
"""Each kind of span in words, for the keys of pictures."""
assert set(COLORS) == set(MEANINGS) == set(KINDS)

EXPLANATION: Final = (
    "A rank is the solver's part on one worker. Its main lane (in the graph engine one for each thread) shows what it "
    "works on; its halo lane below shows the halo values that travel meanwhile. What travels beside work is hidden. "
    "Exposed communication is the time in which the main lanes of a rank pack, exchange, sum or wait, and none works; "
    "the rank with most of it counts."
)
"""Explanation of lanes, for the pages that show them."""
TIME: Final = "milliseconds since the iteration began"
LANE: Final = "rank and lane"

RECTANGLES: Final = 5000  # most spans that are drawn of one iteration; the longest are


def rectangles(solve: SolveRecord) -> dict[str, list[Any]]:
    """The measured spans as rectangles, in columns; a rank's inner lanes come before its halo lane."""
    columns = solve.spans["spans"] if solve.spans else {"start": []}
    count = len(columns["start"])
    longest = sorted(range(count), key=lambda i: columns["start"][i] - columns["stop"][i])[:RECTANGLES]
    order = sorted(longest, key=lambda i: (columns["rank"][i], columns["lane"][i] == HALO, columns["start"][i]))
    begin = min(columns["start"], default=0.0)
    out: dict[str, list[Any]] = {name: [] for name in ("lane", "left", "right", "color", "what", "us", "kind")}
    for i in order:
        kind, level, chunk = columns["kind"][i], columns["level"][i], columns["chunk"][i]
        out["lane"].append(f"rank {columns['rank'][i]} {columns['lane'][i]}")
        out["left"].append(1e3 * (columns["start"][i] - begin))
        out["right"].append(1e3 * (columns["stop"][i] - begin))
        out["color"].append(COLORS[kind])
        out["kind"].append(kind)
        out["us"].append(1e6 * (columns["stop"][i] - columns["start"][i]))
        where = [] if level is None else [f"level {level}"]
        where += [] if chunk is None else [f"chunk {chunk}"]
        out["what"].append(", ".join([columns["name"][i], *where]))
    return out
