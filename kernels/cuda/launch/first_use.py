"""Notices while kernels are compiled for the first time on a machine, side by side where there are several."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, final

logger = logging.getLogger(__name__)
SILENCE: Final = 1.0
"""Seconds without a word that nobody takes for a fault."""


@final
class _Words:
    """The number of modules compiled in this process, and the seconds in which nothing was said of that."""

    done = 0
    quiet = 0.0

    def wait(self, some: set[Future[None]]) -> set[Future[None]]:
        """The futures that are not done after the time in which nothing need be said."""
        began = time.monotonic()
        done, rest = wait(some, timeout=SILENCE - self.quiet)
        self.done += len(done)
        self.quiet += time.monotonic() - began
        if self.quiet >= SILENCE:
            self.quiet = 0.0
            logger.warning("compiling kernels for this GPU (first use only): %d so far", self.done)
        return rest


_words: Final = _Words()


def compile_all(modules: Sequence[Any]) -> None:
    """Compile CuPy's modules for the current device, or read them from CuPy's cache on disk."""
    import cupy

    device = cupy.cuda.runtime.getDevice()

    def compiled(module: Any) -> None:
        with cupy.cuda.Device(device):
            module.compile()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = [pool.submit(compiled, module) for module in modules]
        rest = set(futures)
        while rest:
            rest = _words.wait(rest)
        for future in futures:
            future.result()
