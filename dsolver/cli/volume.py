"""The log of this package, as a command shows it on stderr."""

from __future__ import annotations

import logging
from typing import Final

from dsolver.errors import InputError


def set_volume(*, quiet: bool, verbose: bool) -> None:
    """Show this package's log on stderr: everything, warnings, or errors alone. InputError: both were asked for."""
    if quiet and verbose:
        raise InputError("--quiet and --verbose exclude each other")
    handler = logging.StreamHandler()  # to stderr
    handler.setFormatter(_LogLines("%(levelname)s %(message)s"))
    ours = logging.getLogger("dsolver")
    ours.handlers = [handler]
    ours.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
    for name in ("asyncio", "distributed.batched"):
        logging.getLogger(name).addFilter(worth_telling)


class _LogLines(logging.Formatter):
    """Lines of the log. That kernels are compiled is a warning only so that Python shows it by itself."""

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage() if record.name.endswith(".first_use") else super().format(record)


CUT_OFF: Final = ("Task exception was never retrieved", "Batched Comm Closed")
"""Beginnings of what Dask logs of calls and of messages that a lost connection has cut off."""


def worth_telling(record: logging.LogRecord) -> bool:
    """False for what a lost connection has cut off: the command itself says that the cluster is gone."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, OSError) and record.getMessage().startswith(CUT_OFF))
