"""What every chunk knows a part of, brought together for all: small vectors, seldom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.grids import others_of, to_hosts
from dsolver.kernels import Backend
from dsolver.kernels.contract import COPY
from dsolver.kernels.layout import HaloLayout


@final
@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The same number of items for every chunk."""

    size: int
    chunks: int

    def __call__(self, backend: Backend, _: int) -> Any:
        """float64 (chunks,)."""
        return backend.xp.full(self.chunks, float(self.size))


@final
@dataclass(frozen=True, kw_only=True)
class MakePlan:
    """Makes the plan by which each owner gets the vectors of all chunks.

    Attributes:
        hosts: the chunks that receive.
    """

    hosts: tuple[int, ...]

    def __call__(self, backend: Backend, number: int, sizes: Any) -> HaloLayout:
        """The plan of a chunk; sizes: float64 (chunks,), items of each chunk's vector."""
        lengths = [int(size) for size in backend.to_host(sizes)]
        plan = to_hosts(backend, number, self.hosts, lengths)
        backend.synchronize()  # kernels read plans before they wait for earlier launches
        return plan


@final
@dataclass(frozen=True, kw_only=True)
class Together:
    """Calls make(xp, parts, *more) with the vectors of all chunks, in the order of their numbers."""

    make: Callable[..., Any]

    def __call__(self, backend: Backend, host: int, sizes: Any, own: Any, halo: Any, *more: Any) -> Any:
        """What is made of them, on an owner."""
        parts, first = [], backend.guard
        for number, size in enumerate(backend.to_host(sizes)):
            parts.append(own if number == host else halo[first : first + int(size)])
            first += 0 if number == host else int(size)
        return self.make(backend.xp, parts, *more)


@final
class Everywhere:
    """Brings a vector of each chunk to every owner, and what is made of them back to every chunk.

    All that comes of it is made from the vectors in the order of the chunks, so it is the same on every owner, however
    many there are.

    Args:
        engine: of the chunks.
        size: items of every chunk's vector, at least one; or a vector of as many numbers on every chunk.
    """

    def __init__(self, engine: Engine, size: int | Field) -> None:
        self._engine, self._alone = engine, engine.alone((1, 1, 1))
        chunks, hosts = range(len(engine.partition)), tuple(engine.hosts)
        self._sizes: PerChunk | Field = (
            engine.per_chunk(Sizes(size=size, chunks=len(chunks))) if isinstance(size, int) else size
        )
        plan = engine.per_chunk(MakePlan(hosts=hosts), self._sizes)
        self._halo = engine.halo(plan, [others_of(number, hosts, len(chunks)) for number in chunks])

    def made(self, make: Callable[..., Any], values: PerChunk, *more: PerChunk) -> PerChunk:
        """make(xp, vectors of all chunks, *more) on every owner: what `shared` and `read` take, and `more`."""
        own = field_of(self._engine, values)
        self._engine.exchange(own, self._halo)
        return self._alone.per_chunk(Together(make=make), self._sizes, own, self._halo, *more)

    def shared(self, made: PerChunk) -> Field:
        """A vector that owners have made, as every chunk reads it."""
        return self._engine.shared(field_of(self._alone, made))

    def read(self, made: PerChunk, count: int) -> tuple[float, ...]:
        """So many numbers that owners have made, each an array (1,) of a tuple."""
        return self._alone.totals(*(made.at(place) for place in range(count)))


def field_of(engine: Engine, values: PerChunk) -> Field:
    """Arrays as a distributed vector."""
    field = engine.field(values)
    engine.run(COPY, values, field)
    return field
