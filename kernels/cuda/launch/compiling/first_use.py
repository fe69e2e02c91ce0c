"""Notices while kernels are compiled for the first time on a machine, side by side where there are several."""

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from dsolver.kernels.first_use import SILENCE, Words

CACHE: Final = Path(os.environ.get("CUPY_CACHE_DIR", "~/.cupy/kernel_cache"))
"""Folder of CuPy, in which processes find what others have compiled."""
CACHED: Final = 0.2  # seconds that a module takes from CuPy's cache on disk, at most


class _Compiled:
    """The number of modules compiled in this process, and the seconds of waiting for them since the last look."""

    done = 0
    quiet = 0.0

    def __init__(self) -> None:
        self._words = Words("this GPU", str(CACHE.expanduser()))

    def wait(self, some: set[Future[None]]) -> set[Future[None]]:
        """The futures that are not done after the time in which nothing need be said."""
        began = time.monotonic()
        done, rest = wait(some, timeout=SILENCE - self.quiet)
        self.done += len(done)
        self.quiet += time.monotonic() - began
        if self.quiet >= SILENCE:
            self.quiet = 0.0
            self._words.look(self.done)
        return rest


_compiled: Final = _Compiled()


class _Beside:
    """Modules that are compiled by threads of their own, each once, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._asked: dict[int, tuple[Any, Future[None]]] = {}
        self._lock, self._threads = threading.Lock(), 0

    def asked(self, module: Any) -> Future[None] | None:
        """The future of a module that was asked for; None where it was not."""
        return self._asked.get(id(module), (None, None))[1]

    def ask(self, module: Any) -> Future[None]:
        """The future of a module, with a thread for it unless all cores have one."""
        with self._lock:
            if (asked := self.asked(module)) is not None:
                return asked
            future = self._put_down(module)
            self._queue.put((module, _device(), future))
            if self._threads < (os.cpu_count() or 1):
                self._threads += 1
                threading.Thread(target=self._serve, name="dsolver-compile", daemon=True).start()
        return future

    def ask_now(self, module: Any) -> Future[None]:
        """Ask for a module as `ask` does, with a thread of its own."""
        future = self._put_down(module)
        future.set_running_or_notify_cancel()
        given = (module, _device(), future)
        threading.Thread(target=_compile, args=given, name="dsolver-compile", daemon=True).start()
        return future

    def end(self) -> None:
        """Let those that are being compiled end, and no more begin: a process that ends in the middle of one aborts."""
        futures = [future for _, future in self._asked.values()]
        for future in futures:
            future.cancel()
        wait(futures)

    def _put_down(self, module: Any) -> Future[None]:
        if not self._asked:
            atexit.register(self.end)
        future: Future[None] = Future()
        self._asked[id(module)] = module, future
        return future

    def _serve(self) -> None:
        while True:
            module, device, future = self._queue.get()
            if future.set_running_or_notify_cancel():
                _compile(module, device, future)


_beside: Final = _Beside()


def begin(module: Any, others: Callable[[], Iterable[Any]]) -> None:
    """`compile_module` for a module that is wanted soon, without a wait."""
    given = (_device(), module, others)
    threading.Thread(target=_begin_on, args=given, name="dsolver-compile", daemon=True).start()


def _begin_on(device: int, module: Any, others: Callable[[], Iterable[Any]]) -> None:
    import cupy

    with cupy.cuda.Device(device):
        _begin(module, others)


def _begin(module: Any, others: Callable[[], Iterable[Any]]) -> Future[None]:
    """The future of a module, beside which others are compiled where it is not in the cache."""
    future = _beside.ask(module)
    if wait([future], timeout=CACHED).not_done:
        for other in others():
            _beside.ask(other)
    return future


def compile_module(module: Any, others: Callable[[], Iterable[Any]]) -> None:
    """Compile one of CuPy's modules for the current device, or read it from CuPy's cache on disk.

    `others`: gives modules that are wanted soon. Where nothing is in the cache, as the time of this one tells, they are
    compiled beside it by all cores.
    """
    future = _beside.asked(module)
    if future is None:
        future = _begin(module, others)
    elif future.cancel():  # it waits for a core
        future = _beside.ask_now(module)
    wait_for_module(module, future)


def wait_for_module(module: Any, future: Future[None]) -> None:
    """Wait for a module; another thread, which could not wait for a core, may have cancelled it and asked anew."""
    rest = {future}
    while rest:
        rest = _compiled.wait(rest)
    asked = _beside.asked(module)
    if future.cancelled() and asked is not None and asked is not future:
        wait_for_module(module, asked)
    else:
        future.result()


def _device() -> int:
    import cupy

    return int(cupy.cuda.runtime.getDevice())


def _compile(module: Any, device: int, future: Future[None]) -> None:
    import cupy

    try:
        with cupy.cuda.Device(device):
            module.compile()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(None)
