"""All-gather of small vectors: every owner gets those of all chunks, and what it makes of them goes to every chunk."""

from collections.abc import Callable
from functools import partial
from typing import Any

from dsolver.distributed.halo import gather_layout, gather_senders
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import HaloLayout


class AllGather:
    """All-gather of a vector of each chunk.

    What is made of the vectors is made in the order of the chunks, so it is the same on every owner, however many there
    are.

    `size`: items of every chunk's vector, at least one; or a vector of as many numbers on every chunk.
    """

    def __init__(self, engine: Engine, size: int | Field) -> None:
        self._engine, self._alone = engine, engine.alone((1, 1, 1))
        chunks, hosts = len(engine.partition), tuple(engine.hosts)
        self._sizes: PerChunk | Field = (
            engine.per_chunk(partial(_equal_sizes, size=size, chunks=chunks)) if isinstance(size, int) else size
        )
        plan = engine.per_chunk(partial(_plan, hosts=hosts), self._sizes)
        self._halo = engine.halo(plan, gather_senders(hosts, chunks))

    def combine(self, make: Callable[..., Any], values: PerChunk, *more: PerChunk) -> PerChunk:
        """Objects made by make(xp, vectors of all chunks, *more) on every owner; more: what owners have made before."""
        own = self._engine.field_of(values)
        self._engine.exchange(own, self._halo)
        return self._alone.per_chunk(partial(_combined, make=make), self._sizes, own, self._halo, *more)

    def broadcast(self, made: PerChunk) -> Field:
        """A vector that owners have made, as every chunk reads it."""
        return self._engine.shared(self._alone.field_of(made))

    def read(self, made: PerChunk, count: int) -> tuple[float, ...]:
        """The first numbers that owners have made, each an array (1,) of a tuple."""
        return self._alone.global_sums(*(made.at(place) for place in range(count)))


def _equal_sizes(backend: Backend, _: int, *, size: int, chunks: int) -> Any:
    """float64 (chunks,): the same number of items for every chunk."""
    return backend.xp.full(chunks, float(size))


def _plan(backend: Backend, number: int, sizes: Any, *, hosts: tuple[int, ...]) -> HaloLayout:
    """The plan of a chunk; hosts: the chunks that receive; sizes: float64 (chunks,), items of each chunk's vector."""
    return gather_layout(backend, number, hosts=hosts, sizes=[int(size) for size in backend.to_host(sizes)])


def _combined(
    backend: Backend, host: int, sizes: Any, own: Any, halo: Any, *more: Any, make: Callable[..., Any]
) -> Any:
    parts, first = [], backend.guard
    for number, size in enumerate(backend.to_host(sizes)):
        parts.append(own if number == host else halo[first : first + int(size)])
        first += 0 if number == host else int(size)
    return make(backend.xp, parts, *more)
