"""Exchanges and sums between ranks: `sockets` on CPUs; `peer`, writing into each other's memory, or `nccl` on GPUs.

`base` is the interface, `segments` says which items go to which rank, `connections` carries frames of bytes and errors
for all three. Nothing here knows of engines or programs.
"""
