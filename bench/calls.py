"""Costs of a solve through Dask beside its iterations: milliseconds with and without, and those of each message.

    python bench/calls.py --workers 2
    python bench/calls.py --device cpu --grid 8 8 8 --M jacobi --rtol 0.9 --times 50

The 7-point Laplacian; b is an array on its owners, as `bench/poisson.py` makes it, then one of NumPy or CuPy in this
process. Times are the best and the median of solves with one `Solver`, in one process and through Dask in turns. A
request is answered by the scheduler or a worker: a message to a rank is one, or one for all ranks where it goes by way
of the scheduler. "nothing" is a message that does nothing on each worker, by way of the scheduler, and straight.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import poisson
from distributed import core
from distributed.protocol.pickle import dumps

import dsolver
from dsolver import problems
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.cluster.runtime import connect
from dsolver.engines.dask.health import ping
from dsolver.engines.spmd.calls import RankCalls


def ms(call: Callable[[], Any]) -> float:
    """Milliseconds of a call."""
    began = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - began)


def median_ms(call: Callable[[], Any], times: int) -> float:
    """Milliseconds of a call."""
    return statistics.median(ms(call) for _ in range(times))


def told(found: list[float]) -> str:
    """The best and the median."""
    return f"{min(found):.2f} / {statistics.median(found):.2f} ms"


class Counted:
    """Takes down how long each message of a job takes, and counts requests of this process by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.requests: Counter[str] = Counter()
        self._each, self._send = RankCalls.each, core.send_recv

    def __enter__(self) -> Self:
        counted = self

        def each(calls: RankCalls, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return counted._each(calls, function, *args, **named)
            finally:
                counted.seconds.setdefault(function.__name__, []).append(time.perf_counter() - began)

        async def send(comm: Any, *args: Any, **named: Any) -> Any:
            counted.requests[str(named.get("op"))] += 1
            return await counted._send(comm, *args, **named)

        RankCalls.each = each  # type: ignore[method-assign]
        core.send_recv = send
        return self

    def __exit__(self, *_: object) -> None:
        RankCalls.each = self._each  # type: ignore[method-assign]
        core.send_recv = self._send


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
    parser.add_argument("--M", default="auto")
    parser.add_argument("--rtol", type=float, default=1e-8)
    options = parser.parse_args()
    with open_client(ClusterOptions(workers=options.workers, device=options.device)) as client:
        site, alone = (poisson.Site(runtime=connect(c, device=options.device)) for c in (client, None))
        for grid in map(tuple, options.grid or [(64, 64, 64), (256, 256, 256)]):
            print(f"{'x'.join(map(str, grid))}, {options.workers} workers, {options.device}", flush=True)
            here = alone.array(grid, poisson.random_block)
            problem, how = problems.poisson7(grid), {"device": options.device, "M": options.M}
            with dsolver.Solver(problem, **how) as one, dsolver.Solver(problem, client=client, **how) as far:
                for name, b in (
                    ("on its owners", site.array(grid, poisson.random_block, options.M)),
                    ("in this process", here),
                ):
                    alike = [partial(solver.solve, rhs, rtol=options.rtol) for solver, rhs in ((one, here), (far, b))]
                    for call in 3 * alike:
                        call()
                    took: tuple[list[float], list[float]] = ([], [])
                    with Counted() as counted:
                        for _ in range(options.times):
                            for found, call in zip(took, alike, strict=True):
                                found.append(ms(call))
                    messages = sum(map(len, counted.seconds.values())) / options.times
                    each = (
                        f"{what} {1e3 * statistics.median(found):.2f} ms" for what, found in counted.seconds.items()
                    )
                    asked = (f"{count / options.times:g} {what}" for what, count in counted.requests.items())
                    print(
                        f"  b {name}: {told(took[0])} in one process and {told(took[1])} through Dask, with "
                        f"{messages:g} messages: {', '.join(each)}; requests: {', '.join(asked)}",
                        flush=True,
                    )
        through, straight = of_nothing(client, site.runtime.workers, 10 * options.times)
        print(f"nothing: {through:.2f} ms, straight to the workers {straight:.2f} ms")


if __name__ == "__main__":
    main()
