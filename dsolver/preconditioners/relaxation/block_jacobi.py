"""Block Jacobi for any matrix: inverses of dense blocks along its diagonal."""

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Final, final

import numpy as np

from dsolver.distributed.forecast import F64, I32, Part
from dsolver.engines.base import Field
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import RESTRICT_FULL
from dsolver.kernels.formats.ell import Ell
from dsolver.krylov.method import ApproximateInverse
from dsolver.matrices.chunks.row_block import RowBlock
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site, is_a
from dsolver.preconditioners.builder import Builder
from dsolver.preconditioners.relaxation.sweeps import require_rows
from dsolver.problems import Problem

SIZE: Final = 8  # rows of a block by default

LARGEST: Final = 128


@final
@dataclass(frozen=True, kw_only=True)
class BlockJacobi(Preconditioner):
    """Inverses of dense blocks along the diagonal of a general matrix: ``"block-jacobi"``.

    For several unknowns of each node, which couple strongly. Blocks are inverted on the host and hold 12 bytes for each
    of their entries.

    Attributes:
        size: consecutive rows of a block, from row 0 of A on (where parts group the rows, of their order); a block that
            two chunks share is cut between them. By default that of A's blocks if it came in BSR format, else `SIZE`.

    Raises:
        InputError: the size is no integer from 1 to `LARGEST`.
    """

    can: ClassVar[Capabilities] = Capabilities(batched=True, lowered=True)
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and not (is_a(self.size, Integral) and 1 <= self.size <= LARGEST):
            raise InputError(f"size must be an integer from 1 to {LARGEST}, not {self.size!r}")

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse a grid."""
        require_rows("block-jacobi", problem)

    def build(self, builder: Builder) -> Built:
        """A for products, and the inverses of each chunk's blocks."""
        make = partial(inverses, size=self._size(builder.problem), partition=builder.partition)
        return builder.products(), (builder.per_chunk(make).at(0),)

    def on(self, site: Site) -> ApproximateInverse:
        """z = B⁻¹ r with the blocks B of A."""
        return _Blocks(site)

    def forecast(self, part: Part) -> Forecast:
        """Bytes of r and the inverses, which are read, and of z."""
        a, entries = replace(part, value=F64).stored(), self._size(part.problem) * (part.value + I32)
        return Forecast(levels=(a,), shared=entries * a.size, moved=(entries + 3 * part.value) * a.rows)

    def _size(self, problem: Problem) -> int:
        if self.size is not None:
            return self.size
        return problem.block if isinstance(problem, MatrixProblem) and problem.block > 1 else SIZE


class _Blocks:
    """M of block Jacobi, applied."""

    def __init__(self, site: Site) -> None:
        self._engine, (self._inverses,) = site.engine, site.levels

    def apply(self, r: Field, z: Field) -> None:
        """z = B⁻¹ r."""
        self._engine.run(RESTRICT_FULL, self._inverses, r, z)


def inverses(backend: Backend, number: int, block: RowBlock, *, size: int, partition: Partition) -> tuple[Any]:
    """Inverses of a chunk's diagonal blocks as a matrix, for the finest level. InputError: a block is singular."""
    block = block.here
    rows, first = len(block.start) - 1, partition[number].box.lo[0]
    place = first % size + (np.arange(rows) if block.order is None else block.order.astype(np.int64))
    of, inner = place // size, place % size  # the block of each row, and which of its rows it is
    dense = np.zeros((-(-(first % size + rows) // size), size, size))
    dense[:, range(size), range(size)] = 1.0  # rows that the chunk does not have
    row, columns = np.repeat(np.arange(rows), np.diff(block.start)), block.columns
    own = columns < rows
    own[own] = of[columns[own]] == of[row[own]]
    row, columns, values = row[own], columns[own], block.values[own]
    dense[of, inner, inner] = 0.0
    dense[of[row], inner[row], inner[columns]] = values
    try:
        inverse = np.linalg.inv(dense)
    except np.linalg.LinAlgError:
        raise InputError(
            f"M='block-jacobi': a block of {size} rows among rows {first} to {first + rows - 1} is singular: choose "
            f"another size"
        ) from None
    member = np.full(dense.shape[:2], -1, dtype=np.int32)  # the row at each place of each block
    member[of, inner] = np.arange(rows)
    entries = Ell(
        columns=backend.asarray(np.ascontiguousarray(member[of].T)),
        values=backend.asarray(np.ascontiguousarray(inverse[of, inner].T)),
        halo=False,
    )
    plain = backend.layouts.plain((rows, 1, 1))
    made = backend.format("sell").product(plain, plain, entries, in_order=True)
    backend.synchronize()  # kernels read it before they wait for earlier launches
    return (made,)
