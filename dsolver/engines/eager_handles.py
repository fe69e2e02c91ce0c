"""Handles of engines that keep their chunks' data in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from dsolver.engines.base import Field, Halo, Operand, Parts, PerChunk, Scalar
from dsolver.engines.transport import Channel
from dsolver.kernels.layout import HaloLayout


@final
class EagerPerChunk(PerChunk):
    """What was built for each owned chunk; level is the multigrid level: what is built is a sequence of levels."""

    def __init__(self, items: dict[int, Any], level: int | None = None) -> None:
        self.items = items
        self.level = level

    def at(self, *path: str | int) -> EagerPerChunk:
        level = path[0] if self.level is None and path and isinstance(path[0], int) else self.level
        return EagerPerChunk({number: follow(item, path) for number, item in self.items.items()}, level)


class Awaiting:
    """Items that an operation behind an exchange may still change: whoever uses them waits for its halo."""

    def __init__(self, items: dict[int, Any]) -> None:
        self._items = items
        self.halo: EagerHalo | None = None

    @property
    def items(self) -> dict[int, Any]:
        """The items, waited for."""
        self.wait()
        return self._items

    def wait(self) -> None:
        """Wait until no operation changes the items any more."""
        if self.halo is not None:
            halo, self.halo = self.halo, None
            halo.wait()


@final
class EagerField(Awaiting, Field):
    """A vector for each owned chunk."""

    def __init__(self, items: dict[int, Any], level: int | None = None) -> None:
        super().__init__(items)
        self.level = level


@final
class EagerHalo(Halo):
    """Halo vectors of the owned chunks and what fills them."""

    def __init__(self, plans: dict[int, HaloLayout], channel: Channel, level: int | None = None) -> None:
        self.plans = plans
        self.channel = channel
        self.level = level
        self.finish: Callable[[], None] | None = None
        self.behind: list[Callable[[], None]] = []
        """What is to be run once it has come, where that has to wait until somebody waits for it."""

    @property
    def vectors(self) -> dict[int, Any]:
        """The halo vectors; `wait` tells when they are full."""
        return self.channel.vectors

    @property
    def items(self) -> dict[int, Any]:
        """The halo vectors, waited for."""
        self.wait()
        return self.vectors

    def wait(self) -> None:
        """Wait until the vectors are full."""
        if self.finish is not None:
            finish, self.finish = self.finish, None
            works, self.behind = self.behind, []
            finish()
            for work in works:
                work()


@final
class EagerParts(Awaiting, Parts):
    """Own parts at their chunks' places, zero elsewhere, and everyone's parts."""

    def __init__(self, own: Any, everyone: Any, places: Mapping[int, int]) -> None:
        super().__init__({number: own[..., place : place + 1] for number, place in places.items()})
        self.own, self.everyone = own, everyone


@final
class EagerScalar(Scalar):
    """A float64 (1,) array on the device."""

    def __init__(self, value: Any) -> None:
        self.value = value


def follow(item: Any, path: Sequence[str | int]) -> Any:
    """The part of an item that attributes (str) and indices (int) lead to."""
    for name in path:
        item = getattr(item, name) if isinstance(name, str) else item[name]
    return item


def items_of(operand: Operand) -> Any:
    """What a kernel sees of an operand: an array or object for each chunk, or one value for all."""
    if isinstance(operand, EagerPerChunk | EagerField | EagerHalo | EagerParts):
        return operand.items
    return operand.value if isinstance(operand, EagerScalar) else operand
