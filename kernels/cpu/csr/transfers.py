"""Rows between two levels on a CPU: short ones in octets, others as set-up leaves them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from dsolver.kernels.batched import Columns
from dsolver.kernels.cpu import octets
from dsolver.kernels.cpu.csr import loops
from dsolver.kernels.cpu.csr.products import CpuRows
from dsolver.kernels.cpu.loops.team import worth_of
from dsolver.kernels.cpu.vectors import CpuVectors, Real
from dsolver.kernels.formats.base import Format
from dsolver.kernels.general.operations import Between

SHORT: Final = 16.0
"""Mean entries up to which rows are stored in octets: those of P at 64³, 1 to 4 entries, take 9.3 MB so, and eight are
added at once. Longer ones, of R, are not worth the making."""
ENTRIES_WORTH_A_THREAD: Final = 32768


@dataclass(frozen=True, kw_only=True)
class CpuTransferRows(Format):
    """Rows between two levels with their kernels, and where these lie in vectors with guards around them."""

    product: octets.CpuOctets | CpuRows
    written: slice
    read: slice
    vectors: CpuVectors

    def batched(self, width: int) -> Columns:
        return TransferColumns(self, width)

    def restrict_full(self, y: Real, rc: Real) -> None:
        self._run(y[self.read], 0.0, rc[self.written])

    def prolong_add(self, xc: Real, x: Real) -> None:
        self._run(xc[self.read], 1.0, x[self.written])

    def prolong_sum(self, xc: Real, x: Real, y: Real) -> None:
        self._run(xc[self.read], 1.0, y[self.written], x[self.written])

    def _run(self, x: Real, keep: float, y: Real, plus: Real | None = None) -> None:
        loop, count, head = self.work
        before = y if plus is None else plus
        self.vectors.team.run(loop, 0, count, *head, x, keep, before, y, worth=self.worth)

    @cached_property
    def work(self) -> tuple[Any, int, tuple[Any, ...]]:
        """The loop, what it counts, and its first arguments after a range of that."""
        a = self.product
        if isinstance(a, octets.CpuOctets):
            return octets.spmv, a.count, a.head
        return loops.transfer, a.shape[0], a.entries

    @cached_property
    def worth(self) -> int:
        """Octets or rows that are worth a thread."""
        _, count, head = self.work
        return worth_of(ENTRIES_WORTH_A_THREAD, count, len(head[-1]))


class TransferColumns(Columns):
    """Rows between two levels for several vectors: entries are read once."""

    def restrict_full(self, y: Real, rc: Real) -> None:
        self._run(y[:, self.one.read], 0.0, rc[:, self.one.written])

    def prolong_add(self, xc: Real, x: Real) -> None:
        self._run(xc[:, self.one.read], 1.0, x[:, self.one.written])

    def prolong_sum(self, xc: Real, x: Real, y: Real) -> None:
        self._run(xc[:, self.one.read], 1.0, y[:, self.one.written], x[:, self.one.written])

    def _run(self, x: Real, keep: float, y: Real, plus: Real | None = None) -> None:
        (loop, count, head), before = self.one.work, y if plus is None else plus
        columns = [(x[n], keep, before[n], y[n]) for n in range(self.width)]
        worth = self.one.worth
        self.one.vectors.team.run_columns(loop, count, head, columns, at_once=worth, worth=worth)


def between(levels: Between, vectors: CpuVectors) -> CpuTransferRows:
    """Rows between two levels, in the form that is faster."""
    rows, (size, columns) = levels.rows, levels.shape
    product = (
        octets.made(rows, columns, vectors)
        if 0 < rows.mean <= SHORT
        else CpuRows(shape=(size, columns), entries=rows, vectors=vectors)
    )
    return CpuTransferRows(product=product, written=levels.written, read=levels.read, vectors=vectors)
