"""Who holds the GPUs of a cluster: two jobs cannot share one, and whoever waits for the own thread waits for ever."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from dsolver.errors import ClusterError
from dsolver.runtime import Runtime

_CLAIMS: WeakKeyDictionary[object, tuple[int, frozenset[str]]] = WeakKeyDictionary()
"""Of each holder: the thread that opened it, and its workers."""


def claim(holder: object, runtime: Runtime) -> None:
    """Note that somebody holds the GPUs of a runtime, if it has such of a cluster, from now until `release`.

    Raises:
        ClusterError: this thread has left open another holder of one of them.
    """
    if runtime.client is None or runtime.engine != "resident" or runtime.device != "cuda":
        return
    mine = threading.get_ident(), frozenset(runtime.workers)
    for other, (thread, workers) in list(_CLAIMS.items()):
        if thread == mine[0] and workers & mine[1]:
            raise ClusterError(
                f"{other} holds the GPUs of this cluster and was opened by this thread, which would wait for ever: "
                f"close it first, or use it for this solve too"
            )
    _CLAIMS[holder] = mine


def release(holder: object) -> None:
    """End a claim, if there is one."""
    _CLAIMS.pop(holder, None)
