"""Costs of a solve through Dask beside its iterations: milliseconds with and without, and those of each message.

    python bench/calls.py --workers 2
    python bench/calls.py --device cpu --grid 16 16 16

The 7-point Laplacian to 1e-8; b is an array on its owners, as `bench/poisson.py` makes it. Each number is a median of
solves with one `Solver`. A message goes to every rank and is answered by each; "nothing" is one that does nothing
there, by way of the scheduler as all are, and straight to the workers for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import poisson
from distributed.protocol.pickle import dumps

import dsolver
from dsolver import problems
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.cluster.runtime import connect
from dsolver.engines.dask.health import ping
from dsolver.engines.spmd.client import SpmdProgram


def median_ms(call: Callable[[], Any], times: int) -> float:
    """Milliseconds of a call."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(1e3 * (time.perf_counter() - began))
    return statistics.median(found)


class Counted:
    """Takes down how long each message of a job takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self._each = SpmdProgram._each

    def __enter__(self) -> Self:
        counted = self

        def each(job: SpmdProgram[Any], function: Callable[..., Any], *args: Any) -> Any:
            began = time.perf_counter()
            try:
                return counted._each(job, function, *args)
            finally:
                counted.seconds.setdefault(function.__name__, []).append(time.perf_counter() - began)

        SpmdProgram._each = each  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        SpmdProgram._each = self._each  # type: ignore[method-assign]


def of_nothing(client: Any, workers: tuple[str, ...], times: int) -> tuple[float, float]:
    """Milliseconds of a message to each worker, through the scheduler and straight."""

    async def through() -> None:
        await asyncio.gather(*(client.run(ping, workers=[worker]) for worker in workers))

    async def one(worker: str) -> None:
        await client.rpc(worker).run(function=dumps(ping), args=dumps(()), kwargs=dumps({}), wait=True)

    async def straight() -> None:
        await asyncio.gather(*map(one, workers))

    return median_ms(lambda: client.sync(through), times), median_ms(lambda: client.sync(straight), times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, nargs=3, action="append", help="may be given several times")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--times", type=int, default=20, help="solves")
    options = parser.parse_args()
    with open_client(ClusterOptions(workers=options.workers, device=options.device)) as client:
        site, alone = (poisson.Site(runtime=connect(c, device=options.device)) for c in (client, None))
        for grid in map(tuple, options.grid or [(64, 64, 64), (256, 256, 256)]):
            took = []
            for there in (alone, site):
                b = there.array(grid, poisson.random_block)
                with (
                    dsolver.Solver(
                        problems.poisson7(grid), client=there.runtime.client, device=options.device
                    ) as solver,
                    Counted() as counted,
                ):
                    solver.solve(b)
                    counted.seconds.clear()
                    took.append(median_ms(partial(solver.solve, b), options.times))
            messages = sum(map(len, counted.seconds.values())) / options.times
            print(
                f"{'x'.join(map(str, grid))}, {options.workers} workers, {options.device}: a solve takes "
                f"{took[0]:.2f} ms in one process and {took[1]:.2f} ms through Dask, with {messages:g} messages: "
                + ", ".join(f"{name} {1e3 * statistics.median(s):.2f} ms" for name, s in counted.seconds.items()),
                flush=True,
            )
        through, straight = of_nothing(client, site.runtime.workers, 10 * options.times)
        print(f"nothing: {through:.2f} ms, straight to the workers {straight:.2f} ms")


if __name__ == "__main__":
    main()
