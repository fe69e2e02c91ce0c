"""Set-up of general matrices in NumPy."""

from collections.abc import Sequence
from typing import Any

from dsolver.kernels.cpu.csr.look import look
from dsolver.kernels.cpu.csr.statistics import statistics
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.look import Look
from dsolver.kernels.general.matrix import GhostRows
from dsolver.kernels.general.operations import Between
from dsolver.kernels.general.setup import GeneralSetup
from dsolver.kernels.reference.csr import TextbookRows, TextbookTransferRows


class TextbookGeneral(GeneralSetup):
    """General matrices as the text-book has them: compressed rows, whatever format is chosen."""

    def statistics(self, rows: Csr, columns: int, blocks: Sequence[int] = BLOCKS) -> Statistics:
        return statistics(rows, columns, blocks)

    def look(self, rows: Csr, allowed: float) -> Look:
        return look(rows, allowed, Team())

    def product(self, rows: Csr, columns: int, choice: Choice, measured: Any = None) -> Any:
        own = rows._replace(values=rows.values.copy())  # the user's may change
        return TextbookRows(shape=(rows.size, columns), entries=own)

    def diagonal(self, rows: Csr) -> Array:
        return TextbookRows(shape=(rows.size, rows.size), entries=rows).diagonal()

    def ghost(self, boundary: Array, rows: Csr, slots: int, layout: Layout, longest: int | None = None) -> GhostRows:
        return GhostRows(**self._ghost_fields(boundary, rows, slots, layout), room=None)

    def between(self, levels: Between) -> TextbookTransferRows:
        return TextbookTransferRows(**levels.fields, vectors=self._vectors)

    def wait(self) -> None:
        """Kernels have run when they return."""
