"""Brings what listens to solves to a cluster's scheduler, also to one that this project did not start."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

_ATTACHED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


class Listener(Protocol):
    """A `SchedulerPlugin` that is made without arguments, and of which the first that any client brings stays."""

    name: str
    idempotent: bool

    def __init__(self) -> None: ...


def attach(client: Client, listener: type[Listener]) -> bool:
    """See to it that the client's cluster has the listener. Returns whether it has.

    A scheduler without this package goes without: a solve does not depend on it.
    """
    attached = _ATTACHED.setdefault(client, set())
    if listener.name in attached:
        return True
    try:
        plugin: Any = listener()
        client.register_plugin(plugin, name=listener.name)
    except Exception as error:  # whatever the scheduler makes of a class that it cannot import
        logger.info("the cluster goes without %s: %r", listener.name, error)
        return False
    attached.add(listener.name)
    return True
