"""Brings blocks from workers to this process, and waits for no worker that is lost.

Dask itself would: a task that may run on its chunk's owner alone waits for ever once that owner is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final, final

from dsolver import rollcall
from dsolver.engines.pulse import DEAF, pulse
from dsolver.errors import ClusterError, WorkerLostError

if TYPE_CHECKING:
    from distributed import Client

LOOK: Final = 2.0
"""Seconds between looks whether the workers still answer."""


def fetched(client: Client | None, blocks: Mapping[int, Any], workers: Sequence[str]) -> Mapping[int, Any]:
    """Blocks by chunk number as arrays in this process, all at once.

    Args:
        client: of the cluster; None where there is none.
        blocks: arrays, or futures of arrays.
        workers: who may have them.

    Raises:
        ClusterError: a block is lost; `WorkerLostError` where one of the workers does not answer either.
    """
    if client is None or not any(hasattr(block, "key") for block in blocks.values()):
        return blocks
    try:
        found: Mapping[int, Any] = client.sync(_gathered, client, dict(blocks), tuple(workers))
    except (CancelledError, OSError) as error:
        why = str(error).partition("\n")[0]
        raise ClusterError(f"blocks were lost on their way from the workers: {type(error).__name__}: {why}") from error
    return found


async def _gathered(client: Client, blocks: dict[int, Any], workers: tuple[str, ...]) -> Mapping[int, Any]:
    gathering = asyncio.ensure_future(client.gather(blocks, asynchronous=True))
    try:
        while not (await asyncio.wait([gathering], timeout=LOOK))[0]:
            _, silent = await rollcall.asked(client, pulse, workers, DEAF)
            if silent and not gathering.done():
                raise WorkerLostError(f"worker {', '.join(silent)} was lost while blocks were fetched from it")
        found: Mapping[int, Any] = gathering.result()
    finally:
        gathering.cancel()
    return found


@final
class Fetched(Mapping[int, Any]):
    """Blocks by chunk number as arrays in this process, each brought here when it is asked for; see `fetched`."""

    def __init__(self, client: Client | None, blocks: Mapping[int, Any], workers: Sequence[str]) -> None:
        self._client, self._blocks, self._workers = client, blocks, workers

    def __getitem__(self, number: int) -> Any:
        return fetched(self._client, {number: self._blocks[number]}, self._workers)[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)
