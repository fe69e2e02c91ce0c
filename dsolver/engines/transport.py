"""How ranks reach each other: halo values and partial sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, final

from dsolver.kernels.layout import HaloLayout


class Transport(ABC):
    """What one rank needs of the others. Every rank makes the same calls in the same order."""

    @abstractmethod
    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
        """Start to send the packed buffers of the owned chunks and to fill their halo vectors.

        Returns:
            What waits until the halo vectors are full. Until it has run, neither they nor the buffers may be touched.
        """

    @abstractmethod
    def gather(self, parts: Any) -> None:
        """Fill in the other ranks' chunks in an array with one item for each chunk."""

    def close(self) -> None:  # noqa: B027  # a transport without connections has nothing to close
        """End all connections."""


@final
class Alone(Transport):
    """One rank that owns every chunk."""

    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
        deliver(plans, buffers, halos)
        return lambda: None

    def gather(self, parts: Any) -> None:
        """Nothing is missing."""


def deliver(plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]) -> None:
    """Copy between chunks of the same rank: from each packed buffer to the neighbors' halo vectors."""
    for number, plan in plans.items():
        for neighbor, first, last in plan.sends:
            if neighbor in plans:
                to, end = _slots(plans[neighbor], number)
                halos[neighbor][to:end] = buffers[number][first:last]


def _slots(plan: HaloLayout, sender: int) -> tuple[int, int]:
    """Which slots of a halo vector a sender fills."""
    return next((first, last) for number, first, last in plan.receives if number == sender)
