"""Asks every worker of a cluster the same question, and bears with those that do not answer, or die meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from distributed import Client

SECONDS: Final = 15.0
"""How long a worker may take. Its event loop answers whatever its tasks and ranks compute."""


def ask(
    client: Client, question: Callable[[], Any], workers: Iterable[str], seconds: float = SECONDS
) -> tuple[dict[str, Any], list[str]]:
    """What each worker answers, by address, and the workers that did not answer in time, or were lost meanwhile.

    Raises:
        Exception: what the question raised on a worker, or what the connection to the scheduler did.
    """
    answers, silent = client.sync(asked, client, question, tuple(workers), seconds)
    return answers, silent


async def asked(
    client: Client, question: Callable[[], Any], workers: tuple[str, ...], seconds: float
) -> tuple[dict[str, Any], list[str]]:
    """`ask`, in the client's event loop."""
    calls = {worker: asyncio.ensure_future(_one(client, question, worker)) for worker in workers}
    if not calls:
        return {}, []
    await asyncio.wait(calls.values(), timeout=seconds)
    for call in calls.values():
        call.cancel()  # does nothing to those that are done
    answers = {worker: call.result() for worker, call in calls.items() if call.done() and not call.cancelled()}
    for answer in answers.values():
        if isinstance(answer, _Problem):
            raise answer.error
    heard = {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}
    return heard, [worker for worker in workers if worker not in heard]


@dataclass(frozen=True)
class _Problem:
    """What was raised. A call that nobody waits for any more, after Ctrl-C, must not complain when the cluster ends."""

    error: Exception


async def _one(client: Client, question: Callable[[], Any], worker: str) -> Any:
    try:
        answer = (await client.run(question, workers=[worker], on_error="return"))[worker]
    except Exception as error:  # of the connection to the scheduler
        return _Problem(error)
    lost = isinstance(answer, OSError)  # of the scheduler's connection to the worker
    return _Problem(answer) if isinstance(answer, Exception) and not lost else answer
