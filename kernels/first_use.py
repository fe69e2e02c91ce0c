"""Words on kernels that are compiled for the first time: one process of a machine says them, and none twice."""

import fcntl
import logging
import os
import platform
import sys
import time
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

SILENCE: Final = 1.0  # seconds without a word that users do not take for a fault
STALE: Final = 5.0  # seconds after which a process that was speaking has ended
MARK: Final = "speaks"
"""File in a cache that names the process which speaks; its time tells when one was compiling last."""


class Words:
    """Words of this process on what it compiles.

    Where stderr is a terminal they come less and less often, with how many are done if that is news, and a last one
    with all of them. Elsewhere there is a single one.

    `cache`: a folder of kernels that processes share, of which one speaks; empty for none.
    """

    def __init__(self, what: str, cache: str) -> None:
        self._what = what
        self._mark = Path(cache) / MARK if cache else None
        self._name = f"{platform.node()} {os.getpid()}"
        self._began: float | None = None
        self._ever, self._told, self._before = False, -1, 0
        self._due, self._pause = 0.0, SILENCE

    def look(self, done: int) -> None:
        """Say that kernels are compiled, of which so many are done, if it is time for a word."""
        now = time.monotonic()
        if not self._mine() or (self._ever and not _read_along()) or now < self._due or done == self._told:
            return
        if self._began is None:
            self._began, self._before, self._pause = now - SILENCE, done, SILENCE
        count = f", {done} by now" if done > self._before else ""
        logger.warning("compiling kernels for %s (first use only)%s ...", self._what, count)
        self._ever, self._told, self._pause = True, done, 2.0 * self._pause
        self._due = now + self._pause

    def end(self, done: int) -> None:
        """Say how many it were, where something was said of them."""
        if self._began is not None and done > self._before and _read_along():
            seconds = time.monotonic() - self._began
            logger.warning("compiled %d kernels for %s in %.0f s", done - self._before, self._what, seconds)
        self._began, self._told, self._due = None, -1, 0.0

    def _mine(self) -> bool:
        """Whether it is for this process to speak: another one that shares the cache may be doing so."""
        if self._mark is None:
            return True
        try:
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            with self._mark.open("a+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                speaker = file.read()
                if speaker != self._name and (not speaker or time.time() - os.fstat(file.fileno()).st_mtime > STALE):
                    file.truncate(0)
                    file.write(speaker := self._name)
            os.utime(self._mark)
        except OSError:  # nothing can be written there
            return True
        return speaker == self._name


def _read_along() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()
