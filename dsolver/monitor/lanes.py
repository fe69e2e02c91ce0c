"""Measured spans as rectangles: one lane for each rank and stream or thread."""

from __future__ import annotations

from typing import Any, Final

from dsolver.monitor.board import Watched
from dsolver.monitor.colors import COLORS
from dsolver.monitor.spans import HALO

RECTANGLES: Final = 5000
"""Spans that are drawn of one iteration, the longest first."""


def rectangles(solve: Watched) -> dict[str, list[Any]]:
    """The measured spans as rectangles: a lane for each rank and stream or thread, inner lanes above halo lanes."""
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
