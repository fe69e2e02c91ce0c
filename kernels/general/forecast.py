"""Forecast of a format's bytes, from the statistics of rows, before anything is stored."""

from dataclasses import dataclass

from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.compressed import LONGEST, STEP
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.octets import LANES, count_of
from dsolver.kernels.formats.statistics import Statistics


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Forecast of what a format takes."""

    entries: int  # values that are stored, holes too; column: bytes of each one's column
    column: float
    beside: int  # bytes of all else


def storage(choice: Choice, known: Statistics) -> Storage:
    """Forecast of a format's bytes; slices as their samples tell, where rows are not sorted yet."""
    rows, entries = known.shape[0], known.entries
    one = known.stored.get(1)
    near = 0.0 if one is None else one.near
    if choice.name == "rows":
        of_blocks = 4.0 / choice.block**2 if choice.block > 1 else 0.0  # beside those of all entries
        return Storage(entries=entries, column=4.0 + of_blocks, beside=8 * (rows + 1))
    if choice.name == "chunks":
        count, carried = -(-(rows + entries) // STEP), known.longest > LONGEST
        column = 2.0 * (near > 0.0) + 4.0 * (near < 1.0)  # both where chunks differ
        return Storage(entries=entries, column=column, beside=2 * rows + 24 * (count + 1) + 8 * (rows + 1) * carried)
    if choice.name == "octets":
        padded = 1.0 if one is None else one.octets
        beside = (LANES + 12) * count_of(rows) + 12
        whole = int(padded * entries) + LANES  # one more entry column, for samples are rounded
        return Storage(entries=whole, column=2 * near + 4 * (1 - near), beside=beside)
    stored = known.stored[choice.block]
    slices = -(-rows // (SLICE * choice.block))
    column = stored.runs / 8 + (1 - stored.runs) * (2 * near + 4 * (1 - near))
    return Storage(
        entries=int(stored.padding * entries),
        column=column / choice.block**2,
        beside=24 * slices + int(64 * stored.runs * slices) + (4 * SLICE * slices if choice.window > 1 else 0),
    )
