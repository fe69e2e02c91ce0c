"""Time of an exchange and of a sum between GPUs: latency and bandwidth, inside a host and between hosts.

Constants were fitted on two NVIDIA H200s of one host; `docs/decisions/scaling-model.md` has the source of each one and
what it is held against. `NETWORK` is no measurement: it is what vendors state of one 400 Gb/s port a GPU.
"""

import math
from dataclasses import dataclass
from typing import Final

HOP: Final = 2.3e-6  # seconds of a message of a few bytes, from kernel to kernel over NVLink


@dataclass(frozen=True, kw_only=True)
class GpuLink:
    """A connection that carries values between GPUs."""

    latency: float  # seconds of an exchange of a few bytes between two GPUs
    bandwidth: float  # bytes per second of each GPU
    boundary: float = 0.0  # seconds for the kernel that multiplies what has arrived, which has to be started late
    launch: float = 0.0
    # whether the latency grows with the GPUs of a host that exchange at the same time, as log2 of them.
    crowded: bool = False
    start: float = 0.0  # seconds until ranks are connected, where their links do not rest on the workers

    def exchange(self, size: float, gpus: int = 2) -> float:
        """Seconds until this many bytes have come from the neighbors, with so many GPUs in a host."""
        return self.latency * (math.log2(max(2, gpus)) if self.crowded else 1.0) + size / self.bandwidth

    def sum(self, gpus: int) -> float:
        """Seconds of a sum of one number over the GPUs of a host."""
        return self.launch + HOP * math.log2(gpus)


PEERS: Final = GpuLink(latency=2.4e-6, bandwidth=175e9, boundary=3.4e-6)
"""GPUs that write into each other's memory, as those of one host do."""
NCCL: Final = GpuLink(latency=12.6e-6, bandwidth=175e9, boundary=6.1e-6, launch=8.4e-6, crowded=True, start=0.65)
"""NCCL inside one host, in an iteration."""
NETWORK: Final = GpuLink(latency=10e-6, bandwidth=45e9)
"""Between hosts: what is added to NCCL's latency, and the bytes of each GPU. Assumed, not measured."""


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The GPUs of a cluster and what joins them."""

    per_host: int
    network: GpuLink = NETWORK
    # inside a host, where there are several hosts; of one host alone GPUs write into each other's memory.
    within: GpuLink = NCCL

    def link(self, gpus: int) -> GpuLink:
        """The link by which so many GPUs work together."""
        return PEERS if gpus <= self.per_host else self.within

    def exchange(self, size: float, gpus: int) -> float:
        """Seconds of an exchange of this many bytes with neighbors, the kernel on what has come included.

        Of several hosts the slowest GPU counts, all of whose neighbors are on others.
        """
        link = self.link(gpus)
        seconds = link.boundary + link.exchange(size, min(gpus, self.per_host))
        return seconds + (self.network.exchange(size) if gpus > self.per_host else 0.0)

    def sum(self, gpus: int) -> float:
        """Seconds of a sum of one number over all GPUs: a tree in each host, and one over the hosts."""
        hosts = -(-gpus // self.per_host)
        return self.link(gpus).sum(min(gpus, self.per_host)) + self.network.latency * math.ceil(math.log2(hosts))

    def gather(self, size: float, gpus: int) -> float:
        """Seconds until each GPU has what all others have, of this many bytes together, from each a message."""
        return self.exchange(size, gpus) + HOP * max(0, gpus - 2)
