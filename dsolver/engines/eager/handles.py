"""Handles of engines that keep their chunks' data in this process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, final

from dsolver.engines.base import Field, Halo, PartialSums, PerChunk, Scalar
from dsolver.engines.transport.base import Channel
from dsolver.kernels.formats.layout import HaloLayout


@final
class EagerPerChunk(PerChunk):
    """Objects built for each owned chunk, or parts of them; level is their multigrid level, if they have one."""

    def __init__(self, items: dict[int, Any], level: int | None = None) -> None:
        self.items = items
        self.level = level

    def at(self, *path: str | int) -> Self:
        level = path[0] if self.level is None and path and isinstance(path[0], int) else self.level
        return EagerPerChunk({number: part_of(item, path) for number, item in self.items.items()}, level)


class Pending:
    """Items that an operation after an exchange may still change: using them waits for its halo."""

    def __init__(self, items: dict[int, Any]) -> None:
        self._items = items
        self.halo: EagerHalo | None = None

    @property
    def items(self) -> dict[int, Any]:
        """The items, waited for."""
        if self.halo is not None:
            self.wait()
        return self._items

    def wait(self) -> None:
        """Wait until no operation changes the items any more."""
        if self.halo is not None:
            halo, self.halo = self.halo, None
            halo.wait()


@final
class EagerField(Pending, Field):
    """A vector for each owned chunk."""

    def __init__(self, items: dict[int, Any], level: int | None = None) -> None:
        super().__init__(items)
        self.level = level


@final
class EagerHalo(Halo):
    """Halo vectors of the owned chunks, and the channel that fills them."""

    def __init__(self, plans: dict[int, HaloLayout], channel: Channel, level: int | None = None) -> None:
        self.plans = plans
        self.channel = channel
        self.level = level
        self.finish: Callable[[], None] | None = None
        self.after: list[Callable[[], None]] = []
        """Operations to run once the halo is waited for, where the transport cannot run them by itself."""

    @property
    def vectors(self) -> dict[int, Any]:
        """The halo vectors, full after `wait`."""
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
            works, self.after = self.after, []
            finish()
            for work in works:
                work()


@final
class EagerPartialSums(Pending, PartialSums):
    """Own parts at their chunks' places, zero elsewhere, and room for the parts of all ranks."""

    def __init__(self, own: Any, gathered: Any, places: Mapping[int, int]) -> None:
        super().__init__({number: own[..., place : place + 1] for number, place in places.items()})
        self.own, self.gathered = own, gathered


@final
class EagerScalar(Scalar):
    """A float64 (1,) array on the device."""

    def __init__(self, value: Any) -> None:
        self.value = value


def part_of(item: Any, path: Sequence[str | int]) -> Any:
    """The part of an item that attributes (str) and indices (int) lead to."""
    for name in path:
        item = getattr(item, name) if isinstance(name, str) else item[name]
    return item


OF_CHUNKS: Final = frozenset((EagerPerChunk, EagerField, EagerHalo, EagerPartialSums))


def items_of(operand: Any) -> Any:
    """An `Operand` as kernels see it: an array or object for each chunk, or one value for all.

    It is asked for every operand of every operation. The classes are final, so the type alone tells: 0.1 us in place of
    0.3 to 0.7 us for asking one abstract class after the other.
    """
    kind = type(operand)
    if kind in OF_CHUNKS:
        return operand.items
    return operand.value if kind is EagerScalar else operand


def item_of(operand: Any, number: int) -> Any:
    """`items_of` for one chunk."""
    kind = type(operand)
    if kind in OF_CHUNKS:
        return operand.items[number]
    return operand.value if kind is EagerScalar else operand
