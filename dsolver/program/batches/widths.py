"""Batches of right-hand sides by their number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from dsolver.engines.base import PerChunk
from dsolver.program.batches.batch import Batch
from dsolver.program.spec import SolveSpec


@final
class BatchesByWidth:
    """A batch of one right-hand side, and one of another number of them, for which there is room."""

    def __init__(self) -> None:
        self._batches: dict[int, Batch] = {}
        self._chosen = 1

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches.values())

    def __contains__(self, width: int) -> bool:
        return width in self._batches

    @property
    def single(self) -> Batch:
        """The batch of one, which is made first."""
        return self._batches[1]

    @property
    def chosen(self) -> Batch:
        """The batch whose right-hand sides are solved together, or were."""
        return self._batches[self._chosen]

    def choose(self, width: int) -> None:
        """Take the batch of so many, which has been added."""
        self._chosen = width

    def add(self, batch: Batch) -> None:
        """Have a batch beside those that are there."""
        self._batches[batch.width] = batch

    def clear(self) -> None:
        """Have none."""
        self._batches, self._chosen = {}, 1

    def narrow(self) -> bool:
        """Have the batch of one alone; whether there was another one."""
        wide = len(self._batches) > 1
        if wide:
            self._batches, self._chosen = {1: self._batches[1]}, 1
        return wide

    def lay_out(self, layout: PerChunk, spec: SolveSpec) -> None:
        """Bring all b and x to the layout of another matrix."""
        self._batches = {width: batch.laid_out(layout, spec) for width, batch in self._batches.items()}
