"""Claims on a cluster's GPUs: one program at a time, so a thread that opens a second would wait for itself for ever."""

import threading
from weakref import WeakKeyDictionary

from dsolver.cluster.runtime import Runtime
from dsolver.errors import ClusterError

_CLAIMS: WeakKeyDictionary[object, tuple[int, frozenset[str]]] = WeakKeyDictionary()
"""The thread that opened each holder, and the holder's workers."""


def claim(holder: object, runtime: Runtime) -> None:
    """Note that a holder has a cluster's GPUs until `release`. ClusterError: another of this thread has one of them."""
    if runtime.engine != "resident" or runtime.device != "cuda":
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
    """End the claim of a holder, if there is one."""
    _CLAIMS.pop(holder, None)
