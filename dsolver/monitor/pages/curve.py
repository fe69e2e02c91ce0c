"""Residual curves as SVG for light and dark pages: text has the color of what is around it, lines a middle one."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 480
HEIGHT: Final = 230
LEFT, RIGHT, TOP, BOTTOM = 66, 470, 10, 186  # edges of the plot, in pixels from the left and from above
TICKS: Final = 6  # most labels of an axis
LINE: Final = "#3b8bd0"
LIMIT: Final = "#2f9e5b"
SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def curve(iterations: Iterable[int], residuals: Iterable[float], limit: float = 0.0) -> str:
    """Residuals of a solve; see `curves`."""
    return curves([list(zip(iterations, residuals, strict=True))], limit)


def curves(lines: Sequence[Sequence[tuple[int, float]]], limit: float = 0.0, label: str = "‖b − A x‖") -> str:
    """Residuals by iteration, on a logarithmic axis. Values without a logarithm are left out; empty where none is left.

    `lines`: (iteration, residual) of each solve. `limit`: where solves end, as a dashed line; 0 for none.
    """
    drawn = [[(i, math.log10(r)) for i, r in line if r > 0.0 and math.isfinite(r)] for line in lines]
    points = [point for line in drawn for point in line]
    if not points:
        return ""
    heights = [y for _, y in points] + ([math.log10(limit)] if limit > 0.0 else [])
    low = math.floor(min(heights))
    axes = _Axes(low=low, high=max(math.ceil(max(heights)), low + 1), last=max(1, *(x for x, _ in points)))
    parts = [*axes.labeled(label)]
    if limit > 0.0:
        y = axes.down(math.log10(limit))
        parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="{LIMIT}" stroke-width="1.5" stroke-dasharray="5 4"/>')
        parts.append(_text(LEFT + 5, y - 5, f"tolerance {limit:.1e}", "start"))
    for line in drawn:
        places = " ".join(f"{axes.across(x):.1f},{axes.down(y):.1f}" for x, y in line)
        parts.append(f'<polyline fill="none" stroke="{LINE}" stroke-width="2" points="{places}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="residual by iteration" width="{WIDTH}" '
        f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="11" font-family="sans-serif">'
        f"{''.join(parts)}</svg>"
    )


@dataclass(frozen=True, kw_only=True)
class _Axes:
    """Axes of a plot: iterations 0 .. last, and decades low .. high from below."""

    low: int
    high: int
    last: int

    def across(self, x: float) -> float:
        return LEFT + (RIGHT - LEFT) * x / self.last

    def down(self, y: float) -> float:
        return TOP + (BOTTOM - TOP) * (self.high - y) / (self.high - self.low)

    def labeled(self, label: str) -> Iterator[str]:
        """The frame with ticks, their labels and the titles of both axes."""
        size = f'width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"'
        yield f'<rect x="{LEFT}" y="{TOP}" {size} fill="none" stroke="currentColor" stroke-opacity="0.6"/>'
        for y in range(self.high, self.low - 1, -math.ceil((self.high - self.low) / TICKS)):
            yield f'<path d="M{LEFT} {self.down(y):.1f}H{RIGHT}" stroke="currentColor" stroke-opacity="0.18"/>'
            yield _text(LEFT - 6, self.down(y) + 4, f"10{str(y).translate(SUPERSCRIPTS)}", "end")
        for x in range(0, self.last + 1, _step(self.last)):
            yield f'<path d="M{self.across(x):.1f} {TOP}V{BOTTOM}" stroke="currentColor" stroke-opacity="0.18"/>'
            yield _text(self.across(x), BOTTOM + 16, str(x), "middle")
        yield _text((LEFT + RIGHT) / 2, HEIGHT - 8, "iteration", "middle")
        yield _text(-(TOP + BOTTOM) / 2, 14, label, "middle", ' transform="rotate(-90)"')


def _step(last: int) -> int:
    """Distance between the labels of 0 .. last: 1, 2 or 5 times a power of ten."""
    decade: int = 10 ** max(0, math.floor(math.log10(last / TICKS)))
    return next(decade * factor for factor in (1, 2, 5, 10) if last <= decade * factor * TICKS)


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor"{more}>{text}</text>'
