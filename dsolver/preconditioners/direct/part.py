"""A chunk's part of direct solutions, as it is made on its owner; the first one's has the factors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, Final

import numpy as np

from dsolver.distributed.halo import direct_layout, gather_layout
from dsolver.engines.base import PerChunk
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend, load
from dsolver.kernels.direct.factors import MatrixTraits, NoLibraryError, complex_rows, factors_of
from dsolver.kernels.direct.libraries import SingularError
from dsolver.kernels.direct.parts import DirectPart
from dsolver.kernels.formats.csr import Csr, joined
from dsolver.kernels.formats.layout import HaloLayout, Layout
from dsolver.matrices.chunks.row_block import RowBlock
from dsolver.multigrid.algebraic.finest import rows_of_blocks
from dsolver.multigrid.algebraic.lattice.rows import LatticeRows
from dsolver.multigrid.algebraic.rows.global_rows import ascending
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.geometric.assembly import raised_rows
from dsolver.preconditioners.builder import Builder

OWNER: Final = 0  # the chunk next to which the factors are


def rows_of_matrix(builder: Builder) -> PerChunk:
    """The `LevelRows` of every chunk of a matrix."""
    return _level_rows(builder, builder.system.per_chunk(_as_it_came))


def rows_of_parts(builder: Builder) -> list[PerChunk]:
    """Rows of the parts of a complex matrix, as of `rows_of_matrix`."""
    return [_level_rows(builder, rows) for rows in builder.system.part_rows]


def _level_rows(builder: Builder, blocks: PerChunk) -> PerChunk:
    bounds = tuple(accumulate(builder.partition.sizes[0], initial=0))
    return rows_of_blocks(builder.engine, blocks, bounds)


def rows_of_grid(builder: Builder) -> tuple[PerChunk, Partition | None]:
    """The `LevelRows` of ranges of a grid's rows, and the boxes that its vectors come in; None for one."""
    engine, rows = builder.engine, builder.rows
    weights = rows.weights
    if rows.raised is not None:
        weights = engine.per_chunk(partial(raised_rows, offsets=rows.offsets), weights, rows.raised)
    found = LatticeRows(engine, rows.chunks, rows.offsets, weights).rows
    return found, builder.partition if len(builder.partition) > 1 else None


def _as_it_came(_: Backend, __: int, block: RowBlock) -> RowBlock:
    return block


def instead(_: Backend, __: int, part: DirectPart) -> tuple[float, float, float]:
    """Numbers that tell whether factors are not those of A itself, for least squares, and blurred."""
    made = part.factors
    return (0.0, 0.0, 0.0) if made is None else (float(made.nearby), float(made.projecting), float(made.blurred))


def to_owner(backend: Backend, number: int, rows: LevelRows) -> dict[int, Any]:
    """A message with the chunk's rows for the owner of the factors."""
    return {} if number == OWNER else {OWNER: tuple(rows.window.numbered(backend.amg, rows.a))}


@dataclass(frozen=True, kw_only=True)
class MakePart:
    """Makes a chunk's part of direct solutions, with the factors on the first chunk."""

    label: ClassVar[str] = "setup-levels"
    library: str | None  # that makes factors; None for the first that is there
    sizes: tuple[int, ...]
    places: Partition | None  # boxes of a grid, where rows come in lattice order and vectors box after box; else None
    traits: MatrixTraits  # of A

    def __call__(
        self, backend: Backend, number: int, layout: Layout, *gathered: LevelRows | Mapping[int, Any]
    ) -> tuple[DirectPart]:
        """The part, for the finest level.

        Args:
            gathered: its rows, and what has arrived of the others, of A or of each part of a complex A.

        Raises:
            InputError: no library is there, or the matrix has no factors.
            DeviceMemoryError: memory has run out.
        """
        factors = None
        if number == OWNER:
            pairs: Any = zip(gathered[::2], gathered[1::2], strict=True)
            factors = self._factors(backend, [self._joined(backend, *pair) for pair in pairs])
        chunks, size = len(self.sizes), sum(self.sizes) if number == OWNER else 1
        return (
            DirectPart(
                backend=backend,
                position=layout.position,
                size=size,
                gather=gather_layout(backend, number, layout, hosts=(OWNER,), sizes=self.sizes),
                scatter=self._scatter(backend, number, chunks, size),
                factors=factors,
            ),
        )

    def _scatter(self, backend: Backend, number: int, chunks: int, size: int) -> HaloLayout:
        """The exchange that brings each chunk its part of the solution."""
        if number != OWNER:
            made = direct_layout(backend, [], [(OWNER, self.sizes[number])])
            return replace(made, items=size)
        rest = [(other, self.sizes[other]) for other in range(1, chunks)]
        first = self.sizes[OWNER]
        made = direct_layout(backend, rest, [])
        return replace(made, send_rows=(first + made.send_rows).astype(np.int32), items=size)

    def _joined(self, backend: Backend, rows: LevelRows, arrived: Mapping[int, Any]) -> Csr:
        """All rows."""
        others = (Csr(*arrived[sender]) for sender in sorted(arrived))
        whole = joined([rows.window.numbered(backend.amg, rows.a), *others])
        return whole if self.places is None else _box_after_box(backend.amg, whole, self.places)

    def _factors(self, backend: Backend, parts: Sequence[Csr]) -> Any:
        rows = parts[0]
        if len(parts) > 1:  # of complex numbers libraries of the host make factors
            rows = complex_rows(*(Csr(*map(backend.to_host, part)) for part in parts))
            backend = load("numpy", dtype=str(backend.dtype))
        try:
            return factors_of(rows, backend, self.library, self.traits)
        except NoLibraryError as error:
            raise InputError(
                f"M='direct' needs {error} where the first chunk lies, for {backend.dtype}: install it there"
            ) from None
        except SingularError:
            raise InputError("M='direct': the matrix has no factors that are of use: use another M") from None
        except MemoryError:
            raise DeviceMemoryError(
                "M='direct': memory has run out for the factors: use M='amg', 'ilu0' or another that takes less"
            ) from None


def _box_after_box(amg: Any, rows: Csr, partition: Partition) -> Csr:
    """Rows and columns of a grid in lattice order, as the boxes of chunks have them one after the other."""
    domain = partition.domain
    order = np.concatenate([domain.rows_of(chunk.box) for chunk in partition])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    picked = amg.selected(rows, np.asarray(order, like=rows.start))
    return ascending(picked._replace(columns=np.asarray(place, like=rows.start)[picked.columns]))
