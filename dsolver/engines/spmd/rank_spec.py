"""Specification of a program's ranks, and of their failures."""

from dataclasses import dataclass
from typing import Final

from dsolver.errors import DsolverError
from dsolver.grid.partition import Partition

HOST_GPUS: Final = 16  # GPUs that a host has at most


@dataclass(frozen=True, kw_only=True)
class RankSpec:
    """Specification of a program that every rank knows."""

    program: str
    lease: str  # a key of the cluster that exists as long as the client wants the program
    partition: Partition
    ranks: tuple[int, ...]  # the rank that owns each chunk
    kernels: str
    token: bytes  # the secret with which ranks recognize each other
    timeout: float  # seconds of silence after which a rank that is waited for counts as lost

    @property
    def size(self) -> int:
        """Number of ranks."""
        return max(self.ranks) + 1

    @property
    def hosts(self) -> list[int]:
        """The first chunk of each rank."""
        first = {rank: number for number, rank in reversed(list(enumerate(self.ranks)))}
        return [first[rank] for rank in range(self.size)]

    @property
    def meshed(self) -> bool:
        """Whether each rank is connected with every other one: CPUs exchange halos so, GPUs of a host addresses.

        Of more GPUs than a host has, connections carry the reason of a failure and nothing else, from rank to rank.
        """
        return self.kernels != "cuda" or self.size <= HOST_GPUS

    @property
    def exclusive(self) -> bool:
        """Whether a worker can have one such rank at a time: two communicators on one GPU can block each other."""
        return self.kernels == "cuda"

    def owned(self, rank: int) -> tuple[int, ...]:
        """The chunks of a rank."""
        return tuple(number for number, owner in enumerate(self.ranks) if owner == rank)


@dataclass(frozen=True, kw_only=True)
class Busy:
    """No rank was made, for the worker has one of another program, and only one is possible at a time."""

    program: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a rank could not do what it was asked to."""

    error: DsolverError  # what the client should raise
    secondary: bool = False  # an effect: of another rank's failure, of an order to stop, or of a worker's loss
