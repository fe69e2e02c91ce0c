"""Set-up of general matrices on a GPU, on the device itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import cupy

from dsolver.kernels.cuda.block_slices import products as slices
from dsolver.kernels.cuda.csr import products
from dsolver.kernels.cuda.csr.ghosts import CudaGhostRows, CudaShortGhostRows, blocks_of, threads_of
from dsolver.kernels.cuda.csr.look.look import look
from dsolver.kernels.cuda.csr.statistics import asked, statistics
from dsolver.kernels.cuda.csr.transfer import CudaTransferRows, measured_transfer, transfer
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import type_of
from dsolver.kernels.cuda.sparse import selection
from dsolver.kernels.cuda.sparse.products import mirrors
from dsolver.kernels.cuda.vectors.vectors import cast, narrowed
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import Choice, few_rows
from dsolver.kernels.formats.compressed import LONGEST
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.matrix import GeneralMatrix, GhostRows
from dsolver.kernels.general.operations import Between
from dsolver.kernels.general.rows import SplitRows
from dsolver.kernels.general.selection import MEASURE, chosen
from dsolver.kernels.general.setup import GeneralSetup, OtherValues


class CudaGeneral(GeneralSetup):
    """Formats of general matrices with CUDA kernels."""

    colored: ClassVar[bool] = True

    def statistics(self, rows: Csr, columns: int, blocks: Sequence[int] = BLOCKS) -> Statistics:
        return statistics(rows, columns, blocks, self._vectors.type_name)

    def asked(self, rows: Csr, blocks: Sequence[int] = BLOCKS) -> Callable[[], Statistics] | None:
        few = few_rows(rows.size, len(rows.columns))
        return None if few else asked(rows, rows.size, blocks, self._vectors.type_name)

    look = staticmethod(look)

    def choice(self, rows: Csr, formats: str | None, blocks: Sequence[int] = BLOCKS) -> Choice:
        """The format of that name, or by statistics, which few rows do not need."""
        few = None if formats else few_rows(rows.size, len(rows.columns))
        return few or super().choice(rows, formats, blocks)

    def measured(self, rows: Csr, formats: str | None, known: Statistics | None) -> slices.Measured | None:
        choice = None if known is None or formats == MEASURE else chosen(formats, known, gpu=True)
        return None if choice is None or choice.name != "slices" else self._measured(rows, rows.size, choice)

    def _measured(self, rows: Csr, columns: int, choice: Choice) -> slices.Measured:
        return slices.measured(rows, columns, self._vectors.type_name, block=choice.block, window=choice.window)

    def split(self, rows: Csr, own_columns: int | None = None) -> SplitRows:
        return selection.split(rows, rows.size if own_columns is None else own_columns)

    def product(self, rows: Csr, columns: int, choice: Choice, measured: slices.Measured | None = None) -> Any:
        if choice.name == "slices":
            return slices.filled(rows, columns, measured or self._measured(rows, columns, choice))
        rows = rows._replace(values=narrowed(rows.values, self._vectors.dtype))
        if choice.name == "chunks":
            longest = int((rows.start[1:] - rows.start[:-1]).max()) if rows.size else 0
            return products.chunks(rows, columns, longest)
        size = choice.block
        blocks = products.blocks_of_rows(rows, columns, (size, size)) if size > 1 else None
        return products.CudaRows(shape=(rows.size, columns), entries=rows, threads=choice.threads, blocks=blocks)

    def matrices(
        self,
        rows: Csr,
        layout: Layout,
        narrow: GeneralSetup,
        formats: str | None = None,
        others: OtherValues | None = None,
        **given: Any,
    ) -> tuple[GeneralMatrix, GeneralMatrix | None]:
        """See `GeneralSetup.matrices`: slices of single entries are filled with both in one pass."""
        known, of = given.get("known"), given.get("measured")
        if formats == MEASURE:
            return super().matrices(rows, layout, narrow, formats, others, **given)
        choice = self.choice(rows, formats) if known is None else chosen(formats, known, gpu=True)
        if of is None and choice.name == "slices":
            of = self._measured(rows, rows.size, choice)
        if of is None or of.block > 1:
            return super().matrices(rows, layout, narrow, None, others, **given | {"measured": of, "choice": choice})
        product, rounded = slices.filled_twice(rows, rows.size, of, rows.values if others is None else others.entries)
        stored = self.stored_diagonal(rows, layout, given.get("diagonal"))
        of_gpu: Any = narrow  # of the same device
        made = self._assembled(layout, stored, product, choice)
        if others is None:
            return made, of_gpu._with_product(made, rounded)
        stored = of_gpu.stored_diagonal(rows, layout, others.diagonal)
        return made, replace(made, diagonal=stored, product=rounded, vectors=of_gpu._vectors)

    def narrowed(self, matrix: GeneralMatrix) -> GeneralMatrix | None:
        product, dtype = matrix.product, self._vectors.dtype
        if isinstance(product, slices.CudaBlockSlices):
            product = replace(product, values=cast(product.values, dtype))
        elif isinstance(product, products.CudaRows):
            entries = product.entries
            product = replace(product, entries=entries._replace(values=cast(entries.values, dtype)))
        elif isinstance(product, products.CudaChunks):
            product = replace(product, values=cast(product.values, dtype), parts=cupy.empty_like(product.parts))
        else:
            return None
        return self._with_product(matrix, product)

    def _with_product(self, matrix: GeneralMatrix, product: Any) -> GeneralMatrix:
        """A matrix of float64 in this value type, with its product in it."""
        diagonal = cast(matrix.diagonal, self._vectors.dtype, checked=True)
        return replace(matrix, diagonal=diagonal, product=product, vectors=self._vectors)

    def prepare_dots(self, matrix: GeneralMatrix) -> None:
        if matrix.product is not None:
            matrix.product.prepare_dots()

    def diagonal(self, rows: Csr) -> Array:
        return products.CudaRows(shape=(rows.size, rows.size), entries=rows, threads=1).diagonal()

    def stored_diagonal(self, rows: Csr, layout: Layout, known: Array | None = None) -> Array:
        if not layout.in_order:
            return super().stored_diagonal(rows, layout, known)
        if known is not None:
            return products.guarded_diagonal(known, self._guard, layout.size, self._vectors.type_name)
        entries = products.CudaRows(shape=(rows.size, rows.size), entries=rows, threads=1)
        if type_of(rows.values) != self._vectors.type_name:
            return entries.diagonal_in_range(self._guard, layout.size, self._vectors.type_name)
        return entries.diagonal(self._guard, layout.size)

    def ghost(self, boundary: Array, rows: Csr, slots: int, longest: int | None = None) -> GhostRows:
        made: GhostRows
        if len(boundary) and (rows.width if longest is None else longest) > LONGEST:
            fields = self._ghost_fields(boundary, rows, slots)
            made = CudaGhostRows(**fields, room=cupy.empty(len(boundary), dtype=self._vectors.dtype))
        else:
            threads = threads_of(len(boundary), len(rows.columns))
            choice = Choice(name="rows", threads=threads, why="few rows, none of them long")
            fields = self._ghost_fields(boundary, rows, slots, choice)
            made = CudaShortGhostRows(**fields, room=cupy.empty(blocks_of(len(boundary), threads)))
        if made.size:
            self.wait()  # kernels read the rows' places before they wait for earlier launches
        return made

    def measured_transfer(self, rows: Csr, written: Layout, read: Layout) -> slices.Measured | None:
        """Measured slices of rows that `transfer` leaves in their order; None for others."""
        return measured_transfer(rows, read.rows, self._vectors) if written.in_order and read.in_order else None

    def between(self, levels: Between) -> CudaTransferRows:
        return transfer(levels, self._vectors)

    def transfer(
        self,
        rows: Csr,
        written: Layout,
        read: Layout,
        *,
        wait: bool = True,
        blocks: tuple[int, int] = (1, 1),
        measured: slices.Measured | None = None,
    ) -> Any:
        """See `GeneralSetup.transfer`; what is padding between colors is rows without entries, or is not read."""
        if written.colors == 1 and read.colors == 1:
            return super().transfer(rows, written, read, wait=wait, blocks=blocks, measured=measured)
        of = slice(self._guard, written.size - self._guard)
        if not written.in_order:
            rows = self.reordered(rows, written.row[of])
        rows = rows._replace(columns=read.position[rows.columns])
        if not read.in_order:
            rows = self.ascending(rows, read.size)
        of = slice(of.start, of.start + rows.size)
        made = self.between(Between(shape=(rows.size, read.size), rows=rows, written=of, read=slice(0, read.size)))
        if wait:
            self.wait()
        return made

    def reordered(self, rows: Csr, order: Array) -> Csr:
        """See `GeneralSetup.reordered`; -1 is a row without entries."""
        return mirrors.reordered(rows, order)

    def ascending(self, rows: Csr, columns: int) -> Csr:
        return mirrors.ascending(rows, columns)

    wait = staticmethod(settle)

    def _rounded(self, rows: Csr) -> Csr:
        """See `GeneralSetup._rounded`: slices round values as they are stored, other formats before."""
        return rows
