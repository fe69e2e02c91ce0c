"""Bytes of memory that a system takes on its devices, counted before anything is allocated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from dsolver.distributed.forecast import F64, Part, halo_bytes
from dsolver.engines.transport.peer_memory import PEER_BLOCK, PEER_UNIT
from dsolver.program.spec import SolveSpec
from dsolver.units import amount

NULL_VECTORS: Final = 3
"""Vectors of the null space. Where there may be many, a work field and what sorts their cells: 21 bytes for each of a
large region, 36 to 65 where 60 to 80 % of the cells are solid at random, so that most regions have few."""
SINGULAR_BLOCK_BYTES: Final = 32
"""Bytes of each row while set-up makes null vectors: two blocks, as arrays and in lattice order."""
WORD_BYTES: Final = 4
"""Bytes for each of a halo where GPUs write into each other's memory: words twice as long as values, in two slots."""


@dataclass(frozen=True, kw_only=True)
class Bytes:
    """Bytes that the chunks of one worker take.

    Attributes:
        matrices: of each level, finest first: matrix, storage order and way to the next level.
        halos: what multiplies halos, halo values and what is sent, of all levels.
        vectors: of conjugate gradients and of the preconditioner.
        blocks: a right-hand side or a solution, while it is looked at, brought in and out.
        finest: what is there of the finest level when set-up needs most: matrix, storage order, and its rows once more.
        temporary: what set-up needs then beside them.
        words: of each halo, what other GPUs write into, before it is cut from blocks; nothing where there are none.
    """

    matrices: tuple[int, ...]
    halos: int
    vectors: int
    blocks: int
    finest: int
    temporary: int
    words: tuple[int, ...] = ()

    @property
    def resident(self) -> int:
        """Bytes that stay as long as the system is set up."""
        return sum(self.matrices) + self.halos + self.vectors + self.peers

    @property
    def peers(self) -> int:
        """The blocks that other GPUs write into."""
        taken = free = 0
        for size in self.words:
            if size > free:
                free = -(-max(size, PEER_BLOCK) // PEER_UNIT) * PEER_UNIT
                taken += free
            free -= size
        return taken

    @property
    def total(self) -> int:
        """At most at any time."""
        return max(self.resident + self.blocks, self.finest + self.temporary)

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by what they are for, which make the total."""
        return {
            "matrices": sum(self.matrices),
            "vectors": self.vectors,
            "halos": self.halos + self.peers,
            "set-up and data": self.total - self.resident,
        }

    def __str__(self) -> str:
        return ", ".join(f"{name} {amount(size)}" for name, size in self.parts.items() if size)

    def __add__(self, other: "Bytes") -> "Bytes":
        return Bytes(
            matrices=tuple(a + b for a, b in zip(self.matrices, other.matrices, strict=True)),
            halos=self.halos + other.halos,
            vectors=self.vectors + other.vectors,
            blocks=self.blocks + other.blocks,
            finest=self.finest + other.finest,
            temporary=max(self.temporary, other.temporary),  # chunks are set up one after the other
            words=tuple(a + b for a, b in zip(self.words, other.words, strict=True)),
        )


def part_of(spec: SolveSpec, number: int, *, cuda: bool, first: bool = True) -> Part:
    """A chunk of a system, to forecast its bytes; see `Part`."""
    dtype = spec.precond_dtype if spec.lowered else spec.dtype
    return Part(spec.problem, spec.partition, spec.order, number, cuda, np.dtype(dtype).itemsize, first)


def of_chunk(spec: SolveSpec, number: int, *, cuda: bool, first: bool = True, together: int = 0) -> Bytes:
    """Bytes of one chunk on the `resident` and `reference` engines.

    `first`: whether it is its worker's first chunk, with which levels count that live whole on every worker.
    `together`: right-hand sides that have vectors and halos of their own beside those of one, to be solved at once.
    """
    part = part_of(spec, number, cuda=cuda, first=first)
    made = spec.preconditioner.forecast(part)
    parts = 1 + spec.problem.complex
    a, singular = made.levels[0], spec.problem.singular is not False
    own = np.dtype(spec.dtype).itemsize
    vectors = own * spec.vectors * a.size + made.vectors + 2 * part.value * a.size * (part.value != own)
    vectors = parts * vectors + 4 * F64 * a.size * spec.problem.complex  # a product, and what is centered
    vectors += 6 * F64 * a.size * spec.problem.hermitian  # phases, and what they turn
    null_space = F64 * (NULL_VECTORS + part.may_close) * a.size * singular
    if spec.problem.null_vectors:
        null_space += F64 * (spec.problem.null_vectors + 2) * a.size  # and two work fields
    halos = a.halo + F64 * a.boundary + sum(halo_bytes(slots, part.value) for slots in made.slots)
    words = [F64 * a.slots, *(part.value * slots for slots in made.slots)]
    blocks = max(made.blocks, SINGULAR_BLOCK_BYTES) if singular else made.blocks
    halos, blocks, words = parts * halos, parts * blocks, [parts * size for size in words]
    matrices = [level.matrix + level.way for level in made.levels]
    return Bytes(
        matrices=(matrices[0] + made.exact * (own == F64) + part.given, *matrices[1:]),
        halos=(1 + together) * halos + sum(n.halo_matrix for n in made.levels),
        vectors=(1 + together) * vectors + null_space + made.shared,
        blocks=(blocks + parts * F64 * together) * a.rows,  # each solution, until all are there
        finest=a.matrix + made.rows,
        temporary=part.assembly if made.temporary is None else made.temporary,
        words=tuple(WORD_BYTES * size * n for n in (1, together) if n for size in words) if cuda else (),
    )


def of_workers(spec: SolveSpec, owners: Sequence[int], *, cuda: bool, together: int = 0) -> tuple[Bytes, ...]:
    """Bytes of each worker, in rank order, of chunks that these ranks own; arguments as of `of_chunk`."""
    found: dict[int, Bytes] = {}
    known: dict[tuple[Any, ...], Bytes] = {}
    lattice = spec.problem.lattice  # else chunks of as many rows may have any numbers of entries
    along = [
        [(n, i == 0, i == len(extents) - 1) for i, n in enumerate(extents)] for extents in spec.partition.sizes
    ]  # chunks of the same extents at the same edges of the grid take as much
    for number, owner in enumerate(owners):
        first = owner not in found
        alike = (
            *(kinds[i] for kinds, i in zip(along, spec.partition.place(number), strict=True)),
            first,
            not lattice and number,
        )
        if alike not in known:
            known[alike] = of_chunk(spec, number, cuda=cuda, first=first, together=together)
        found[owner] = found[owner] + known[alike] if owner in found else known[alike]
    if len(found) == 1:  # no other chunk writes
        found = {rank: replace(one, words=()) for rank, one in found.items()}
    return tuple(found[rank] for rank in sorted(found))
