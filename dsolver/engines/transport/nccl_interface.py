"""The network interface that NCCL uses between hosts: the one on which Dask's workers reach each other."""

import ipaddress
import os
from typing import Final

import psutil

VARIABLE: Final = "NCCL_SOCKET_IFNAME"


def point_nccl_at(address: str) -> None:
    """Let NCCL use the interface that has this worker's address, unless the environment names one already.

    A host with several networks has several interfaces, and NCCL would take the first that it finds on each host, which
    need not be the same network. NCCL reads the variable once, when a process first uses it. Workers on a loopback
    address are all on one host, where NCCL needs no help.
    """
    if VARIABLE in os.environ or ipaddress.ip_address(address).is_loopback:
        return
    name = interface_of(address)
    if name is not None:
        os.environ[VARIABLE] = f"={name}"  # "=": this name, not every one that begins so


def interface_of(address: str) -> str | None:
    """The interface that has an IP address; None if none has."""
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address.partition("%")[0] == address for entry in entries):
            return str(name)
    return None
