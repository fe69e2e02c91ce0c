"""Set-up of general matrices on a CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dsolver.kernels.cpu import octets
from dsolver.kernels.cpu.block_slices import products as block_slices
from dsolver.kernels.cpu.csr import products
from dsolver.kernels.cpu.csr.look import look
from dsolver.kernels.cpu.csr.loops import find_diagonal
from dsolver.kernels.cpu.csr.rows import split
from dsolver.kernels.cpu.csr.statistics import statistics
from dsolver.kernels.cpu.csr.transfers import CpuTransferRows, between
from dsolver.kernels.cpu.loops.team import rows_worth
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import Choice, cpu_choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.look import Look
from dsolver.kernels.general.matrix import GhostRows
from dsolver.kernels.general.operations import Between
from dsolver.kernels.general.rows import SplitRows
from dsolver.kernels.general.setup import GeneralSetup

FEW_SAMPLES = 16
"""Stretches of rows by which the format of rows is chosen: 64 of them took 8 ms of a set-up of 170 ms at 64³."""


class CpuGeneral(GeneralSetup):
    """Formats of general matrices whose loops numba compiles."""

    def statistics(self, rows: Csr, columns: int, blocks: Sequence[int] = BLOCKS) -> Statistics:
        return statistics(rows, columns, blocks, self._vectors.team)

    def look(self, rows: Csr, allowed: float) -> Look:
        return look(rows, allowed, self._vectors.team)

    def choice(self, rows: Csr, formats: str | None, blocks: Sequence[int] = BLOCKS) -> Choice:
        """The format of that name, or by statistics of single entries: no rule for CPUs looks at blocks."""
        if formats:
            return super().choice(rows, formats, blocks)
        return cpu_choice(statistics(rows, rows.size, (1,), self._vectors.team, FEW_SAMPLES))

    def _writable(self, rows: Csr) -> Csr:
        return Csr(*(np.require(part, requirements="W") for part in rows))

    def split(self, rows: Csr, own_columns: int | None = None) -> SplitRows:
        """See `GeneralSetup.split`; the bits of `rows.split`, in a sixth of its time."""
        return split(rows, rows.size if own_columns is None else own_columns, self._vectors.team)

    def product(self, rows: Csr, columns: int, choice: Choice, measured: Any = None) -> Any:
        if choice.name == "chunks":
            return products.chunks(rows, columns, self._vectors)
        if choice.name == "octets":
            return octets.made(rows, columns, self._vectors)
        if choice.name == "slices":
            assert choice.block == choice.window == 1, "blocks and sorted rows are for GPUs"
            return block_slices.made(rows, columns, self._vectors)
        return products.CpuRows(shape=(rows.size, columns), entries=rows, vectors=self._vectors)

    def diagonal(self, rows: Csr) -> Array:
        out = np.empty(rows.size, dtype=rows.values.dtype)
        self._vectors.team.run(find_diagonal, 0, rows.size, *rows, out, worth=rows_worth(rows))
        return out

    def ghost(self, boundary: Array, rows: Csr, slots: int, longest: int | None = None) -> GhostRows:
        return GhostRows(**self._ghost_fields(boundary, rows, slots), room=None)

    def between(self, levels: Between) -> CpuTransferRows:
        return between(levels, self._vectors)

    def wait(self) -> None:
        """Kernels have run when they return."""
