"""Seconds of several GPUs by what takes them, and those of a call through Dask."""

from dataclasses import dataclass, fields
from typing import Final

CALL: Final = 2e-3  # seconds of a call of a few ranks through Dask
RANK_CALL: Final = 0.7e-3  # seconds that a process needs for each further one that it calls
FAN: Final = 16
"""Processes that one calls at most: `dsolver.engines.spmd.relay.FAN`, which cannot be imported without Dask."""


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """Seconds of an iteration, or of set-up, by what takes them.

    Attributes:
        halo: exchanges that nothing hides.
        sums: over all GPUs.
        small: levels that live whole on every GPU: their launches, and the exchange that brings them there.
        control: the part of the calls by which the client follows a solve.
    """

    work: float
    halo: float = 0.0
    sums: float = 0.0
    small: float = 0.0
    control: float

    @property
    def parts(self) -> dict[str, float]:
        """Seconds by what takes them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def total(self) -> float:
        """Seconds of all."""
        return sum(self.parts.values())

    @property
    def most(self) -> str:
        """The part that takes most beside a chunk's own work."""
        parts = {name: seconds for name, seconds in self.parts.items() if name != "work"}
        return max(parts, key=lambda name: parts[name])

    def to_dict(self) -> dict[str, float]:
        """As JSON has it."""
        return {"total": self.total, **self.parts}


def call_seconds(ranks: int) -> float:
    """Seconds of a call of all ranks through their tree, in which no rank iterates."""
    seconds = CALL
    while ranks:
        parts = min(FAN, ranks)
        seconds += RANK_CALL * (parts - 1)
        ranks = -(-ranks // parts) - 1  # those behind the first one of a part
    return seconds
