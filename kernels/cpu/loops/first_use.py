"""Notices and help while kernels are compiled for the first time on a machine."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from numba.core import event

from dsolver.kernels.first_use import SILENCE, Words

OURS: Final = "dsolver."
KINDS: Final = {
    "dsolver.kernels.cpu.lattice.interpolation": "lattice",
    "dsolver.kernels.cpu.sell.assembly": "lattice",
    "dsolver.kernels.cpu.csr.look": "algebraic",
    "dsolver.kernels.cpu.amg.box_rows": "algebraic",
    "dsolver.kernels.cpu.amg.open_rows": "algebraic",
}
"""Kinds of solves, by modules of which the first loop that has to be compiled tells that such a solve has begun."""
MOST_HELPERS: Final = 3
"""Processes that compile beside this one; each takes the time of its imports, as long as two loops take."""


class FirstUse(event.Listener):
    """Hears of functions compiled as no cache has them, in the thread that waits; folder: of the cache, or ""."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._words = Words("this machine", folder)
        self._open = self._begun = self._done = 0
        self._asked: set[str] = set()
        self._speaks = self._collects = False
        self._helpers: list[subprocess.Popen[bytes]] = []

    def on_start(self, event: Any) -> None:
        """Start of a compilation, perhaps within another one."""
        module = _module(event)
        if not (self._open or module.startswith(OURS)):
            return
        self._begin()
        if self._open == 1 and gc.isenabled():  # numba makes many objects, and to look through them is a sixth of it
            self._collects = True
            gc.disable()
        kind = KINDS.get(module)
        if kind is not None and kind not in self._asked:
            self._asked.add(kind)
            self._begin_ahead(kind)

    def on_end(self, event: Any) -> None:
        """End of the compilation."""
        if not self._open:
            return
        self._open -= 1
        self._done += _module(event).startswith(OURS)
        if self._open == 0 and self._collects:
            self._collects = False
            gc.enable()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Context in which a function is waited for that another process compiles."""
        self._begin()
        try:
            yield
        finally:
            self._open -= 1
            self._done += 1

    def _begin(self) -> None:
        self._open += 1
        self._begun += 1
        if not self._speaks:
            self._speaks = True
            threading.Thread(target=self._speak, name="first-use", daemon=True).start()

    def _speak(self) -> None:
        """Look each second whether it is time for a word, until one is over without anything compiled."""
        before = 0
        while self._begun > before:
            before = self._begun - self._open  # what is under way counts next time, too
            time.sleep(SILENCE)
            if self._open:
                self._words.look(self._done)
        self._words.end(self._done)
        self._speaks = False

    def alone(self) -> None:
        """Ask no other process to help."""
        self._asked.update(KINDS.values())

    def unheard(self) -> None:
        """Say nothing: what the process that helps says goes nowhere, and would keep the others silent."""
        self._speaks = True

    def begin(self) -> None:
        """Start the processes that compile beside this one, where nothing has been compiled yet.

        They take half a second to import what this one is importing, and compile what any solve needs until they are
        told its kind.
        """
        with suppress(OSError):
            if self._first("ahead"):
                self._helpers = self._started()

    def _begin_ahead(self, kind: str) -> None:
        """Have the loops of a kind of solve compiled on other cores, from the last, while this process begins.

        Where it fails, as without a core to spare, this process does all of it. A thread would not do: numba compiles
        in one at a time.
        """
        with suppress(OSError, ValueError):  # ValueError: a helper has ended meanwhile
            if self._first(f"ahead-{kind}"):
                helpers, self._helpers = [each for each in self._helpers if each.poll() is None], []
                for helper in helpers or self._started():
                    assert helper.stdin is not None
                    with helper.stdin as told:
                        told.write(f"{kind}\n".encode())

    def _first(self, mark: str) -> bool:
        """Whether no process has left this mark in the cache: each thing is begun once, however many share it.

        OSError: nothing can be written there.
        """
        if not self._folder:
            return False
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (folder / mark).open("x").close()
            return True
        return False

    def _started(self) -> list[subprocess.Popen[bytes]]:
        """Processes that wait for a kind, as many as there are cores to spare."""
        count, started = min(len(os.sched_getaffinity(0)) - 1, MOST_HELPERS), []
        for number in range(count if sys.executable else 0):
            helper = subprocess.Popen(
                # -P: no module of the working folder's
                [sys.executable, "-P", "-m", "dsolver.kernels.cpu.ahead", str(number), str(count)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C is not meant for it: it ends by itself, after seconds
            )
            threading.Thread(target=_ended, args=(helper,), name="dsolver-ahead", daemon=True).start()
            started.append(helper)
        return started


def _ended(helper: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a helper, which may not have been told a kind: its pipe is closed."""
    helper.wait()
    assert helper.stdin is not None
    with suppress(OSError):
        helper.stdin.close()


def _module(event: Any) -> str:
    return str(event.data["dispatcher"].py_func.__module__)
