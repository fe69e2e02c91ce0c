"""One color for each kind of span, wherever spans are drawn."""

from __future__ import annotations

from typing import Final

from dsolver.monitor.spans import KINDS

COLORS: Final = {
    "inner": "#1f77b4",
    "boundary": "#17becf",
    "coarse": "#9467bd",
    "pack": "#bcbd22",
    "exchange": "#ff7f0e",
    "reduce": "#d62728",
    "wait": "#c7c7c7",
}
"""Work in blue and violet, what moves numbers in yellow to red, waiting in gray."""
assert set(COLORS) == set(KINDS)
