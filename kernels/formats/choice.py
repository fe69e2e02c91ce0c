"""The choice of a matrix's format by its statistics, so the same matrix gets the same one everywhere.

Figures are times on an H200 as parts of cuSPARSE's best (docs/performance.md has the table).
"""

from dataclasses import dataclass
from typing import Final, Literal

from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.statistics import STRETCH, Statistics

Name = Literal["slices", "octets", "chunks", "rows"]

EVEN: Final = 1.06
"""Padding up to which slices in the rows' own order are best: 0.65 to 1.00, where chunks took 0.98 to 1.3."""
LATTICE: Final = 0.5  # part of the entries in runs from which a matrix is a lattice's
DENSE: Final = 0.8  # fill from which blocks are stored with their holes
LARGEST_BLOCK: Final = 3
"""Rows of the blocks that are chosen: blocks of 6 took 1.6 times as long as the same in blocks of 3, those of 4 1.04
times as long as in blocks of 2."""
CHOSEN: Final = tuple(b for b in BLOCKS if b <= LARGEST_BLOCK)
"""Sizes of blocks of which one may be chosen; others have to be asked for."""
CLOSE: Final = 0.25
"""Part of the slices with 16-bit columns from which rows of similar lengths are sorted: with 0.35 (linear elements in
banded order) sorted slices took 0.95, chunks 1.06; without any (random orders) 1.06 and 1.08, chunks 1.07 and 1.02."""
LONG_ROWS: Final = 40.0
"""Mean entries of rows from which threads of a warp share each: 0.76 to 0.99, where chunks took 0.85 to 1.09."""
ROW_BLOCK: Final = 3  # rows of full blocks of which a column is read once for each, where rows are long
FEW_ROWS: Final = 4096  # rows up to which a device has more warps than rows: their latency counts, and no byte
LONG_FOR_FEW: Final = 16.0  # mean entries of so few rows from which a warp has each
SIMILAR: Final = 0.35
"""Standard deviation over mean of the rows' lengths up to which sorting them leaves little padding: slices of sorted
rows took 0.70 and 0.95 on meshes (deviation 0.27 and 0.21), 1.28 on quadratic elements (0.60), where chunks took
0.96."""

LONG_ON_CPU: Final = (24.0, 48.0)
"""Mean entries of rows from which a CPU takes them in chunks: those that are equally long, whose ends it foresees (27
points: octets took 1.06), and all others (35 entries on coarse levels: octets took 0.5 to 0.95)."""
ALIKE: Final = 0.1  # standard deviation over mean of their lengths up to which rows are equally long
SHORT_ON_CPU: Final = 10.0
"""Mean entries of rows up to which a CPU takes them one after the other where columns lie far apart: two threads took
1.59 and 1.78 times SciPy's speed with chunks (7 points in random order, many empty rows), 2.14 and 2.27 so; with 12
entries a row chunks are faster."""
HOLES: Final = (1.2, 1.12)
"""Entries with holes for each entry up to which octets gain more than they read, for rows shorter and longer than those
that stay in chunks where they are equally long: with 17 entries and 1.16 (a coarse level) they took 0.6 to 0.75 of the
time of chunks, with 29 and 1.15 (quadratic elements) 0.9 to 1.2."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A format and what it is made with."""

    name: Name  # slices of rows of blocks, octets, compressed rows in chunks, or as they are
    block: int = 1
    window: int = 1  # σ of slices, 1 for the rows' own order
    threads: int = 1  # of a row, where rows are as they are
    why: str

    def __str__(self) -> str:
        """The format, and why, for people."""
        name = {"chunks": "chunks of compressed rows", "rows": "compressed rows"}.get(self.name, self.name)
        if self.block > 1:
            name += f" of {self.block} x {self.block} blocks"
        if self.window > 1:
            name += f" of rows sorted {self.window} at a time"
        if self.threads > 1:
            name += f", {self.threads} threads each"
        return f"{name} ({self.why})"


def blocks_of(size: int) -> tuple[int, ...]:
    """Sizes of blocks that may be chosen for rows that are so many unknowns of each node."""
    return (1, *[b for b in range(LARGEST_BLOCK, 1, -1) if size % b == 0][:1])


def few_rows(rows: int, entries: int) -> Choice | None:
    """The format on a GPU for few and long rows, which no statistics are needed for; None for other rows."""
    if rows <= FEW_ROWS and entries >= LONG_FOR_FEW * max(1, rows):
        return Choice(name="rows", threads=32, why="few rows, a warp each")
    return None


def gpu_choice(statistics: Statistics) -> Choice:
    """The format for a GPU."""
    one = statistics.stored.get(1)
    mean, deviation = statistics.mean, statistics.variance**0.5
    if few := few_rows(statistics.shape[0], statistics.entries):
        return few
    if one is None or statistics.longest > 16 * mean + 64:
        return Choice(name="chunks", why="some rows are far longer than the others")
    blocks = {
        b: s
        for b, s in statistics.stored.items()
        if 1 < b <= LARGEST_BLOCK and s.fill >= DENSE and s.padding <= 1 / DENSE
    }
    dense = max((b for b, s in blocks.items() if s.runs >= LATTICE and s.fill >= 0.99), default=1)
    if dense > 1:
        return Choice(name="slices", block=dense, why=f"{dense} x {dense} blocks on a lattice")
    if one.runs >= LATTICE:
        return Choice(name="slices", why="rows of a lattice")
    if one.padding <= EVEN:
        return Choice(name="slices", why="rows that follow each other are equally long")
    if mean >= LONG_ROWS and deviation <= 0.5 * mean:
        threads = 8 if mean < 64 else 16 if mean < 128 else 32
        of_blocks = statistics.stored.get(ROW_BLOCK)
        block = ROW_BLOCK if of_blocks is not None and of_blocks.fill == 1.0 else 1
        return Choice(name="rows", block=block, threads=threads, why=f"long rows, {threads} threads each")
    if one.near >= CLOSE and deviation <= SIMILAR * mean:
        return Choice(name="slices", window=STRETCH, why="rows of similar lengths, their columns close together")
    return Choice(name="chunks", why="rows of different lengths")


def cpu_choice(statistics: Statistics) -> Choice:
    """The format for a CPU: runs save columns, octets what a processor loses where it mistakes the end of a row."""
    one, mean = statistics.stored.get(1), statistics.mean
    alike = statistics.variance**0.5 <= ALIKE * mean
    if one is not None and one.runs >= LATTICE and one.padding <= 1.1:
        return Choice(name="slices", why="rows of a lattice")
    if one is None or statistics.longest > 16 * mean + 64:
        return Choice(name="chunks", why="some rows are far longer than the others")
    if mean >= LONG_ON_CPU[0 if alike else 1]:
        return Choice(name="chunks", why="long rows")
    if one.near < CLOSE and mean <= SHORT_ON_CPU:
        return Choice(name="rows", why="short rows, columns far apart")
    if one.near < CLOSE:
        return Choice(name="chunks", why="columns far apart")
    if one.octets > HOLES[0 if mean < LONG_ON_CPU[0] else 1]:
        return Choice(name="chunks", why="rows of different lengths")
    return Choice(name="octets", why="short rows of similar lengths, their columns close together")
