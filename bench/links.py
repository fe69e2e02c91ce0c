"""A message and its answer between two ranks on CPUs, in clear and in TLS: what encryption costs.

    python bench/links.py [--rounds 300]

Two processes of this machine; the quickest tenth of the rounds counts, for others use the machine too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import time
from multiprocessing.connection import Connection

import numpy as np
from distributed.security import Security

from dsolver.engines.transport.connections import Connections, sent
from dsolver.engines.transport.handshake import TOKEN_BYTES, Encryption

SIZES = (8, 4 << 10, 32 << 10, 128 << 10, 1 << 20)


def encryption_of(security: Security) -> Encryption:
    """As a worker with these certificates speaks."""
    calling, answering = security.get_connection_args("worker"), security.get_listen_args("worker")
    return Encryption(client=calling["ssl_context"], server=answering["ssl_context"])


def rank(number: int, security: Security | None, token: bytes, rounds: int, pipe: Connection) -> None:
    """Rank 0 asks and tells the seconds of a round, rank 1 answers."""
    connections = Connections(number, "127.0.0.1", 60.0, None if security is None else encryption_of(security))
    pipe.send(connections.address)
    began = time.perf_counter()
    connections.connect(pipe.recv(), token)
    found = {"connect": time.perf_counter() - began}
    for size in SIZES:
        data = memoryview(bytearray(size))
        seconds = []
        for _ in range(rounds):
            began = time.perf_counter()
            for turn in (0, 1):
                if turn == number:
                    sent([connections.send(1 - number, [data])])
                else:
                    connections.receive(1 - number, [data])
            seconds.append(time.perf_counter() - began)
        found[f"{size} bytes"] = float(np.mean(np.sort(seconds)[: max(1, rounds // 10)]))
    pipe.send(found)
    connections.close()


def measured(security: Security | None, rounds: int) -> dict[str, float]:
    """Seconds of rank 0."""
    start, token = multiprocessing.get_context("spawn"), secrets.token_bytes(TOKEN_BYTES)
    pipes = [start.Pipe() for _ in range(2)]
    processes = [start.Process(target=rank, args=(n, security, token, rounds, pipes[n][1])) for n in range(2)]
    for process in processes:
        process.start()
    addresses = [near.recv() for near, _ in pipes]
    for near, _ in pipes:
        near.send(addresses)
    found: dict[str, float] = pipes[0][0].recv()
    for process in processes:
        process.join()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=300)
    rounds = options.parse_args().rounds
    clear, tls = measured(None, rounds), measured(Security.temporary(), rounds)
    print(f"{'':>15s} {'clear':>10s} {'TLS':>10s}")
    for name in clear:
        print(f"{name:>15s} {clear[name] * 1e6:7.0f} µs {tls[name] * 1e6:7.0f} µs")


if __name__ == "__main__":
    main()
